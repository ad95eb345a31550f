// Who may do what (GRADIO-PROTOCOL §11, DECISIONS 21 and 22).
import { ALICE, BOB, Frames, bearer, completed, connect, conversation, drain, errorOf, hash, msg, need, now, options, post, rawJoin, same, sleep, slowScenario, token, user } from "../lib.mjs";

const body = (session = hash()) => ({ data: [msg("echo"), null, null], fn_index: 0, session_hash: session });
const base64url = (x) => Buffer.from(x).toString("base64url");
const unsigned = `${base64url('{"alg":"none","typ":"JWT"}')}.${base64url(JSON.stringify({ sub: "alice", exp: now() + 600 }))}.`;

async function refused(headers, what) {
  const answer = await post("/queue/join", body(), headers);
  const said = await answer.json();
  same([answer.status, typeof said.detail], [401, "string"], `join ${what}`);
  return said.detail;
}

export default {
  async bad_tokens_are_refused() {
    await refused({}, "without a token");
    await refused({ Authorization: "" }, "with an empty header");
    await refused({ Authorization: "Basic YWxpY2U6eA==" }, "with another scheme");
    await refused(bearer("x"), "with nonsense");
    await refused(bearer(user("alice", -3600)), "with an expired token");
    await refused(bearer(token({ sub: "alice", exp: now() + 600 }, { secret: "another secret, long enough to sign with" })), "signed by somebody else");
    await refused(bearer(unsigned), "that nobody signed");
    await refused(bearer(token({ sub: "alice", exp: now() + 600 }, { header: { alg: "HS512", typ: "JWT" } })), "with another algorithm");
    await refused(bearer(token({ sub: "alice" })), "that never expires");
    await refused(bearer(token({ exp: now() + 600 })), "of nobody");
    await refused(bearer(token({ sub: "agent", typ: "service", exp: now() + 600 })), "of a service");
    const jwt = user("alice");
    await refused({ Authorization: `Bearer ${jwt}, Bearer ${jwt}` }, "twice");
  },
  async the_refusal_leaks_nothing() {
    const detail = await refused(bearer(user("alice", -3600)), "with an expired token");
    need(!/eyJ|secret|alice|jsonwebtoken|Expired/.test(detail), `detail is ${detail}`);
  },
  async the_client_reports_a_bad_token() {
    let said;
    try {
      const app = await connect({ headers: bearer("x") });
      const out = await drain(app.submit("/chat", [msg("echo"), conversation(), null]), { timeout: 8000 });
      said = out.final?.stage === "error" ? out.final.message : JSON.stringify(out.final);
      need(out.final?.stage === "error", `ended with ${said}`);
    } catch (e) {
      said = e.message;
    }
    need(said, "no message");
  },
  async a_token_can_be_renewed_without_connecting_again() {
    const app = await connect({ headers: ALICE });
    app.options.headers = bearer(user("alice", 900));
    completed(await drain(app.submit("/chat", [msg("echo"), conversation(), null])));
    app.close();
  },
  a_token_that_expires_before_the_stream_ends_in_frames: slowScenario(60, async () => {
    const leeway = Number(process.env.JWT_LEEWAY_S ?? 5);
    const headers = bearer(user("short", 2 - leeway));
    const session = hash();
    const event_id = await rawJoin(session, "slow 4", { headers });
    await sleep(3300);
    const stream = await Frames.session(session, { headers, base: options.peer }).end();
    same(stream.status, 200);
    const done = stream.list.find((f) => f.msg === "process_completed");
    need(done || stream.kinds()[0] === "unexpected_error", `frames ${stream.kinds()}`);
    if (!done) return same(stream.list[0].session_not_found, true);
    same(done.event_id, event_id);
    same([errorOf(stream.messages(event_id))?.code, done.success, done.output.data[0].metadata.code], ["UNAUTHORIZED", true, "UNAUTHORIZED"]);
    return same(stream.kinds().at(-1), "close_stream");
  }),
  async a_stream_without_a_token_never_answers_401() {
    for (const headers of [{}, bearer("x"), bearer(user("alice", -3600))]) {
      const session = hash();
      await rawJoin(session, "echo");
      const stream = await Frames.session(session, { headers }).end();
      same(stream.status, 200, "status");
      need(!stream.list.some((f) => f.raw.includes("echo")), "somebody without a token reads the stream");
    }
  },
  async another_users_event_is_not_found() {
    const answer = await post("/call/chat", { data: [msg("slow 4"), conversation(), null] });
    const { event_id } = await answer.json();
    const other = await new Frames(`/call/chat/${event_id}`, { headers: BOB }).end();
    need(other.list.length === 1 && other.list[0].raw.startsWith("event: error\n"), JSON.stringify(other.list.map((f) => f.raw)));
    const mine = await new Frames(`/call/chat/${event_id}`).end();
    need(mine.list.at(-1).raw.startsWith("event: complete\n"), mine.list.at(-1).raw);
  },
  async the_same_session_hash_of_another_user_is_another_session() {
    const session = hash();
    const [a, b] = await Promise.all([rawJoin(session, "stream"), rawJoin(session, "stream", { headers: BOB })]);
    const [mine, theirs] = await Promise.all([Frames.session(session).end(), Frames.session(session, { headers: BOB }).end()]);
    for (const [stream, own] of [[mine, a], [theirs, b]]) same([stream.count("process_completed"), stream.count("process_completed", own)], [1, 1]);
  },
  async the_same_name_of_another_user_is_another_conversation() {
    const c = conversation();
    const [one, two] = [hash(), hash()];
    const first = await rawJoin(one, "slow 6", { conversation: c });
    const second = await rawJoin(two, "slow 6", { conversation: c, headers: BOB });
    const [a, b] = await Promise.all([Frames.session(one).end(), Frames.session(two, { headers: BOB }).end()]);
    for (const [stream, event] of [[a, first], [b, second]]) same(errorOf(stream.messages(event))?.code, undefined, "error");
  },
};
