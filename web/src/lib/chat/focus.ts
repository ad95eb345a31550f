// The object that host and chat both look at. The host's focus travels at the end of a message, in a form
// that people and models can read; the agent's is read from its tool calls.
import type { Json } from "../contract/event";

export interface Focus {
  /** What kind of thing it is, e.g. `dashboard`. */
  type: string;
  id: string;
  title?: string;
}

const MARK = /\n\n\[([a-z][a-z0-9_-]{0,39}) ([^\s\]"]{1,80})(?: "([^"\n]{1,120})")?\]$/;

export function withFocus(text: string, focus: Focus | null): string {
  if (!focus) return text;
  const title = focus.title?.replace(/["\n]/g, " ").slice(0, 120);
  const marked = `${text}\n\n[${focus.type} ${focus.id}${title ? ` "${title}"` : ""}]`;
  return MARK.test(marked) ? marked : text;
}

export function splitFocus(text: string): { text: string; focus: Focus | null } {
  const found = MARK.exec(text);
  if (!found?.[1] || !found[2]) return { text, focus: null };
  const focus: Focus = { type: found[1], id: found[2], ...(found[3] ? { title: found[3] } : {}) };
  return { text: text.slice(0, found.index), focus };
}

/** A title that the server made of a message's first words: the mark may be cut, and its line breaks are spaces. */
export const plainTitle = (title: string): string =>
  title.replace(/\s+\[[a-z][a-z0-9_-]{0,39} [^\s\]"]{1,80}(?: "[^"]*"?)?(?:\]|…)?$/, "");

/** What a call is about: the first `<something>_id` of its input. */
export function touched(input: Json): Focus | null {
  if (typeof input !== "object" || input === null || Array.isArray(input)) return null;
  for (const [key, value] of Object.entries(input)) {
    const type = /^([a-z]+(?:_[a-z]+)*)_ids?$/.exec(key)?.[1];
    const one = Array.isArray(value) ? value[0] : value;
    if (type && (typeof one === "string" || typeof one === "number") && one !== "")
      return { type, id: String(one) };
  }
  return null;
}
