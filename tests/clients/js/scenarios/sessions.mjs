// Several submissions on one session, and the moment at which its stream closes (GRADIO-PROTOCOL §5.2, §16).
// Needs the foreign worker.
import { BOB, Frames, aloneScenario, ask, completed, connect, conversation, drain, echoed, errorOf, get, hash, last, msg, need, options, post, rawJoin, same, sleep, tokens } from "../lib.mjs";

const bases = [options.base, options.peer];

export default {
  async two_at_once_on_one_client() {
    const app = await connect();
    const outs = await Promise.all(["stream", "stream"].map((text) => drain(app.submit("/chat", [msg(text), conversation(), null]))));
    for (const out of outs) same(tokens(completed(out).values), last(out).content);
    need(outs[0].values[0].metadata.conversation_id !== outs[1].values[0].metadata.conversation_id, "values went to the wrong submission");
    app.close();
  },
  async one_stream_carries_all_submissions() {
    const session = hash();
    const a = await rawJoin(session, "slow 8", { base: bases[0] });
    const stream = Frames.session(session, { base: bases[1] });
    await stream.until(() => stream.messages(a).length >= 2);
    const b = await rawJoin(session, "stream", { base: bases[0] });
    await stream.end();
    same([stream.count("process_completed", a), stream.count("process_completed", b), stream.count("close_stream")], [1, 1, 1]);
    for (const event of [a, b]) same(tokens(stream.messages(event)), stream.messages(event).at(-1).content);
    const order = stream.list.filter((f) => f.msg === "process_completed" || f.msg === "close_stream").map((f) => f.event_id);
    same(order, [b, a, null], "order of ends");
  },
  async a_conversation_takes_one_turn_at_a_time() {
    const app = await connect();
    const c = conversation();
    const first = drain(app.submit("/chat", [msg("slow 10"), c, null]), { onEvent: (event) => event.type === "data" && started() });
    let started;
    await new Promise((resolve) => (started = resolve));
    const busy = await ask(app, [msg("echo"), c, null]);
    const problem = errorOf(busy.values);
    same([problem?.code, problem?.retryable], ["CONVERSATION_BUSY", true]);
    need(/^[0-9a-f-]{36}$/.test(problem.turn_id), `no turn_id of the live turn: ${JSON.stringify(problem)}`);
    same(last(completed(await first)).content.trim().split(" ").length, 10, "words of the first turn");
    await ask(app, [msg("echo"), c, null]);
    app.close();
  },
  async the_next_message_right_after_the_answer_is_not_busy() {
    const app = await connect();
    const c = conversation();
    for (let i = 0; i < 15; i++) same(echoed(await ask(app, [msg(`echo ${i}`), c, null])).message.text, `echo ${i}`);
    app.close();
  },
  async six_clients_at_once() {
    await Promise.all(
      Array.from({ length: 6 }, async () => {
        const app = await connect();
        for (let i = 0; i < 4; i++) await ask(app, [msg("stream"), conversation(), null]);
        app.close();
      }),
    );
  },
  async a_message_with_an_id_is_one_turn_however_often_it_is_sent() {
    const [app, peer] = [await connect(), await connect({}, options.peer)];
    const [c, id] = [conversation(), crypto.randomUUID()];
    const data = (text) => [msg(text), c, null, id];
    // Its answer never reaches the client.
    const lost = await post("/queue/join", { data: data("slow 6"), fn_index: 0, session_hash: app.session_hash });
    same(lost.status, 200);
    const [mine, theirs] = await Promise.all([app, peer].map((client) => drain(client.submit("/chat", data("slow 6")))));
    for (const out of [mine, theirs]) same(tokens(completed(out).values), last(mine).content);
    const again = await ask(app, data("slow 6"));
    same(again.values.map((m) => m.metadata.cursor), mine.values.map((m) => m.metadata.cursor), "cursors of the replay");
    same(errorOf((await ask(app, data("something else"))).values)?.code, "IDEMPOTENCY_CONFLICT");
    for (const client of [app, peer]) client.close();
  },
  async an_unknown_session_is_told_so() {
    for (const session of [hash(), "a.*.>", "x".repeat(65)]) {
      const stream = await Frames.session(session).end();
      const [first] = stream.list;
      same([stream.status, first.session_not_found, first.success, first.event_id], [200, true, false, null]);
      same(stream.kinds(), ["unexpected_error", "close_stream"]);
    }
  },
  async a_finished_session_is_closed_at_once() {
    const session = hash();
    await rawJoin(session, "echo");
    await Frames.session(session).end();
    for (const base of bases) same((await Frames.session(session, { base }).end()).kinds(), ["close_stream"]);
  },
  async a_stream_for_nothing_does_not_kill_the_client() {
    // A client that learns of its join after the answer has been streamed opens a stream on which nothing is left. If
    // that one ends without `close_stream`, the client believes it open for ever, and its next submission hangs.
    const app = await connect();
    await ask(app, [msg("echo"), conversation(), null]);
    await sleep(600);
    await app.open_stream();
    await sleep(1200);
    for (let i = 0; i < 2; i++) same(echoed(await ask(app, [msg(`echo ${i}`), conversation(), null], { timeout: 8000 })).message.text, `echo ${i}`);
    app.close();
  },
  async without_a_session_hash_it_is_told_too() {
    const answer = await get("/queue/data");
    const text = await answer.text();
    need([200, 400].includes(answer.status), `${answer.status} ${text}`);
    need(/^data: \{.*unexpected_error/.test(text) || typeof JSON.parse(text).detail === "string", text);
  },
  async another_users_session_looks_unknown() {
    const session = hash();
    const event_id = await rawJoin(session, "slow 8");
    const other = await Frames.session(session, { headers: BOB }).end();
    same(other.kinds(), ["unexpected_error", "close_stream"]);
    const mine = await Frames.session(session, { base: options.peer }).end();
    same(tokens(mine.messages(event_id)).trim().split(" ").length, 8, "words that reached the owner");
  },
  async a_broken_stream_can_be_opened_again() {
    const session = hash();
    const event_id = await rawJoin(session, "slow 12");
    const first = Frames.session(session);
    await first.until(() => first.messages(event_id).length >= 3);
    first.stop();
    await sleep(300);
    const second = await Frames.session(session, { base: options.peer }).end();
    same(second.count("process_completed", event_id), 1);
    same(second.messages(event_id).at(-1).content.trim().split(" ").length, 12, "words of the answer");
    const seen = new Set([...first.messages(event_id), ...second.messages(event_id)].filter((m) => m.metadata.type).map((m) => m.metadata.token));
    same(seen.size, 12, "different tokens seen by the two readers");
  },
  async a_second_reader_takes_over() {
    const session = hash();
    const event_id = await rawJoin(session, "slow 16");
    const first = Frames.session(session, { base: bases[0] });
    await first.until(() => first.messages(event_id).length >= 3);
    const second = Frames.session(session, { base: bases[1] });
    await first.end(5000);
    same(first.kinds().at(-1), "close_stream", "the older reader's last frame");
    same(first.count("process_completed"), 0);
    await second.end();
    same(second.count("process_completed", event_id), 1);
    const [a, b] = [first, second].map((s) => s.messages(event_id).filter((m) => m.metadata.type).map((m) => m.metadata.token));
    same([...a, ...b], Array.from({ length: 16 }, (_, i) => `слово${i} `), "tokens of both readers together");
    need(!Array.isArray(second.list.find((f) => f.msg === "process_generating").output.data[0]), "the newer reader's first value must come whole");
  },
  async readers_may_take_turns() {
    const session = hash();
    const event_id = await rawJoin(session, "slow 16");
    const readers = [];
    for (let i = 0; i < 5; i++) {
      const reader = Frames.session(session, { base: bases[i % 2] });
      await reader.until(() => reader.messages(event_id).length >= 1);
      readers.push(reader);
    }
    await readers.at(-1).end();
    await Promise.all(readers.map((r) => r.end()));
    const all = readers.flatMap((r) => r.messages(event_id)).filter((m) => m.metadata.type).map((m) => m.metadata.token);
    same(all, Array.from({ length: 16 }, (_, i) => `слово${i} `), "tokens of all readers together");
    same(readers.map((r) => r.count("process_completed")), [0, 0, 0, 0, 1], "completions");
  },
  submit_right_at_the_close: aloneScenario(60, async () => {
    const app = await connect();
    for (let i = 0; i < 20; i++) {
      let next;
      const onEvent = (event) => {
        if (event.type === "status" && event.stage === "complete") next ??= app.submit("/chat", [msg("echo"), conversation(), null]);
      };
      completed(await drain(app.submit("/chat", [msg("echo"), conversation(), null]), { onEvent }));
      completed(await drain(next, { timeout: 8000 }));
    }
    app.close();
  }),
  joins_in_a_loop_around_the_closing_moment: aloneScenario(200, async () => {
    const clients = 20;
    let left = options.joins;
    let seed = 7;
    const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
    let slowest = 0;
    const client = async () => {
      const app = await connect();
      const running = [];
      while (left-- > 0) {
        const submission = drain(app.submit("/chat", [msg("echo"), conversation(), null]), { timeout: 15_000 }).then((out) => {
          need(!out.timedOut, `a submission hangs; ${left} joins were left`);
          slowest = Math.max(slowest, completed(out).ms);
        });
        running.push(submission);
        // The stream closes right after the last completion. The next join comes while another submission is
        // still running, or as soon as nothing is, or a little later: before, at and after the closing.
        const dice = random();
        if (dice < 0.3) await sleep(random() * 350);
        else await Promise.all(running.splice(0));
        if (running.length > 2) await running.shift();
        if (dice > 0.6) await sleep(random() * (dice > 0.9 ? 500 : 40));
      }
      await Promise.all(running);
      app.close();
    };
    const started = performance.now();
    await Promise.all(Array.from({ length: clients }, client));
    console.log(`# ${options.joins} joins in ${Math.round((performance.now() - started) / 1000)} s, slowest ${Math.round(slowest)} ms`);
  }),
};
