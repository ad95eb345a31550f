// What a turn tells the screen: the metadata union of docs/protocol.md, read from the values that a Gradio
// client delivers. `shared/contract/fixtures` is the reference; event.test.ts reads it.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export type TurnStatus = "completed" | "interrupted" | "cancelled" | "failed" | "rejected";
export type Outcome = "confirmed" | "denied" | "mixed" | "expired" | "cancelled";

/** A call on a confirmation card. */
export interface Call {
  tool_call_id: string;
  tool: string;
  input: Json;
  prompt: string;
}

export interface Card {
  confirmation_id: string;
  prompt: string;
  calls: Call[];
  /** RFC 3339. */
  expires_at: string;
}

export interface Usage {
  input_tokens: number;
  output_tokens: number;
  steps: number;
}

export interface Timings {
  queue_ms: number;
  first_token_ms?: number;
  total_ms: number;
}

export type Event =
  | { type: "stream_token"; token: string }
  | { type: "tool_start"; tool_call_id: string; tool: string; input: Json }
  | { type: "tool_progress"; tool_call_id: string; tool: string; elapsed_s: number }
  | { type: "tool_end"; tool_call_id: string; tool: string; output: Json }
  | { type: "tool_error"; tool_call_id: string; tool: string; error: string; code?: string }
  | ({ type: "confirm_required" } & Card)
  | {
      type: "confirm_resolved";
      confirmation_id: string;
      result: Outcome;
      reason?: string;
      tool_call_ids: string[];
    }
  | { type: "warning"; code: string; detail: string }
  | { type: "rewind"; to_cursor: string }
  | { type: "stream_gap"; from: string; to: string }
  | { type: "error"; code: string; detail: string; retryable: boolean; extra: { [key: string]: Json } }
  | { type: "turn_end"; status: TurnStatus; usage?: Usage; timings?: Timings }
  /** Plain text as a whole; the last one of a turn says which turn and how it ended. */
  | { type: "message"; content: string; turn_id?: string; status?: TurnStatus }
  /** Something newer than this page. */
  | { type: "unknown"; name: string };

/** An event and where it stands. */
export interface Received {
  event: Event;
  /** Grows within a conversation; absent on what a gateway says by itself. */
  cursor?: string;
  conversation_id?: string;
}

const STATUSES: readonly TurnStatus[] = ["completed", "interrupted", "cancelled", "failed", "rejected"];
const OUTCOMES: readonly Outcome[] = ["confirmed", "denied", "mixed", "expired", "cancelled"];
const PLACE = new Set(["type", "cursor", "conversation_id", "thread_id"]);

type Fields = Record<string, unknown>;
const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const text = (value: unknown): string => (typeof value === "string" ? value : "");
const number = (value: unknown): number => (typeof value === "number" ? value : 0);
const json = (value: unknown): Json => (value === undefined ? null : (value as Json));
const texts = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((one): one is string => typeof one === "string") : [];
const oneOf = <T extends string>(value: unknown, of: readonly T[]): T | undefined =>
  of.find((one) => one === value);

/** One value of a submission: `event.data[0]`. */
export function parse(value: unknown): Received {
  if (!isFields(value)) return { event: { type: "message", content: text(value) } };
  const metadata = isFields(value["metadata"]) ? value["metadata"] : {};
  const received: Received = { event: parseEvent(metadata, text(value["content"])) };
  if (typeof metadata["cursor"] === "string") received.cursor = metadata["cursor"];
  if (typeof metadata["conversation_id"] === "string") received.conversation_id = metadata["conversation_id"];
  return received;
}

function parseEvent(data: Fields, content: string): Event {
  const call = { tool_call_id: text(data["tool_call_id"]), tool: text(data["tool"]) };
  switch (data["type"]) {
    case undefined:
    case null:
      return parsePlain(data, content);
    case "stream_token":
      return { type: "stream_token", token: text(data["token"]) };
    case "tool_start":
      return { type: "tool_start", ...call, input: json(data["input"]) };
    case "tool_progress":
      return { type: "tool_progress", ...call, elapsed_s: number(data["elapsed_s"]) };
    case "tool_end":
      return { type: "tool_end", ...call, output: json(data["output"]) };
    case "tool_error":
      return { type: "tool_error", ...call, error: text(data["error"]), ...optional("code", data["code"]) };
    case "confirm_required":
      return { type: "confirm_required", ...parseCard(data) };
    case "confirm_resolved":
      return {
        type: "confirm_resolved",
        confirmation_id: text(data["confirmation_id"]),
        result: oneOf(data["result"], OUTCOMES) ?? "denied",
        ...optional("reason", data["reason"]),
        tool_call_ids: texts(data["tool_call_ids"]),
      };
    case "warning":
      return { type: "warning", code: text(data["code"]), detail: text(data["detail"]) };
    case "rewind":
      return { type: "rewind", to_cursor: text(data["to_cursor"]) };
    case "stream_gap":
      return { type: "stream_gap", from: text(data["from"]), to: text(data["to"]) };
    case "error":
      return parseError(data);
    case "turn_end":
      return parseEnd(data);
    default:
      return { type: "unknown", name: text(data["type"]) };
  }
}

function parsePlain(data: Fields, content: string): Event {
  const status = oneOf(data["status"], STATUSES);
  return { type: "message", content, ...optional("turn_id", data["turn_id"]), ...(status ? { status } : {}) };
}

function parseError(data: Fields): Event {
  const known = new Set([...PLACE, "code", "detail", "retryable"]);
  const extra = Object.fromEntries(Object.entries(data).filter(([key]) => !known.has(key)));
  return {
    type: "error",
    code: text(data["code"]) || "INTERNAL",
    detail: text(data["detail"]),
    retryable: data["retryable"] === true,
    extra: extra as { [key: string]: Json },
  };
}

function parseEnd(data: Fields): Event {
  return {
    type: "turn_end",
    status: oneOf(data["status"], STATUSES) ?? "completed",
    ...(isFields(data["usage"]) ? { usage: data["usage"] as unknown as Usage } : {}),
    ...(isFields(data["timings"]) ? { timings: data["timings"] as unknown as Timings } : {}),
  };
}

/** The card of `confirm_required`, also as `GET …/active` shows it. */
export function parseCard(data: Fields): Card {
  const calls = Array.isArray(data["calls"]) ? data["calls"].filter(isFields) : [];
  return {
    confirmation_id: text(data["confirmation_id"]),
    prompt: text(data["prompt"]),
    calls: calls.map((call) => ({
      tool_call_id: text(call["tool_call_id"]),
      tool: text(call["tool"]),
      input: json(call["input"]),
      prompt: text(call["prompt"]),
    })),
    expires_at: text(data["expires_at"]),
  };
}

function optional<K extends string>(key: K, value: unknown): { [P in K]?: string } {
  return (typeof value === "string" ? { [key]: value } : {}) as { [P in K]?: string };
}

/** Whether cursor `a` lies after `b`: decimal numbers of any length. */
export function isAfter(a: string, b: string): boolean {
  return a.length === b.length ? a > b : a.length > b.length;
}
