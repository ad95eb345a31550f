// Markdown that grows. Finished blocks are parsed once and keep their identity, so a screen that shows them
// only ever changes the last one.
import { Lexer, type Token, type Tokens } from "marked";

export interface Block {
  /** Stable for as long as the text only grows. */
  key: number;
  token: Token;
  /** The rest of the block before it: a very long paragraph or list is cut, so that no frame lays all of it out. */
  continues: boolean;
}

export interface Parsed {
  text: string;
  settled: readonly Block[];
  settledLength: number;
  settledContinues: boolean;
  tail: readonly Block[];
}

export const nothing: Parsed = { text: "", settled: [], settledLength: 0, settledContinues: false, tail: [] };

const LONG_PARAGRAPH = 3000;
const LONG_LIST = 40;

const lex = (source: string): Token[] => new Lexer({ gfm: true, breaks: true }).lex(source);

/** The text as blocks, `before` being an earlier state of the same text. */
export function grow(before: Parsed, raw: string, isStreaming: boolean): Parsed {
  const text = raw.includes("\r") ? raw.replace(/\r\n?/g, "\n") : raw;
  const base = text.startsWith(before.text.slice(0, before.settledLength)) ? before : nothing;
  const settled = [...base.settled];
  let { settledLength, settledContinues: continues } = base;
  let tokens = lex(text.slice(settledLength));
  for (;;) {
    // The last block may still change its kind, and blank lines after it belong to it.
    const last = tokens.findLastIndex((token) => token.type !== "space");
    for (const token of tokens.slice(0, Math.max(0, last))) {
      settledLength += token.raw.length;
      if (token.type === "space") continue;
      settled.push({ key: settled.length, token, continues });
      continues = false;
    }
    const open = tokens[last];
    const cut = open && cutLong(open);
    if (!cut) break;
    settledLength += cut.raw.length;
    settled.push({ key: settled.length, token: cut, continues });
    continues = true;
    tokens = lex(text.slice(settledLength));
  }
  const rest = text.slice(settledLength);
  const shown = isStreaming
    ? lex(mend(rest))
    : tokens.slice(
        Math.max(
          0,
          tokens.findLastIndex((token) => token.type !== "space"),
        ),
      );
  const tail = shown
    .filter((token) => token.type !== "space")
    .map((token, index) => ({ key: settled.length + index, token, continues: continues && index === 0 }));
  return { text, settled, settledLength, settledContinues: continues, tail };
}

function cutLong(token: Token): Token | null {
  if (token.type === "paragraph" && token.raw.length > LONG_PARAGRAPH)
    return cutParagraph(token as Tokens.Paragraph);
  if (token.type === "list" && (token as Tokens.List).items.length > LONG_LIST)
    return cutList(token as Tokens.List);
  return null;
}

function cutParagraph(token: Tokens.Paragraph): Token | null {
  const room = token.raw.slice(0, LONG_PARAGRAPH - 500);
  const sentence = room.lastIndexOf(". ");
  const at = (sentence < 0 ? room.lastIndexOf(" ") : sentence) + 1;
  const raw = token.raw.slice(0, at);
  const isWhole = ["`", "**", "[", "]"].every((mark) => (raw.split(mark).length - 1) % 2 === 0);
  if (at < LONG_PARAGRAPH / 4 || !isWhole) return null;
  const cut = lex(raw)[0];
  return cut ? { ...cut, raw } : null;
}

function cutList(token: Tokens.List): Token {
  const items = token.items.slice(0, LONG_LIST - 10);
  return { ...token, items, raw: items.map((item) => item.raw).join("") };
}

/** What is being written, as if it were finished: no asterisks, pipes or half a link flash by. */
export function mend(source: string): string {
  const fences = source.match(/^ {0,3}(```|~~~)/gm) ?? [];
  if (fences.length % 2 === 1) return source;
  const start = source.lastIndexOf("\n\n") + 1;
  const head = source.slice(0, start);
  let block = source.slice(start);
  const lines = block.split("\n");
  const row = lines.findIndex((line) => /^\s*\|/.test(line));
  const isTable = row >= 0 && /^\s*\|?\s*:?-{2,}:?\s*(\|\s*:?-{2,}:?\s*)*\|\s*$/.test(lines[row + 1] ?? "");
  // A table is one only from its second line on, and a row only once it is whole.
  if (row >= 0 && !isTable) block = lines.slice(0, row).join("\n");
  else if (row >= 0 && !/\|\s*$/.test(lines.at(-1) ?? "")) block = lines.slice(0, -1).join("\n");
  // A lone marker would turn the line above it into a heading, or stand there as an empty item.
  block = block.replace(/\n\s*(?:[-*+=]+|\d+[.)]|#{1,6})?\s*$/, "");
  block = block.replace(/!?\[([^\]\n]*)\]\([^)\n]*$/, "$1").replace(/!?\[([^\]\n]*)$/, "$1");
  const bare = block.replace(/`[^`\n]*`/g, "");
  if ((bare.split("`").length - 1) % 2 === 1)
    return `${head}${block.replace(/`+$/, "")}${block.endsWith("`") ? "" : "`"}`;
  return head + closeEmphasis(block, bare);
}

function closeEmphasis(block: string, bare: string): string {
  const count = (mark: RegExp) => bare.match(mark)?.length ?? 0;
  const text = block.replace(/(\s|^)[*_~]+$/, "$1");
  if (text !== block) return closeEmphasis(text, text);
  if (count(/\*\*/g) % 2 === 1) return `${block.replace(/\*$/, "")}**`;
  if (count(/~~/g) % 2 === 1) return `${block}~~`;
  return block;
}

/** An address that a link may have: the web, mail, or a place of this site. */
export function safeHref(href: string): string | null {
  const compact = Array.from(href)
    .filter((char) => char > " ")
    .join("");
  if (/^(https?:|mailto:)/i.test(compact)) return href;
  return /^(\/(?![/\\])|#)/.test(compact) ? href : null;
}
