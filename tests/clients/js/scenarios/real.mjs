// The fleet with its own worker, the scripted model and the reference backend: what a person does all day.
import { ALICE, BOB, CANCEL_WAITS, Frames, ask, atLeast, cancel, completed, connect, conversation, drain, errorOf, hash, last, msg, need, options, rawJoin, same, skip, sleep, slowScenario, tokens, types, user } from "../lib.mjs";

const DEPLOY = "задеплой дашборд 42 на prod";
const backend = process.env.BACKEND_URL;
const sub = (headers) => JSON.parse(Buffer.from(headers.Authorization.split(".")[1], "base64url")).sub;

/** What the backend really did for this user. */
async function effects(headers) {
  const all = await (await fetch(`${backend}/__test/effects`)).json();
  return all.filter((effect) => effect.user === sub(headers));
}
/** A user of this scenario only, so that its effects can be counted. */
let users = 0;
const somebody = () => ({ Authorization: `Bearer ${user(`user${++users}`)}` });

/** A conversation with an open card. */
async function card(headers = somebody(), text = DEPLOY) {
  const app = await connect({ headers });
  const c = conversation();
  const out = await ask(app, [msg(text), c, null]);
  same(types(out.values).slice(-2), ["confirm_required", "confirm_required"], "end of the paused turn");
  return { app, c, headers, card: last(out).metadata };
}
const of = (out, type) => out.values.filter((m) => m.metadata.type === type).map((m) => m.metadata);

export default {
  async a_question_streams_tokens_and_tool_cards() {
    const app = await connect();
    const out = await ask(app, [msg("покажи дашборды с проблемами валидации"), null, null]);
    const seen = types(out.values);
    for (const type of ["stream_token", "tool_start", "tool_end", "turn_end"]) need(seen.includes(type), `no ${type} in ${seen}`);
    same(seen.slice(-3), ["turn_end", "plain", "plain"]);
    same(last(out).content, tokens(out.values));
    const [start] = of(out, "tool_start");
    need(of(out, "tool_end").some((end) => end.tool_call_id === start.tool_call_id && end.tool === start.tool), "the card has no end");
    const [end] = of(out, "turn_end");
    same([end.status, end.usage.steps], ["completed", 2]);
    need(!JSON.stringify(out.values).includes('"path":'), "a key called path");
    app.close();
  },
  async a_confirmed_deployment_happens_once() {
    const { app, c, headers, card: shown } = await card();
    same([shown.calls.length, shown.calls[0].tool, shown.thread_id, (await effects(headers)).length], [1, "deploy_dashboard", c, 0]);
    const out = await ask(app, [msg("confirm"), c, "confirm"]);
    const seen = types(out.values);
    same([seen[0], of(out, "confirm_resolved")[0].result, seen.includes("tool_end")], ["confirm_resolved", "confirmed", true]);
    same((await effects(headers)).length, 1, "effects");
    same(errorOf((await ask(app, [msg("confirm"), c, "confirm"])).values)?.code, "ALREADY_RESOLVED");
    same((await effects(headers)).length, 1, "effects after a second yes");
    app.close();
  },
  async a_denied_deployment_never_happens() {
    const { app, c, headers } = await card();
    const out = await ask(app, [msg("сначала на staging"), c, "deny"]);
    same(of(out, "confirm_resolved")[0].result, "denied");
    same(types(out.values).at(-1), "plain");
    need(last(out).content, "the agent says nothing");
    same((await effects(headers)).length, 0, "effects");
    app.close();
  },
  async the_seeds_call_confirms() {
    const { app, c, headers } = await card();
    const out = await ask(app, { message: "confirm", action: "confirm", conversation_id: c }, { event_data: [c, "confirm"] });
    same([of(out, "confirm_resolved")[0].result, (await effects(headers)).length], ["confirmed", 1]);
    app.close();
  },
  async from_another_gateway_and_client() {
    const { c, headers } = await card();
    const app = await connect({ headers }, options.peer);
    const out = await ask(app, [msg("confirm"), c, "confirm"]);
    same([of(out, "confirm_resolved")[0].result, (await effects(headers)).length], ["confirmed", 1]);
    app.close();
  },
  async the_word_alone_confirms_nothing() {
    const { app, c, headers } = await card();
    const out = await ask(app, [msg("confirm"), c, null]);
    const [resolved] = of(out, "confirm_resolved");
    same([resolved.result, resolved.reason, (await effects(headers)).length], ["denied", "superseded", 0]);
    app.close();
  },
  async another_user_cannot_confirm() {
    const { app, c, headers } = await card();
    const other = await connect({ headers: BOB });
    const code = errorOf((await ask(other, [msg("confirm"), c, "confirm"])).values)?.code;
    need(["NOT_FOUND", "NO_PENDING_CONFIRMATION"].includes(code), `code ${code}`);
    same((await effects(headers)).length, 0);
    same(of(await ask(app, [msg("confirm"), c, "confirm"]), "confirm_resolved")[0].result, "confirmed");
    app.close();
    other.close();
  },
  async fifty_racing_confirms_have_one_effect() {
    const { app, c, headers } = await card();
    const sessions = Array.from({ length: 50 }, (_, i) => [hash(), i % 2 ? options.peer : options.base]);
    await Promise.all(sessions.map(([session, base]) => rawJoin(session, "confirm", { headers, base, conversation: c, action: "confirm" })));
    const streams = await Promise.all(sessions.map(([session, base]) => Frames.session(session, { headers, base }).end(60_000)));
    const resolved = streams.filter((s) => types(s.messages()).includes("confirm_resolved"));
    same([resolved.length, (await effects(headers)).length], [1, 1], "winners and effects");
    for (const stream of streams.filter((s) => !resolved.includes(s))) {
      const code = errorOf(stream.messages())?.code;
      need(["ALREADY_RESOLVED", "CONVERSATION_BUSY"].includes(code), `a loser was told ${code}: ${types(stream.messages())}`);
    }
    app.close();
  },
  async nothing_to_confirm_is_said() {
    const app = await connect();
    const c = conversation();
    for (const action of ["confirm", "deny"]) same(errorOf((await ask(app, [msg(""), c, action])).values)?.code, "NO_PENDING_CONFIRMATION", action);
    app.close();
  },
  async a_user_without_the_permission_is_told() {
    const app = await connect({ headers: BOB });
    const c = conversation();
    await ask(app, [msg(DEPLOY), c, null]);
    const out = await ask(app, [msg("confirm"), c, "confirm"]);
    same([of(out, "tool_error")[0]?.code, (await effects(BOB)).length], ["FORBIDDEN", 0]);
    app.close();
  },
  async history_makes_references_work() {
    const app = await connect();
    const c = conversation();
    await ask(app, [msg("покажи дашборд 17"), c, null]);
    const out = await ask(app, [msg("создай для него ветку"), c, null]);
    const [call] = of(out, "tool_start");
    same([call?.tool, String(call?.input.dashboard_id)], ["create_branch", "17"]);
    app.close();
  },
  async a_failing_model_is_an_error_message() {
    const app = await connect();
    const out = await ask(app, [msg("error"), conversation(), null]);
    same(types(out.values).at(-1), "error");
    need(/^LLM_/.test(last(out).metadata.code), JSON.stringify(last(out).metadata));
    need(!JSON.stringify(out.values).includes("model.internal"), "the provider's text leaked");
    app.close();
  },
  async cancel_keeps_the_partial_text() {
    const app = await connect();
    const c = conversation();
    let asked = 0;
    const submission = app.submit("/chat", [msg("slow"), c, null]);
    const out = await drain(submission, { onEvent: (event, seen) => event.type === "data" && seen.values.length === 4 && ((asked = performance.now()), submission.cancel()) });
    completed(out);
    need(performance.now() - asked < 4000, `the end took ${performance.now() - asked} ms`);
    if (CANCEL_WAITS) same([last(out).content, of(out, "turn_end")[0]?.status], [tokens(out.values), "cancelled"]);
    await ask(app, [msg("stream"), c, null]);
    app.close();
  },
  async cancel_before_the_worker_has_begun() {
    const session = hash();
    const event_id = await rawJoin(session, "slow");
    await cancel(event_id, session, {}, options.peer);
    const stream = await Frames.session(session).end();
    same([stream.count("process_completed"), stream.messages().at(-1).metadata.type], [1, undefined]);
  },
  async leaving_and_attaching() {
    const app = await connect();
    const c = conversation();
    await drain(app.submit("/chat", [msg("slow"), c, null]), { timeout: 4000, onEvent: (event, seen) => event.type === "data" && seen.values.length === 3 && app.close() });
    const again = await connect({}, options.peer);
    const out = await ask(again, [msg(""), c, "attach"]);
    same([tokens(out.values), out.values.filter((m) => m.metadata.type === "stream_token").length > 5], [last(out).content, true]);
    again.close();
  },
  async tokens_of_two_conversations_do_not_mix() {
    const app = await connect();
    const outs = await Promise.all(["stream", "slow", "stream"].map((text) => drain(app.submit("/chat", [msg(text), conversation(), null]))));
    for (const out of outs) same(tokens(completed(out).values), last(out).content);
    app.close();
  },
  async a_new_conversation_is_in_the_list() {
    const headers = somebody();
    const app = await connect({ headers });
    const out = await ask(app, [msg("привет, это проверка"), null, null]);
    const id = last(out).metadata.conversation_id;
    const list = await (await fetch(`${options.rest}/api/assistant/conversations`, { headers })).json();
    same(list.items.map((c) => c.id), [id]);
    need(list.items[0].title.startsWith("привет"), list.items[0].title);
    const history = await (await fetch(`${options.rest}/api/assistant/history?conversation_id=${id}`, { headers })).json();
    same(history.items.map((m) => m.role).sort(), ["assistant", "user"]);
    app.close();
  },
  silence_is_survived: slowScenario(60, async () => {
    const app = await connect();
    const out = await ask(app, [msg("pause"), conversation(), null], { timeout: 45_000 });
    need(last(out).content.endsWith("After the pause."), last(out).content);
    app.close();
  }),
  async the_clients_token_option_works() {
    if (!atLeast(2)) skip("called hf_token before 2.0");
    const jwt = ALICE.Authorization.slice("Bearer ".length);
    const app = await connect({ headers: {}, token: jwt });
    await ask(app, [msg("покажи окружения"), conversation(), null]);
    app.close();
    await sleep(0);
  },
};
