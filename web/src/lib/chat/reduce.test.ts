import { describe, expect, test } from "vitest";
import type { Event } from "../contract/event";
import { empty, lastAnswer, liveAnswer, openCard, textOf, type Conversation, type Part } from "./model";
import { reduce, type ChatEvent } from "./reduce";

const ID = "conv";
const play = (events: readonly ChatEvent[], from: Conversation = empty(ID)) => events.reduce(reduce, from);
const sent = (key = "k", text = "hi"): ChatEvent => ({ type: "sent", key, text, files: [], at: 1 });
const got = (event: Event, cursor?: number): ChatEvent => ({
  type: "received",
  at: 1000,
  received: { event, conversation_id: ID, ...(cursor === undefined ? {} : { cursor: String(cursor) }) },
});
const token = (text: string, cursor: number) => got({ type: "stream_token", token: text }, cursor);
const start = (id: string, cursor: number) =>
  got({ type: "tool_start", tool_call_id: id, tool: "search", input: { q: 1 } }, cursor);
const end = (id: string, cursor: number) =>
  got({ type: "tool_end", tool_call_id: id, tool: "search", output: [1] }, cursor);
const closing = (content: string, cursor: number, status: "completed" | "cancelled" = "completed") =>
  got({ type: "message", content, turn_id: "t", status }, cursor);
const turnEnd = (
  cursor: number,
  status: "completed" | "interrupted" | "cancelled" | "failed" = "completed",
) => got({ type: "turn_end", status, usage: { input_tokens: 1, output_tokens: 2, steps: 1 } }, cursor);
const card = (id = "c", calls = ["call"]): Event & { type: "confirm_required" } => ({
  type: "confirm_required",
  confirmation_id: id,
  prompt: "Sure?",
  calls: calls.map((call) => ({ tool_call_id: call, tool: "deploy", input: {}, prompt: "" })),
  expires_at: "2026-11-30T12:15:00Z",
});
const resolved = (result: "confirmed" | "denied" | "expired", reason?: string, id = "c"): Event => ({
  type: "confirm_resolved",
  confirmation_id: id,
  result,
  tool_call_ids: ["call"],
  ...(reason ? { reason } : {}),
});
const complete: ChatEvent = { type: "ended", how: "complete" };

/** A readable line per part. */
function show(conversation: Conversation): string[] {
  const part = (one: Part) => {
    if (one.kind === "text") return `"${one.text}"${one.ghost ? `~"${one.ghost}"` : ""}`;
    if (one.kind === "tool") return `${one.id} ${one.state}`;
    if (one.kind === "card") return `card ${one.state}${one.reason ? ` (${one.reason})` : ""}`;
    return `note ${one.code}`;
  };
  return conversation.items.map((item) =>
    item.kind === "user"
      ? `user "${item.text}"`
      : [`answer ${item.status}`, ...(item.failure ? [item.failure.code] : []), ...item.parts.map(part)].join(
          " | ",
        ),
  );
}

describe("a turn", () => {
  const turn = [
    sent(),
    token("Let ", 3),
    token("me look. ", 4),
    start("a", 5),
    start("b", 6),
    end("b", 7),
    got({ type: "tool_error", tool_call_id: "a", tool: "search", error: "no", code: "TOOL_FAILURE" }, 8),
    token("\n\nDone.", 9),
    turnEnd(10),
    closing("Let me look. \n\nDone.", 10),
    closing("Let me look. \n\nDone.", 10),
    complete,
  ];
  const expected = ['user "hi"', 'answer completed | "Let me look. " | a failed | b done | "\n\nDone."'];

  test("becomes text and cards in the order of what happened", () => {
    const conversation = play(turn);
    expect(show(conversation)).toEqual(expected);
    expect(conversation.live).toBeNull();
    expect(lastAnswer(conversation)).toMatchObject({ turn_id: "t", usage: { output_tokens: 2 } });
  });

  test("is the same after a replay from anywhere, at any point", () => {
    const events = turn.slice(1, -1);
    for (let cut = 0; cut <= events.length; cut++)
      for (let from = 0; from <= cut; from++) {
        const played = play([sent(), ...events.slice(0, cut), { type: "ended", how: "lost" }]);
        const attached = play([{ type: "joined", key: "other", turn_id: null, at: 2 }], played);
        // Without a turn's id nobody can tell that it is the same: the page always knows it.
        expect(attached.items).toHaveLength(3);
        const again = play([...events.slice(from), complete], played);
        expect(show(again), `cut ${cut} from ${from}`).toEqual(expected);
      }
  });

  test("that each event delivers twice is the same", () => {
    const twice = turn.flatMap((event): ChatEvent[] =>
      event.type === "received" ? [event, event] : [event],
    );
    expect(show(play(twice))).toEqual(expected);
  });

  test("ignores what comes late or belongs elsewhere", () => {
    const before = play([sent(), token("a", 5)]);
    const late = play([token("x", 4), token("y", 5)], before);
    expect(late).toEqual(before);
    const other: ChatEvent = {
      type: "received",
      at: 1,
      received: { event: { type: "stream_token", token: "z" }, cursor: "9", conversation_id: "other" },
    };
    expect(reduce(before, other)).toBe(before);
    expect(reduce(before, got({ type: "unknown", name: "hologram" }, 6)).items[1]).toMatchObject({
      parts: [{ text: "a" }],
    });
    const over = play(turn);
    expect(reduce(over, token("more", 99))).toBe(over);
  });

  test("that was joined in the middle shows the whole text in the end", () => {
    const joined = play([{ type: "joined", key: "j", turn_id: "t", at: 1 }, token("tail", 9)]);
    expect(show(play([closing("head and tail", 10)], joined))).toEqual([
      'answer completed | "head and tail"',
    ]);
    const short = play([{ type: "joined", key: "j", turn_id: "t", at: 1 }, token("head", 3)]);
    expect(show(play([closing("head and tail", 10)], short))).toEqual(['answer completed | "head and tail"']);
  });

  test("of a gap gets its text from the plain message", () => {
    const events = [
      sent(),
      start("a", 3),
      got({ type: "stream_gap", from: "4", to: "9" }, 9),
      closing("all", 9),
    ];
    expect(show(play(events))[1]).toBe('answer completed | a running | "all"');
  });

  test("goes on in the same answer after the connection was lost", () => {
    const lost = play([sent(), token("one ", 3), { type: "ended", how: "lost" }]);
    expect(liveAnswer(lost)?.cursor).toBe("3");
    const back = play([token("two", 4), closing("one two", 5), complete], lost);
    expect(show(back)).toEqual(['user "hi"', 'answer completed | "one two"']);
  });

  test("that is known by its id is continued, not begun again", () => {
    const first = play([{ type: "joined", key: "j", turn_id: "t", at: 1 }, token("one ", 3)]);
    const again = play(
      [{ type: "joined", key: "other", turn_id: "t", at: 2 }, token("one ", 3), token("two", 4)],
      first,
    );
    expect(show(again)).toEqual(['answer streaming | "one two"']);
  });

  test("keeps its partial text when it is stopped", () => {
    const events = [
      sent(),
      token("half", 3),
      turnEnd(4, "cancelled"),
      closing("half", 4, "cancelled"),
      complete,
    ];
    expect(show(play(events))[1]).toBe('answer cancelled | "half"');
    const nothing = [sent(), turnEnd(4, "cancelled"), closing("", 4, "cancelled"), complete];
    expect(show(play(nothing))[1]).toBe("answer cancelled");
  });

  test("that fails says why, and what it had said", () => {
    const error: Event = { type: "error", code: "LLM_UNAVAILABLE", detail: "", retryable: true, extra: {} };
    const events = [sent(), token("half", 3), turnEnd(5, "failed"), got(error, 4), got(error, 4), complete];
    expect(show(play(events))[1]).toBe('answer failed | LLM_UNAVAILABLE | "half"');
  });

  test("without any last word is marked", () => {
    expect(show(play([sent(), complete]))[1]).toBe("answer lost");
  });

  test("that was refused can leave the screen", () => {
    const failure = { code: "CONVERSATION_BUSY", detail: "", retryable: true };
    const refused = play([sent(), { type: "refused", failure }]);
    expect(show(refused)[1]).toBe("answer failed | CONVERSATION_BUSY");
    expect(play([{ type: "dropped", key: "k" }], refused)).toEqual(empty(ID));
  });

  test("shows warnings where they came", () => {
    const warning = got({ type: "warning", code: "MESSAGE_TRUNCATED", detail: "cut" }, 3);
    expect(show(play([sent(), warning, token("a", 4)]))[1]).toBe(
      'answer streaming | note MESSAGE_TRUNCATED | "a"',
    );
  });
});

describe("a rewind", () => {
  const rewind = (to: number, cursor: number) => got({ type: "rewind", to_cursor: String(to) }, cursor);
  const begun = play([sent(), token("one ", 3), token("two ", 4), token("three", 5)]);

  test("withdraws exactly the later text, at every point", () => {
    const texts = ["", "one ", "one two ", "one two three"];
    for (const [index, text] of texts.entries()) {
      const back = reduce(begun, rewind(index + 2, 6));
      expect(textOf(lastAnswer(back) as never)).toBe(text);
    }
  });

  test("keeps the withdrawn text on the screen while it is told again", () => {
    const back = reduce(begun, rewind(3, 6));
    expect(show(back)[1]).toBe('answer streaming | "one "~"two three"');
    expect(show(play([token("tw", 7)], back))[1]).toBe('answer streaming | "one tw"~"o three"');
    expect(show(play([token("tw", 7), token("o three", 8)], back))[1]).toBe(
      'answer streaming | "one two three"',
    );
    expect(show(play([token("2", 7)], back))[1]).toBe('answer streaming | "one 2"');
  });

  test("leaves nothing behind when the turn ends or goes on otherwise", () => {
    const back = reduce(begun, rewind(3, 6));
    expect(show(play([closing("one ", 7)], back))[1]).toBe('answer completed | "one "');
    expect(show(play([start("a", 7)], back))[1]).toBe('answer streaming | "one " | a running');
    expect(show(play([rewind(2, 6), start("a", 7)], begun))[1]).toBe("answer streaming | a running");
  });

  test("keeps the cards, and takes back the text behind them", () => {
    const events = [
      sent(),
      token("a", 3),
      start("x", 4),
      end("x", 5),
      token("b", 6),
      rewind(5, 7),
      token("b!", 8),
    ];
    expect(show(play(events))[1]).toBe('answer streaming | "a" | x done | "b!"');
  });

  test("comes twice and does nothing more", () => {
    const once = play([rewind(3, 6), token("x", 7)], begun);
    expect(play([rewind(3, 6)], once)).toEqual(once);
  });
});

describe("tools", () => {
  test("that have ended never spin again", () => {
    const done = play([sent(), start("a", 3), end("a", 4)]);
    expect(show(play([start("a", 5)], done))[1]).toBe("answer streaming | a done");
    expect(
      show(play([got({ type: "tool_error", tool_call_id: "a", tool: "s", error: "" }, 6)], done))[1],
    ).toBe("answer streaming | a done");
  });

  test("may be seen at their end only", () => {
    expect(show(play([sent(), end("a", 4)]))[1]).toBe("answer streaming | a done");
  });

  test("tell how long they run", () => {
    const progress = got({ type: "tool_progress", tool_call_id: "a", tool: "search", elapsed_s: 35 }, 4);
    const part = lastAnswer(play([sent(), start("a", 3), progress]))?.parts[0];
    expect(part).toMatchObject({ state: "running", started_at: 1000 - 35_000 });
    expect(show(play([sent(), progress]))[1]).toBe("answer streaming | a running");
  });
});

describe("a card", () => {
  const asked = play([
    sent(),
    token("Wait. ", 3),
    turnEnd(5, "interrupted"),
    got(card(), 4),
    got(card(), 4),
    complete,
  ]);
  const decided = (event: Event) =>
    play(
      [
        { type: "deciding", confirmation_id: "c" },
        { type: "joined", key: "d", turn_id: null, at: 2 },
        got(event, 8),
      ],
      asked,
    );

  test("is shown once, after the text", () => {
    expect(show(asked)).toEqual(['user "hi"', 'answer interrupted | "Wait. " | card open']);
    expect(openCard(asked)?.id).toBe("c");
  });

  test("that is confirmed runs its call in the turn that goes on", () => {
    const done = play(
      [start("call", 9), end("call", 10), closing("", 12), complete],
      decided(resolved("confirmed")),
    );
    expect(show(done)).toEqual([
      'user "hi"',
      'answer interrupted | "Wait. " | card confirmed',
      "answer completed | call done",
    ]);
    expect(openCard(done)).toBeNull();
  });

  test("that is denied shows no failed tool", () => {
    const denied = got(
      { type: "tool_error", tool_call_id: "call", tool: "deploy", error: "", code: "DENIED" },
      9,
    );
    const done = play([denied, token("OK.", 10)], decided(resolved("denied", "not now")));
    expect(show(done).slice(1)).toEqual([
      'answer interrupted | "Wait. " | card denied (not now)',
      'answer streaming | "OK."',
    ]);
  });

  test("that was decided elsewhere shows how, whatever was pressed here", () => {
    const extra = { confirmation_id: "c", result: "denied", reason: "not now" };
    const late: Event = { type: "error", code: "ALREADY_RESOLVED", detail: "", retryable: false, extra };
    expect(show(decided(late))[1]).toBe('answer interrupted | "Wait. " | card denied (not now)');
    const expired: Event = {
      type: "error",
      code: "CHECKPOINT_EXPIRED",
      detail: "",
      retryable: false,
      extra: { confirmation_id: "c" },
    };
    expect(show(decided(expired))[1]).toBe('answer interrupted | "Wait. " | card expired');
  });

  test("is closed by a message that overtakes it", () => {
    const next = play([sent("k2", "no"), got(resolved("denied", "superseded"), 8)], asked);
    expect(show(next)[1]).toBe('answer interrupted | "Wait. " | card denied (superseded)');
  });

  test("expires by the clock, once, and not after a decision", () => {
    expect(show(play([{ type: "expired", confirmation_id: "c" }], asked))[1]).toContain("card expired");
    const confirmed = decided(resolved("confirmed"));
    expect(play([{ type: "expired", confirmation_id: "c" }], confirmed)).toEqual(confirmed);
  });

  test("is what the server says after a reload", () => {
    const active = (one: ReturnType<typeof card> | null): ChatEvent => ({
      type: "card",
      card: one,
      key: "x",
      at: 3,
    });
    const deciding = reduce(asked, { type: "deciding", confirmation_id: "c" });
    expect(show(reduce(deciding, active(card())))[1]).toContain("card open");
    expect(show(reduce(asked, active(null)))[1]).toContain("card unknown");
    expect(reduce(asked, active(card())).items[1]).toEqual(asked.items[1]);
    const reloaded = play([sent()]);
    expect(show(reduce({ ...reloaded, items: reloaded.items.slice(0, 1) }, active(card())))).toEqual([
      'user "hi"',
      "answer interrupted | card open",
    ]);
  });
});
