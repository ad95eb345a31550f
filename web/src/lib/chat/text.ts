// Streamed text inside an answer's parts: growing, being withdrawn by a rewind, being told again.
import { isAfter } from "../contract/event";
import type { Mark, Part, TextPart } from "./model";

const piece = (text: string, marks: Mark | null): TextPart => ({ kind: "text", text, marks, ghost: "" });

export function append(parts: readonly Part[], token: string, cursor: string | null): Part[] {
  const last = parts.at(-1);
  const before = last?.kind === "text" ? last : piece("", null);
  const text = before.text + token;
  const marks = cursor === null ? before.marks : { cursor, length: text.length, before: before.marks };
  const ghost = before.ghost.startsWith(token) ? before.ghost.slice(token.length) : "";
  const next: TextPart = { kind: "text", text, marks, ghost };
  return last?.kind === "text" ? [...parts.slice(0, -1), next] : [...parts, next];
}

/** Takes back text after `cursor`. The last part keeps it as a ghost, so that retelling doesn't flicker. */
export function rewind(parts: readonly Part[], cursor: string): Part[] {
  const kept = parts.map((part, index): Part => {
    if (part.kind !== "text") return part;
    let mark = part.marks;
    while (mark && isAfter(mark.cursor, cursor)) mark = mark.before;
    if (mark === part.marks) return part;
    const text = part.text.slice(0, mark?.length ?? 0);
    const ghost = index === parts.length - 1 ? part.text.slice(text.length) + part.ghost : "";
    return { kind: "text", text, marks: mark, ghost };
  });
  return kept.filter((part) => part.kind !== "text" || part.text !== "" || part.ghost !== "");
}

/** Before something other than text comes, and at the end: nothing withdrawn stays. */
export function settle(parts: readonly Part[]): readonly Part[] {
  const clean = (part: Part) => part.kind !== "text" || (part.ghost === "" && part.text !== "");
  if (parts.every(clean)) return parts;
  return parts
    .map((part) => (part.kind === "text" && part.ghost !== "" ? { ...part, ghost: "" } : part))
    .filter((part) => part.kind !== "text" || part.text !== "");
}

/** The parts with the text that the server has stored, whatever was missed of it. */
export function complete(parts: readonly Part[], whole: string): readonly Part[] {
  const seen = parts.map((part) => (part.kind === "text" ? part.text : "")).join("");
  if (seen === whole) return parts;
  if (seen !== "" && whole.startsWith(seen)) return append(parts, whole.slice(seen.length), null);
  const others = parts.filter((part) => part.kind !== "text");
  return whole === "" ? others : [...others, piece(whole, null)];
}
