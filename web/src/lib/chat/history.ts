// Stored messages -> items. Pages come newest first; what a page's last calls led to is in the newer ones.
import type { Json } from "../contract/event";
import {
  answer,
  type AnswerItem,
  type AnswerStatus,
  type CardPart,
  type CardState,
  type FileView,
  type Item,
  type Part,
  type ToolPart,
} from "./model";

/** A message as `GET /api/assistant/history` shows it. */
export interface StoredMessage {
  id: number;
  turn_id: string | null;
  role: "user" | "assistant";
  content: string;
  finish: "completed" | "interrupted" | "cancelled" | "failed" | null;
  parts: StoredPart[] | null;
  files: FileView[];
  created_at: string;
}

export interface StoredPart {
  role: "assistant" | "tool" | string;
  content?: string;
  tool_calls?: { id: string; name: string; arguments: Json }[];
  tool_call_id?: string;
}

/** Results by call, of every page read so far. */
export type Results = Map<string, string>;

export function toItems(messages: readonly StoredMessage[], results: Results): Item[] {
  for (const message of messages)
    for (const part of message.parts ?? [])
      if (part.role === "tool" && part.tool_call_id) results.set(part.tool_call_id, part.content ?? "");
  return messages.map((message) => (message.role === "user" ? asUser(message) : asAnswer(message, results)));
}

function asUser(message: StoredMessage): Item {
  const { content, files } = message;
  return { kind: "user", key: `m${message.id}`, text: content, files, at: Date.parse(message.created_at) };
}

function asAnswer(message: StoredMessage, results: Results): AnswerItem {
  const status: AnswerStatus = message.finish ?? "completed";
  return {
    ...answer(`m${message.id}`, Date.parse(message.created_at)),
    turn_id: message.turn_id,
    status,
    parts: parts(message, results),
    failure: null,
  };
}

function parts(message: StoredMessage, results: Results): Part[] {
  const steps = message.parts ?? [];
  const own = new Set(steps.map((step) => step.tool_call_id).filter((id) => id !== undefined));
  const shown: Part[] = [];
  // The result of a decided call stands in the turn that the decision began; the call itself before it.
  for (const step of steps) {
    if (step.role === "assistant") {
      if (step.content) shown.push({ kind: "text", text: step.content, marks: null, ghost: "" });
      const calls = step.tool_calls ?? [];
      const gated =
        message.finish === "interrupted" ? calls.filter((call) => isGated(call.id, own, results)) : [];
      shown.push(
        ...calls.filter((call) => !gated.includes(call)).map((call) => tool(call, results.get(call.id))),
      );
      if (!gated.length) continue;
      const allowed = gated.filter((call) => outcome(results.get(call.id)) === "confirmed");
      shown.push(card(gated, results), ...allowed.map((call) => tool(call, results.get(call.id))));
    }
  }
  const said = shown.map((part) => (part.kind === "text" ? part.text : "")).join("");
  const whole = message.content;
  if (squeeze(said) === squeeze(whole)) return shown;
  const others = shown.filter((part) => part.kind !== "text");
  return whole ? [...others, { kind: "text", text: whole, marks: null, ghost: "" }] : others;
}

const squeeze = (text: string): string => text.replace(/\s+/g, "");

function isGated(call: string, own: Set<string>, results: Results): boolean {
  if (!own.has(call)) return true;
  const code = parse(results.get(call) ?? "").code;
  return code === "DENIED" || code === "CHECKPOINT_EXPIRED";
}

function card(calls: { id: string; name: string; arguments: Json }[], results: Results): CardPart {
  const outcomes = calls.map((call) => outcome(results.get(call.id)));
  const state: CardState = outcomes.every((one) => one === outcomes[0])
    ? (outcomes[0] ?? "unknown")
    : "mixed";
  return {
    kind: "card",
    id: `history:${calls[0]?.id ?? ""}`,
    prompt: "",
    calls: calls.map((call) => ({
      tool_call_id: call.id,
      tool: call.name,
      input: call.arguments,
      prompt: "",
    })),
    expires_at: null,
    state,
    reason: calls.map((call) => parse(results.get(call.id) ?? "").reason).find((one) => one !== null) ?? null,
    allowed:
      state === "mixed"
        ? calls.filter((_, index) => outcomes[index] === "confirmed").map((call) => call.id)
        : null,
  };
}

function outcome(result: string | undefined): CardState {
  if (result === undefined) return "unknown";
  const { code } = parse(result);
  if (code === "DENIED") return "denied";
  return code === "CHECKPOINT_EXPIRED" ? "expired" : "confirmed";
}

function tool(call: { id: string; name: string; arguments: Json }, result: string | undefined): ToolPart {
  const { value, code, message } = parse(result ?? "");
  const failed = code !== null || result === undefined;
  return {
    kind: "tool",
    id: call.id,
    tool: call.name,
    input: call.arguments,
    state: failed ? "failed" : "done",
    output: failed ? null : value,
    error: failed ? message : "",
    code,
    started_at: null,
    ended_at: null,
  };
}

/** A failed call's result is `{"error": CODE, "message": …}`, written for the model. */
function parse(result: string): { value: Json; code: string | null; message: string; reason: string | null } {
  let value: Json = result;
  try {
    value = JSON.parse(result) as Json;
  } catch {
    return { value, code: null, message: "", reason: null };
  }
  const fields = typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
  const code =
    typeof fields["error"] === "string" && /^[A-Z_]+$/.test(fields["error"]) ? fields["error"] : null;
  const text = (key: string) => (typeof fields[key] === "string" ? fields[key] : null);
  return { value, code, message: code ? (text("message") ?? "") : "", reason: text("user_reason") };
}
