// What a screen shows of a conversation. Values only: reduce.ts makes the next one from the last.
import type { Call, Json, Outcome, Timings, Usage } from "../contract/event";

export interface FileView {
  path: string;
  name: string;
  mime: string;
  size: number;
}

export interface UserItem {
  kind: "user";
  key: string;
  text: string;
  files: readonly FileView[];
  /** Milliseconds since 1970. */
  at: number;
}

/** Where a piece of streamed text ended; newest first. */
export interface Mark {
  cursor: string;
  length: number;
  before: Mark | null;
}

export interface TextPart {
  kind: "text";
  text: string;
  marks: Mark | null;
  /** Withdrawn text, shown until what replaces it says something else. */
  ghost: string;
}

export interface ToolPart {
  kind: "tool";
  id: string;
  tool: string;
  input: Json;
  state: "running" | "done" | "failed";
  output: Json;
  error: string;
  code: string | null;
  started_at: number | null;
  ended_at: number | null;
}

export type CardState = "open" | "deciding" | "unknown" | Outcome;

export interface CardPart {
  kind: "card";
  id: string;
  prompt: string;
  calls: readonly Call[];
  /** Milliseconds since 1970; `null` for a card that history remembers. */
  expires_at: number | null;
  state: CardState;
  reason: string | null;
  /** Calls that were allowed, where the decision wasn't one for all. */
  allowed: readonly string[] | null;
}

export interface NotePart {
  kind: "note";
  code: string;
  detail: string;
}

export type Part = TextPart | ToolPart | CardPart | NotePart;

export interface Failure {
  code: string;
  detail: string;
  retryable: boolean;
}

export type AnswerStatus =
  "waiting" | "streaming" | "completed" | "interrupted" | "cancelled" | "failed" | "lost";

export interface AnswerItem {
  kind: "answer";
  key: string;
  turn_id: string | null;
  parts: readonly Part[];
  status: AnswerStatus;
  failure: Failure | null;
  /** Of the last event that counted. */
  cursor: string | null;
  usage: Usage | null;
  timings: Timings | null;
  at: number;
}

export type Item = UserItem | AnswerItem;

export interface Conversation {
  /** As the client calls it. */
  id: string;
  items: readonly Item[];
  /** Key of the answer that events go to. */
  live: string | null;
}

export const empty = (id: string): Conversation => ({ id, items: [], live: null });

export const answer = (key: string, at: number): AnswerItem => ({
  kind: "answer",
  key,
  turn_id: null,
  parts: [],
  status: "waiting",
  failure: null,
  cursor: null,
  usage: null,
  timings: null,
  at,
});

export const liveAnswer = (conversation: Conversation): AnswerItem | null => {
  const found = conversation.items.findLast((item) => item.key === conversation.live);
  return found?.kind === "answer" ? found : null;
};

export const lastAnswer = (conversation: Conversation): AnswerItem | null => {
  const found = conversation.items.at(-1);
  return found?.kind === "answer" ? found : null;
};

export const openCard = (conversation: Conversation): CardPart | null => {
  for (const item of conversation.items.toReversed()) {
    const card = item.kind === "answer" ? item.parts.findLast((part) => part.kind === "card") : undefined;
    if (card) return card.state === "open" || card.state === "deciding" ? card : null;
    if (item.kind === "user") return null;
  }
  return null;
};

/** The whole answer, as copying takes it. */
export const textOf = (item: AnswerItem): string =>
  item.parts
    .filter((part) => part.kind === "text")
    .map((part) => part.text)
    .join("");

export const isWriting = (item: AnswerItem): boolean =>
  item.status === "waiting" || item.status === "streaming";
