// Stopping a submission (GRADIO-PROTOCOL §6, DECISIONS 2 and 22). Needs the foreign worker.
import { ALICE, BOB, CANCEL_WAITS, Frames, ask, atLeast, cancel, completed, connect, conversation, drain, hash, last, msg, need, options, post, rawJoin, same, skip, sleep, tokens, types } from "../lib.mjs";

/** A running slow turn: its session, event and open stream with two tokens on it. */
async function running(more) {
  const session = hash();
  const event_id = await rawJoin(session, "slow", more);
  const stream = Frames.session(session, more);
  await stream.until(() => stream.messages(event_id).length >= 2);
  return { session, event_id, stream };
}
async function endsCancelled({ stream, event_id }, within = 4000) {
  const asked = performance.now();
  await stream.end(within + 5000);
  need(performance.now() - asked < within, `the end took ${Math.round(performance.now() - asked)} ms`);
  same(stream.count("process_completed", event_id), 1, "completions");
  const done = stream.list.find((f) => f.msg === "process_completed" && f.event_id === event_id);
  const [plain] = done.output.data;
  same([done.success, plain.metadata?.type, plain.content], [true, undefined, tokens(stream.messages(event_id))], "completion");
  same(stream.kinds().at(-1), "close_stream");
}
/** The turn is still running: more tokens come, and its own cancel works. */
async function goesOn({ stream, session, event_id }) {
  const before = stream.messages(event_id).length;
  await stream.until(() => stream.messages(event_id).length >= before + 3, 5000);
  await cancel(event_id, session);
  await endsCancelled({ stream, event_id });
}
const ok = async (answer) => same([answer.status, await answer.json()], [200, { success: true }], "answer");

export default {
  async mid_stream_keeps_the_partial_text() {
    const app = await connect();
    let asked = 0;
    const submission = app.submit("/chat", [msg("slow"), conversation(), null]);
    const out = await drain(submission, {
      onEvent: (event, seen) => {
        if (event.type === "data" && seen.values.length === 3) (asked = performance.now()), submission.cancel();
      },
    });
    completed(out);
    need(performance.now() - asked < 4000, `the end took ${performance.now() - asked} ms`);
    if (CANCEL_WAITS) same([types(out.values).at(-1), last(out).content], ["plain", tokens(out.values)]);
    await ask(app, [msg("echo"), conversation(), null]);
    app.close();
  },
  async before_the_client_knows_the_id() {
    const app = await connect();
    const submission = app.submit("/chat", [msg("slow 8"), conversation(), null]);
    submission.cancel()?.catch?.(() => {});
    completed(await drain(submission));
    await ask(app, [msg("echo"), conversation(), null]);
    app.close();
  },
  async as_soon_as_the_client_knows_the_id() {
    if (!atLeast(2)) skip("wait_for_id came with 2.0");
    const app = await connect();
    const submission = app.submit("/chat", [msg("slow"), conversation(), null]);
    await submission.wait_for_id();
    await submission.cancel();
    const out = completed(await drain(submission));
    need(out.ms < 5000, `took ${out.ms} ms`);
    app.close();
  },
  async without_an_id_the_sessions_turns_are_meant() {
    const turn = await running();
    await ok(await cancel(null, turn.session));
    await endsCancelled(turn);
  },
  async without_an_id_and_without_a_token_nothing_happens() {
    const turn = await running();
    await ok(await cancel(null, turn.session, {}));
    await goesOn(turn);
  },
  async without_a_token_the_pair_is_enough() {
    const turn = await running();
    await ok(await cancel(turn.event_id, turn.session, {}, options.peer));
    await endsCancelled(turn);
  },
  async through_the_clients_token_option() {
    const jwt = ALICE.Authorization.slice("Bearer ".length);
    const app = await connect({ headers: {}, ...(atLeast(2) ? { token: jwt } : { hf_token: jwt }) });
    const submission = app.submit("/chat", [msg("slow"), conversation(), null]);
    const out = await drain(submission, { onEvent: (event, seen) => event.type === "data" && seen.values.length === 2 && submission.cancel() });
    completed(out);
    need(out.ms < 6000, `took ${out.ms} ms`);
    app.close();
  },
  async through_another_gateway_before_the_stream_is_open() {
    const session = hash();
    const event_id = await rawJoin(session, "slow");
    await ok(await cancel(event_id, session, ALICE, options.peer));
    await endsCancelled({ stream: Frames.session(session), event_id });
  },
  async twice_and_after_the_end() {
    const turn = await running();
    for (const answer of await Promise.all([1, 2, 3].map(() => cancel(turn.event_id, turn.session)))) await ok(answer);
    await endsCancelled(turn);
    await ok(await cancel(turn.event_id, turn.session));
    await ok(await post("/reset", { event_id: turn.event_id }));
    const app = await connect();
    const submission = app.submit("/chat", [msg("echo"), conversation(), null]);
    await drain(submission);
    await submission.cancel();
    await submission.cancel();
    await ask(app, [msg("echo"), conversation(), null]);
    app.close();
  },
  async with_the_wrong_session_nothing_happens() {
    const turn = await running();
    await ok(await cancel(turn.event_id, hash()));
    await ok(await cancel(turn.event_id, hash(), {}));
    await goesOn(turn);
  },
  async another_user_cannot() {
    const turn = await running();
    await ok(await cancel(turn.event_id, turn.session, BOB));
    await ok(await cancel(null, turn.session, BOB));
    await goesOn(turn);
  },
  async does_not_touch_the_other_submission() {
    const app = await connect();
    const a = app.submit("/chat", [msg("slow"), conversation(), null]);
    const b = app.submit("/chat", [msg("slow 10"), conversation(), null]);
    const [first, second] = await Promise.all([drain(a, { onEvent: (event, seen) => event.type === "data" && seen.values.length === 2 && a.cancel() }), drain(b)]);
    completed(first);
    completed(second);
    need(second.values.filter((m) => m.metadata.type === "stream_token").length === 10, "the other submission lost tokens");
    need(first.ms < second.ms, "the cancelled one ended last");
    app.close();
  },
  async leaving_is_not_a_cancel() {
    const app = await connect();
    const c = conversation();
    const submission = app.submit("/chat", [msg("slow 8"), c, null]);
    await drain(submission, { timeout: 8000, onEvent: (event, seen) => event.type === "data" && seen.values.length === 2 && app.close() });
    await sleep(2500);
    const again = await connect();
    const out = await ask(again, [msg(""), c, "attach"]);
    same(tokens(out.values).split(" ").length, 9, "words of the whole answer");
    need(!last(out).metadata?.type, "the turn has not ended by itself");
    again.close();
  },
};
