// The one place where events change a conversation: (conversation, event) -> conversation. Pure: times and
// keys come with the event.
import { isAfter, type Card, type Event, type Received } from "../contract/event";
import {
  answer,
  type AnswerItem,
  type AnswerStatus,
  type CardPart,
  type Conversation,
  type Failure,
  type FileView,
  type Item,
  type Part,
  type ToolPart,
} from "./model";
import * as texts from "./text";

export type ChatEvent =
  | { type: "sent"; key: string; text: string; files: readonly FileView[]; at: number }
  /** A turn that goes on without a new message: after a decision, after signing in, or seen from here only. */
  | { type: "joined"; key: string; turn_id: string | null; at: number }
  | { type: "deciding"; confirmation_id: string }
  | { type: "received"; received: Received; at: number }
  /** The submission's stream is over. `lost`: it broke, and the turn may well go on. */
  | { type: "ended"; how: "complete" | "lost" }
  /** The submission was refused: nothing of it happened, except that it gave a reason. */
  | { type: "refused"; failure: Failure }
  /** A message that wasn't taken, or an answer that is to be asked for again, leaves the screen. */
  | { type: "dropped"; key: string }
  | { type: "card"; card: Card | null; key: string; at: number }
  | { type: "expired"; confirmation_id: string }
  | { type: "loaded"; items: readonly Item[] }
  | { type: "prepended"; items: readonly Item[] };

export function reduce(conversation: Conversation, event: ChatEvent): Conversation {
  switch (event.type) {
    case "sent": {
      const { key, text, files, at } = event;
      const user: Item = { kind: "user", key, text, files, at };
      const live = `${key}:answer`;
      return { ...conversation, items: [...conversation.items, user, answer(live, at)], live };
    }
    case "joined":
      return joined(conversation, event.key, event.turn_id, event.at);
    case "deciding":
      return onCard(conversation, event.confirmation_id, (card) =>
        card.state === "open" ? { ...card, state: "deciding" } : card,
      );
    case "received":
      return received(conversation, event.received, event.at);
    case "ended":
      return ended(conversation, event.how);
    case "refused":
      return onLive({ ...conversation, live: null }, conversation.live, (item) => ({
        ...item,
        parts: texts.settle(item.parts),
        status: "failed",
        failure: event.failure,
      }));
    case "dropped":
      return dropped(conversation, event.key);
    case "card":
      return shownCard(conversation, event.card, event.key, event.at);
    case "expired":
      return onCard(conversation, event.confirmation_id, (card) =>
        card.state === "open" || card.state === "deciding" ? { ...card, state: "expired" } : card,
      );
    case "loaded":
      return { ...conversation, items: event.items, live: null };
    case "prepended":
      return { ...conversation, items: [...event.items, ...conversation.items] };
  }
}

/** The live turn's answer is the last item, if that one belongs to the same turn or to none yet. */
function joined(conversation: Conversation, key: string, turn: string | null, at: number): Conversation {
  const last = conversation.items.at(-1);
  if (last?.kind === "answer" && turn !== null && last.turn_id === turn) {
    const open = { ...last, status: last.parts.length ? "streaming" : "waiting", failure: null } as const;
    return { ...conversation, items: [...conversation.items.slice(0, -1), open], live: last.key };
  }
  const fresh = { ...answer(key, at), turn_id: turn };
  return { ...conversation, items: [...conversation.items, fresh], live: key };
}

function dropped(conversation: Conversation, key: string): Conversation {
  const items = conversation.items.filter((item) => item.key !== key && item.key !== `${key}:answer`);
  const live = items.some((item) => item.key === conversation.live) ? conversation.live : null;
  return { ...conversation, items, live };
}

function ended(conversation: Conversation, how: "complete" | "lost"): Conversation {
  const done = { ...conversation, live: how === "lost" ? conversation.live : null };
  return onLive(done, conversation.live, (item) => {
    if (item.status !== "waiting" && item.status !== "streaming") return item;
    if (how === "lost") return item;
    return { ...item, parts: texts.settle(item.parts), status: "lost" };
  });
}

/** The card that the server says is open. Without one, a card that looks open here is no more. */
function shownCard(conversation: Conversation, card: Card | null, key: string, at: number): Conversation {
  const closed = conversation.items.map((item): Item => {
    if (item.kind === "user" || !item.parts.some((part) => isStale(part, card))) return item;
    const parts = item.parts.map((part): Part =>
      isStale(part, card) ? { ...part, state: "unknown" } : part,
    );
    return { ...item, parts };
  });
  const next = closed.some((item, index) => item !== conversation.items[index])
    ? { ...conversation, items: closed }
    : conversation;
  if (!card) return next;
  if (hasCard(next, card.confirmation_id))
    return onCard(next, card.confirmation_id, (old) => fresher(old, card));
  const last = next.items.at(-1);
  const home: AnswerItem = last?.kind === "answer" ? last : { ...answer(key, at), status: "interrupted" };
  const ids = new Set(card.calls.map((call) => call.tool_call_id));
  const others = home.parts.filter((part) => part.kind !== "tool" || !ids.has(part.id));
  const item: AnswerItem = { ...home, status: "interrupted", parts: [...others, asPart(card)] };
  const items = last?.kind === "answer" ? [...next.items.slice(0, -1), item] : [...next.items, item];
  return { ...next, items };
}

function isStale(part: Part, card: Card | null): part is CardPart {
  const looksOpen = part.kind === "card" && (part.state === "open" || part.state === "deciding");
  return looksOpen && part.id !== card?.confirmation_id;
}

function fresher(old: CardPart, card: Card): CardPart {
  const expires_at = Date.parse(card.expires_at);
  return old.state === "open" && old.expires_at === expires_at ? old : { ...asPart(card), state: "open" };
}

function received(conversation: Conversation, { event, ...place }: Received, at: number): Conversation {
  if (place.conversation_id && place.conversation_id !== conversation.id) return conversation;
  if (event.type === "confirm_resolved") conversation = resolved(conversation, event);
  if (event.type === "error") conversation = overtaken(conversation, event);
  return onLive(conversation, conversation.live, (item) => {
    // What ends a turn is told twice, and after a `turn_end` with a later cursor.
    const repeatable =
      event.type === "message" || event.type === "error" || event.type === "confirm_required";
    const seen = place.cursor !== undefined && item.cursor !== null && !isAfter(place.cursor, item.cursor);
    if (seen && !repeatable) return item;
    const next = onAnswer(conversation, item, event, place.cursor ?? null, at);
    if (place.cursor === undefined || seen) return next;
    return { ...next, cursor: place.cursor };
  });
}

function onAnswer(
  conversation: Conversation,
  item: AnswerItem,
  event: Event,
  cursor: string | null,
  at: number,
): AnswerItem {
  switch (event.type) {
    case "stream_token":
      return { ...item, status: "streaming", parts: texts.append(item.parts, event.token, cursor) };
    case "rewind":
      return { ...item, parts: texts.rewind(item.parts, event.to_cursor) };
    case "tool_start":
      return withTool(item, event.tool_call_id, (old) => old ?? started(event, at));
    case "tool_progress":
      return withTool(item, event.tool_call_id, (old) => {
        if (!old)
          return { ...started({ ...event, input: null }, at), started_at: at - event.elapsed_s * 1000 };
        return { ...old, started_at: Math.min(old.started_at ?? at, at - event.elapsed_s * 1000) };
      });
    case "tool_end":
      return withTool(item, event.tool_call_id, (old) => {
        const tool = old ?? { ...started({ ...event, input: null }, at), started_at: null };
        return { ...tool, state: "done", output: event.output, ended_at: at };
      });
    case "tool_error":
      // The card says that its call was denied.
      if (event.code === "DENIED" && hasCall(conversation, event.tool_call_id)) return item;
      return withTool(item, event.tool_call_id, (old) => {
        const tool = old ?? { ...started({ ...event, input: null }, at), started_at: null };
        return { ...tool, state: "failed", error: event.error, code: event.code ?? null, ended_at: at };
      });
    case "confirm_required":
      if (hasCard(conversation, event.confirmation_id)) return { ...item, status: "interrupted" };
      return { ...item, status: "interrupted", parts: [...texts.settle(item.parts), asPart(event)] };
    case "warning":
      return {
        ...item,
        parts: [...texts.settle(item.parts), { kind: "note", code: event.code, detail: event.detail }],
      };
    case "stream_gap":
      return item;
    case "error": {
      const { code, detail, retryable } = event;
      const status = code === "UNAUTHORIZED" ? "interrupted" : "failed";
      return { ...item, status, failure: { code, detail, retryable }, parts: texts.settle(item.parts) };
    }
    case "turn_end":
      return {
        ...item,
        status: asStatus(event.status),
        usage: event.usage ?? item.usage,
        timings: event.timings ?? item.timings,
        parts: texts.settle(item.parts),
      };
    case "message":
      return whole(item, event);
    case "confirm_resolved":
    case "unknown":
      return item;
  }
}

const asStatus = (status: "completed" | "interrupted" | "cancelled" | "failed" | "rejected"): AnswerStatus =>
  status === "rejected" ? "failed" : status;

/** Text as one piece: the closing one of a turn, or what a gap left out. */
function whole(item: AnswerItem, event: { content: string; turn_id?: string; status?: string }): AnswerItem {
  const parts = texts.complete(texts.settle(item.parts), event.content);
  if (event.status === undefined) return { ...item, parts };
  const status = event.status as "completed";
  return { ...item, parts, turn_id: event.turn_id ?? item.turn_id, status: asStatus(status) };
}

function started(
  event: { tool_call_id: string; tool: string; input: ToolPart["input"] },
  at: number,
): ToolPart {
  return {
    kind: "tool",
    id: event.tool_call_id,
    tool: event.tool,
    input: event.input,
    state: "running",
    output: null,
    error: "",
    code: null,
    started_at: at,
    ended_at: null,
  };
}

/** A call that has ended stays as it ended, however often it is announced. */
function withTool(item: AnswerItem, id: string, change: (old: ToolPart | undefined) => ToolPart): AnswerItem {
  const old = item.parts.find((part) => part.kind === "tool" && part.id === id) as ToolPart | undefined;
  if (!old) return { ...item, status: "streaming", parts: [...texts.settle(item.parts), change(undefined)] };
  if (old.state !== "running") return item;
  const next = change(old);
  return { ...item, parts: item.parts.map((part) => (part === old ? next : part)) };
}

const asPart = (card: Card): CardPart => ({
  kind: "card",
  id: card.confirmation_id,
  prompt: card.prompt,
  calls: card.calls,
  expires_at: Date.parse(card.expires_at),
  state: "open",
  reason: null,
  allowed: null,
});

function resolved(
  conversation: Conversation,
  event: Extract<Event, { type: "confirm_resolved" }>,
): Conversation {
  return onCard(conversation, event.confirmation_id, (card) => ({
    ...card,
    state: event.result,
    reason: event.reason ?? null,
  }));
}

/** A decision that came too late carries what was decided before. */
function overtaken(conversation: Conversation, event: Extract<Event, { type: "error" }>): Conversation {
  const id = event.extra["confirmation_id"];
  if (typeof id !== "string") return conversation;
  const result = event.extra["result"];
  const reason = event.extra["reason"];
  return onCard(conversation, id, (card) => ({
    ...card,
    state: typeof result === "string" ? (result as CardPart["state"]) : "expired",
    reason: typeof reason === "string" ? reason : card.reason,
  }));
}

const hasCard = (conversation: Conversation, id: string): boolean =>
  conversation.items.some(
    (item) => item.kind === "answer" && item.parts.some((part) => part.kind === "card" && part.id === id),
  );

const hasCall = (conversation: Conversation, call: string): boolean =>
  conversation.items.some(
    (item) =>
      item.kind === "answer" &&
      item.parts.some((part) => part.kind === "card" && part.calls.some((one) => one.tool_call_id === call)),
  );

function onCard(conversation: Conversation, id: string, change: (card: CardPart) => CardPart): Conversation {
  const items = conversation.items.map((item): Item => {
    if (item.kind !== "answer" || !item.parts.some((part) => part.kind === "card" && part.id === id))
      return item;
    const parts = item.parts.map((part) => (part.kind === "card" && part.id === id ? change(part) : part));
    return { ...item, parts };
  });
  return { ...conversation, items };
}

/** The live answer is one of the last items: nothing else is looked at per token. */
function onLive(
  conversation: Conversation,
  key: string | null,
  change: (item: AnswerItem) => AnswerItem,
): Conversation {
  const index = key === null ? -1 : conversation.items.findLastIndex((item) => item.key === key);
  const item = conversation.items[index];
  if (item?.kind !== "answer") return conversation;
  const next = change(item);
  return next === item ? conversation : { ...conversation, items: conversation.items.with(index, next) };
}
