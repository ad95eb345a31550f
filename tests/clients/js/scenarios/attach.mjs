// Seeing a turn that somebody else's stream carries (DECISIONS 3). Needs the foreign worker.
import { ALICE, BOB, Frames, ask, cancel, completed, connect, conversation, drain, errorOf, hash, last, msg, need, options, post, rawJoin, same, tokens, types } from "../lib.mjs";

const shown = (messages) => messages.filter((m) => m.metadata.type).map((m) => [m.metadata.cursor, m.metadata.type, m.metadata.token ?? null]);

/** A slow turn whose owner has seen three tokens. */
async function running(words = 12) {
  const c = conversation();
  const session = hash();
  const event_id = await rawJoin(session, `slow ${words}`, { conversation: c });
  const stream = Frames.session(session);
  await stream.until(() => stream.messages(event_id).length >= 3);
  return { c, session, event_id, stream };
}

export default {
  async mid_turn_from_its_start() {
    const turn = await running();
    const app = await connect({}, options.peer);
    const out = await ask(app, [msg(""), turn.c, "attach"]);
    await turn.stream.end();
    same(shown(out.values), shown(turn.stream.messages(turn.event_id)), "values of the attached client");
    same(last(out).content, turn.stream.messages(turn.event_id).at(-1).content);
    app.close();
  },
  async mid_turn_from_a_cursor() {
    const turn = await running();
    const after = turn.stream.messages(turn.event_id)[1].metadata.cursor;
    const app = await connect({}, options.peer);
    const out = await ask(app, ["", turn.c, `attach:${after}`]);
    await turn.stream.end();
    const wanted = shown(turn.stream.messages(turn.event_id)).filter(([cursor]) => Number(cursor) > Number(after));
    same(shown(out.values), wanted, "values after the cursor");
    same(last(out).content, turn.stream.messages(turn.event_id).at(-1).content, "the whole text");
    app.close();
  },
  async after_the_end_it_is_replayed() {
    const app = await connect();
    const c = conversation();
    const first = await ask(app, [msg("stream"), c, null]);
    const again = await ask(await connect({}, options.peer), [msg(""), c, "attach"]);
    same(shown(again.values), shown(first.values), "values");
    same(last(again).content, last(first).content);
    const cursor = first.values.at(-1).metadata.cursor;
    const rest = await ask(app, [msg(""), c, `attach:${cursor}`]);
    same([types(rest.values).filter((t) => t !== "plain").length, last(rest).content], [0, last(first).content], "after the last cursor");
    app.close();
  },
  async the_latest_turn_is_meant() {
    const app = await connect();
    const c = conversation();
    await ask(app, [msg("echo first"), c, null]);
    await ask(app, [msg("echo second"), c, null]);
    const out = await ask(app, [msg(""), c, "attach"]);
    same(JSON.parse(last(out).content).message.text, "echo second");
    await ask(app, [msg(""), c, "attach"]);
    app.close();
  },
  async on_the_same_session_as_the_turn() {
    const app = await connect();
    const c = conversation();
    const [a, b] = await Promise.all([
      drain(app.submit("/chat", [msg("slow 8"), c, null])),
      new Promise((resolve) => setTimeout(resolve, 700)).then(() => drain(app.submit("/chat", [msg(""), c, "attach"]))),
    ]);
    same(shown(completed(b).values), shown(completed(a).values), "values");
    app.close();
  },
  async three_at_once_see_the_same() {
    const turn = await running();
    const outs = await Promise.all([options.base, options.peer, options.base].map(async (base) => ask(await connect({}, base), [msg(""), turn.c, "attach"])));
    await turn.stream.end();
    for (const out of outs) same(shown(out.values), shown(turn.stream.messages(turn.event_id)));
  },
  async cancelling_the_turn_ends_the_attached_stream() {
    const turn = await running(26);
    const app = await connect({}, options.peer);
    const attached = drain(app.submit("/chat", [msg(""), turn.c, "attach"]));
    await turn.stream.until(() => turn.stream.messages(turn.event_id).length >= 5);
    await cancel(turn.event_id, turn.session);
    const out = completed(await attached);
    await turn.stream.end();
    same(last(out).content, tokens(turn.stream.messages(turn.event_id)));
    app.close();
  },
  async nothing_to_attach_to_is_not_found() {
    const app = await connect();
    for (const c of [conversation(), crypto.randomUUID()]) same(errorOf((await ask(app, [msg(""), c, "attach"])).values)?.code, "NOT_FOUND", c);
    same(errorOf((await ask(app, [msg(""), null, "attach"])).values)?.code !== undefined, true, "attach without a conversation");
    app.close();
  },
  async another_user_finds_nothing() {
    const turn = await running(4);
    const app = await connect({ headers: BOB });
    same(errorOf((await ask(app, [msg(""), turn.c, "attach"])).values)?.code, "NOT_FOUND");
    await turn.stream.end();
    app.close();
  },
  async another_users_conversation_is_not_found_by_its_id() {
    const answer = await fetch(`${options.rest}/api/assistant/conversations`, { method: "POST", headers: { ...ALICE, "Content-Type": "application/json" }, body: "{}" });
    const created = await answer.json();
    need(answer.status < 300 && created.id, `create answers ${answer.status} ${JSON.stringify(created)}`);
    const mine = await connect();
    await ask(mine, [msg("echo"), created.id, null]);
    const app = await connect({ headers: BOB });
    for (const action of [null, "attach", "confirm"]) {
      const out = await ask(app, [msg("echo"), created.id, action]);
      same([types(out.values), errorOf(out.values)?.code], [["error", "error"], "NOT_FOUND"], `${action}`);
    }
    const seen = await post("/queue/join", { data: [msg("x"), created.id, null], fn_index: 0, session_hash: hash() }, BOB);
    same(seen.status, 200);
    app.close();
    mine.close();
  },
};
