// The event stream of one submission (GRADIO-PROTOCOL §5, §10). Needs the foreign worker.
import { Frames, LOOP_ENDS, ask, connect, conversation, drain, echoed, errorOf, hash, last, msg, need, rawJoin, same, sleep, slowScenario, tokens, types } from "../lib.mjs";

async function frames(text) {
  const session = hash();
  const event_id = await rawJoin(session, text);
  return [await Frames.session(session).end(), event_id];
}
async function submitted(text, more) {
  const app = await connect();
  const out = await ask(app, [msg(text), conversation(), null], more);
  app.close();
  return out;
}

export default {
  async frames_come_in_order_and_whole() {
    const [stream, event_id] = await frames("stream");
    same([stream.status, stream.headers.get("content-type").split(";")[0], stream.closed, stream.rest], [200, "text/event-stream", true, ""]);
    need(!stream.headers.get("content-encoding"), "an event stream must not be compressed");
    need(/no-cache/.test(stream.headers.get("cache-control")), "no Cache-Control: no-cache");
    const kinds = stream.kinds();
    same(kinds.slice(0, 2), ["estimation", "process_starts"]);
    same(kinds.slice(-2), ["process_completed", "close_stream"]);
    for (const f of stream.list) {
      need(/^data: \{.*\}$/.test(f.raw) && !/[\r\n]/.test(f.raw), `frame ${f.raw.slice(0, 80)}`);
      same(f.event_id, ["heartbeat", "close_stream"].includes(f.msg) ? null : event_id, `event_id of ${f.msg}`);
    }
    const generating = stream.list.filter((f) => f.msg === "process_generating").map((f) => f.output.data);
    need(!Array.isArray(generating[0][0]), "the first value must come whole");
    for (const [edit] of generating.slice(1)) same([edit.length, edit[0][0], edit[0][1]], [1, "replace", []], "edit");
    const done = stream.list.find((f) => f.msg === "process_completed");
    same([done.success, done.output.data], [true, [stream.messages().at(-1)]], "completion");
    same(stream.count("process_completed"), 1);
    const [estimation] = stream.list;
    same([estimation.rank, typeof estimation.queue_size], [0, "number"]);
  },
  async tokens_are_live_and_add_up() {
    const out = await submitted("stream");
    need(out.times.at(-1) - out.times[0] > 300, `values came within ${out.times.at(-1) - out.times[0]} ms: something buffers`);
    same(tokens(out.values), last(out).content);
    if (LOOP_ENDS) need(out.loopEnded, "the loop did not end");
  },
  async the_last_value_is_plain_and_comes_twice() {
    const out = await submitted("stream");
    same(out.values.at(-1), out.values.at(-2), "last value");
    same(last(out).metadata?.type, undefined);
    same(types(out.values).filter((t) => t === "plain").length, 2);
    need(out.values.at(-1) !== out.values.at(-2), "values must be separate objects");
  },
  async statuses_go_from_pending_to_complete() {
    const { statuses } = await submitted("stream");
    const stages = statuses.map((s) => s.stage);
    same([stages[0], stages.at(-1), stages.filter((s) => s === "complete").length], ["pending", "complete", 1]);
    need(statuses.some((s) => s.original_msg === "process_starts") && stages.includes("generating"), `statuses ${stages}`);
  },
  async every_value_carries_a_cursor_and_the_conversation() {
    const out = await submitted("types");
    const cursors = out.values.slice(0, -1).map((m) => m.metadata.cursor);
    for (const m of out.values) need(/^\d+$/.test(m.metadata.cursor) && m.metadata.conversation_id && m.metadata.thread_id && m.role === "assistant" && "content" in m, JSON.stringify(m));
    need(cursors.every((c, i) => i === 0 || Number(c) >= Number(cursors[i - 1])), `cursors ${cursors}`);
  },
  async every_type_of_the_event_table() {
    const out = await submitted("types");
    same(types(out.values), ["stream_token", "tool_start", "tool_end", "tool_start", "tool_error", "confirm_required", "confirm_resolved", "error", "plain", "stream_token", "plain", "plain"]);
    const of = (type) => out.values.find((m) => m.metadata.type === type);
    const has = (type, ...keys) => keys.forEach((k) => need(k in of(type).metadata, `${type} lacks ${k}: ${JSON.stringify(of(type))}`));
    has("tool_start", "tool", "input", "tool_call_id");
    has("tool_end", "tool", "output", "tool_call_id");
    has("tool_error", "tool", "error", "tool_call_id", "code");
    has("confirm_required", "prompt", "thread_id", "calls", "confirmation_id", "expires_at");
    has("confirm_resolved", "result", "confirmation_id", "tool_call_ids");
    has("error", "code", "detail", "retryable");
    same(of("tool_end").metadata.output.items[0], { id: "17", path_: "/dashboards/17" }, "a key called path");
    for (const m of out.values) if (m.metadata.type) same(m.content, "", `content of ${m.metadata.type}`);
    same(last(out).content, "Смотрю. Готово.");
  },
  async additional_types_do_not_disturb() {
    const out = await submitted("all_types");
    const seen = types(out.values);
    for (const type of ["tool_progress", "warning", "stream_gap", "rewind", "turn_end"]) need(seen.includes(type), `no ${type} in ${seen}`);
    same(seen.slice(-3), ["turn_end", "plain", "plain"]);
    const end = out.values.find((m) => m.metadata.type === "turn_end").metadata;
    same([end.status, end.usage, end.timings], ["completed", { input_tokens: 10, output_tokens: 5, steps: 2 }, { queue_ms: 1, first_token_ms: 2, total_ms: 3 }]);
  },
  async five_hundred_tokens_each_once() {
    const out = await submitted("many 500");
    const seen = out.values.filter((m) => m.metadata.type === "stream_token").map((m) => m.metadata.token);
    same(seen, Array.from({ length: 500 }, (_, i) => `слово${i} `), "tokens");
    same(last(out).content, seen.join(""));
  },
  async an_error_is_a_message_and_the_last_value() {
    const out = await submitted("error");
    same(types(out.values), ["stream_token", "error", "error"]);
    const { code, detail, retryable } = last(out).metadata;
    same([code, retryable, typeof detail], ["LLM_UNAVAILABLE", true, "string"]);
  },
  async a_confirmation_card_is_the_last_value() {
    const out = await submitted("confirm_card");
    same(types(out.values), ["stream_token", "confirm_required", "confirm_required"]);
    same(last(out).metadata.calls[0], { tool_call_id: "call_3", tool: "deploy_dashboard", input: { dashboard_id: "17" }, prompt: "Деплой?" });
  },
  async a_worker_that_dies_withdraws_its_text() {
    const out = await submitted("die");
    same(types(out.values), ["stream_token", "rewind", "stream_token", "plain", "plain"]);
    const [lost, rewind] = out.values;
    need(Number(rewind.metadata.to_cursor) < Number(lost.metadata.cursor), `rewind to ${rewind.metadata.to_cursor}, the lost token is ${lost.metadata.cursor}`);
    same(last(out).content, "найдено ");
  },
  async nothing_comes_after_the_end() {
    const [stream, event_id] = await frames("twice");
    same(tokens(stream.messages(event_id)), "раз");
    same(stream.count("process_completed"), 1);
    const again = await Frames.session(hash()).end();
    same(again.list[0].msg, "unexpected_error");
  },
  async a_run_without_words_still_gives_a_message() {
    const out = await submitted("silent");
    same([types(out.values), last(out).content], [["plain", "plain"], ""]);
  },
  async a_text_too_long_for_the_end_is_added_up() {
    const out = await submitted("only_tokens 20");
    same(last(out).content, tokens(out.values));
    need(last(out).content.length > 100, "no text");
  },
  async odd_characters_survive() {
    const app = await connect();
    for (const text of ["echo 🙂 👩‍👩‍👧 \u2028 \u2029 é", 'echo "кавычки" \\ \t <b>&amp;</b>', "echo one\r\ntwo\n\nthree", "echo data: {}\n\ndata: x"]) {
      same(echoed(await ask(app, [msg(text), conversation(), null])).message.text, text);
    }
    app.close();
  },
  async a_message_that_is_too_long_is_cut_with_a_warning() {
    const app = await connect();
    for (const chars of [120_000, 200_000]) {
      const out = await ask(app, [msg(`echo ${"я".repeat(chars)}`), conversation(), null]);
      same(out.values.find((m) => m.metadata.type === "warning")?.metadata.code, "MESSAGE_TRUNCATED");
      same(echoed(out).chars, 100_000, "characters that arrived");
    }
    const whole = await ask(app, [msg(`echo ${"я".repeat(99_995)}`), conversation(), null]);
    same([echoed(whole).chars, types(whole.values).includes("warning")], [100_000, false]);
    app.close();
  },
  silence_is_filled_with_heartbeats: slowScenario(60, async () => {
    const [stream] = await frames("pause 17");
    const beats = stream.list.filter((f) => f.msg === "heartbeat");
    need(beats.length >= 1 && beats.every((f) => f.raw === 'data: {"msg":"heartbeat","event_id":null}'), `heartbeats: ${beats.map((f) => f.raw)}`);
    same(stream.messages().at(-1).content, "до после");
  }),
  the_client_lives_through_silence: slowScenario(60, async () => {
    same(last(await submitted("pause 17", { timeout: 40_000 })).content, "до после");
  }),
  async a_stream_opened_late_gets_everything() {
    const session = hash();
    const event_id = await rawJoin(session, "stream");
    await sleep(2000);
    const stream = await Frames.session(session).end();
    same(tokens(stream.messages(event_id)), stream.messages(event_id).at(-1).content);
    same(stream.kinds().slice(-2), ["process_completed", "close_stream"]);
  },
  async the_default_options_show_errors_too() {
    const app = await connect({ events: ["data"] });
    const out = { values: [] };
    const loop = (async () => {
      for await (const event of app.submit("/chat", [msg("error"), conversation(), null])) out.values.push(event.data[0]);
    })();
    await Promise.race([loop, sleep(4000)]);
    same(errorOf(out.values)?.code, "LLM_UNAVAILABLE");
    app.close();
  },
  async predict_gives_the_whole_answer() {
    const app = await connect();
    const result = await Promise.race([app.predict("/chat", [msg("stream"), conversation(), null]), sleep(15_000)]);
    need(result?.data[0].content.startsWith("слово0 слово1 "), JSON.stringify(result?.data));
    app.close();
  },
  async a_client_can_be_used_again_and_again() {
    const app = await connect();
    const c = conversation();
    for (let i = 0; i < 8; i++) same(echoed(await drain(app.submit("/chat", [msg(`echo ${i}`), c, null]))).message.text, `echo ${i}`);
    app.close();
  },
};
