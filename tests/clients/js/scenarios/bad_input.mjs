// What nobody should send (GRADIO-PROTOCOL §4.4): a clear refusal, nothing leaked, the service goes on.
import { ALICE, Frames, P, ask, connect, conversation, errorOf, hash, msg, need, options, post, same } from "../lib.mjs";

const LEAKS = /panick|stack|\.rs\b|127\.0\.0\.1|postgres|nats:|serde|sqlx|\/home\/|\/root\//i;

async function refused(path, body, statuses, more = {}) {
  const answer = await fetch(options.base + P + path, { method: "POST", headers: { ...ALICE, "Content-Type": "application/json", ...more }, body });
  const text = await answer.text();
  const what = `${path} ${String(body).slice(0, 60)} -> ${answer.status} ${text.slice(0, 120)}`;
  need(statuses.includes(answer.status), what);
  const said = JSON.parse(text);
  need(typeof said.detail === "string" && said.detail, `no detail: ${what}`);
  need(!LEAKS.test(said.detail), `leaks: ${what}`);
}
const join = (more) => JSON.stringify({ data: [msg("echo"), null, null], fn_index: 0, session_hash: hash(), ...more });

export default {
  async joins_that_make_no_sense() {
    for (const body of ["", "{", "[]", "null", '"x"', "\u0000", '{"data":', "{}", '{"data":[],"fn_index":0}']) await refused("/queue/join", body, [400]);
    for (const more of [{ data: "x" }, { data: 7 }, { session_hash: undefined }, { session_hash: 7 }, { session_hash: "" }, { fn_index: "a" }, { fn_index: -1 }, { fn_index: 1.5 }]) await refused("/queue/join", join(more), [400, 404]);
  },
  async joins_without_any_data() {
    for (const data of [null, [], [null, null, null]]) {
      const session_hash = hash();
      const answer = await post("/queue/join", { data, fn_index: 0, session_hash });
      same(answer.status, 200, JSON.stringify(data));
      same(errorOf((await Frames.session(session_hash).end()).messages())?.code, "BAD_REQUEST");
    }
  },
  async an_unknown_function() {
    await refused("/queue/join", join({ fn_index: 987654 }), [400, 404]);
    await refused("/call/unknown", JSON.stringify({ data: [] }), [404]);
  },
  async session_hashes_that_are_too_long() {
    await refused("/queue/join", join({ session_hash: "x".repeat(257) }), [400]);
  },
  async session_hashes_with_wildcards_stay_private() {
    for (const session_hash of ["a.b", "*", ">", "x y", "мой", "a\u0000b"]) {
      const answer = await post("/queue/join", JSON.parse(join({ session_hash })));
      const said = await answer.json();
      if (answer.status === 400) continue;
      same(answer.status, 200, JSON.stringify(said));
      const stream = await Frames.session(encodeURIComponent(session_hash)).end();
      same([stream.count("process_completed"), stream.count("process_completed", said.event_id)], [1, 1], session_hash);
    }
  },
  async bodies_that_are_too_large() {
    await refused("/queue/join", join({ data: ["x".repeat(3 * 1024 * 1024), null, null] }), [413]);
  },
  async cancels_that_make_no_sense() {
    for (const body of ["{", "[]", ""]) {
      const answer = await fetch(`${options.base}${P}/cancel`, { method: "POST", headers: { ...ALICE, "Content-Type": "application/json" }, body });
      const text = await answer.text();
      need([200, 400].includes(answer.status), `${answer.status} ${text}`);
      JSON.parse(text);
    }
  },
  async files_that_nobody_uploaded() {
    const app = await connect();
    const paths = ["/etc/passwd", "../../etc/passwd", "http://127.0.0.1:1/x", "https://example.com/a.csv", "0199c1a2-00f1-7000-8000-0000000000f1/x.csv", ""];
    for (const path of paths) {
      const out = await ask(app, [msg("echo", [{ path, orig_name: "x", meta: { _type: "gradio.FileData" } }]), conversation(), null]);
      need(errorOf(out.values), `${path} was accepted`);
    }
    app.close();
  },
  async files_of_the_wrong_shape() {
    for (const files of [[{}], [7], ["x"], [null], { a: 1 }, [{ path: 7 }]]) {
      const session = hash();
      const answer = await post("/queue/join", { data: [{ text: "echo", files }, conversation(), null], fn_index: 0, session_hash: session });
      const said = await answer.json();
      if (answer.status === 400) need(typeof said.detail === "string", JSON.stringify(said));
      else need(errorOf((await Frames.session(session).end()).messages()), `${JSON.stringify(files)} was accepted`);
    }
  },
  async the_wrong_content_type_is_not_a_crash() {
    const answer = await fetch(`${options.base}${P}/queue/join`, { method: "POST", headers: { ...ALICE, "Content-Type": "text/plain" }, body: join() });
    need([200, 400, 415].includes(answer.status), `status ${answer.status}`);
    JSON.parse(await answer.text());
  },
  async deep_json_is_not_a_crash() {
    const deep = "[".repeat(5000) + "]".repeat(5000);
    await refused("/queue/join", `{"data":${deep},"fn_index":0,"session_hash":"${hash()}"}`, [400]);
    const app = await connect();
    await ask(app, [msg("echo"), conversation(), null]);
    app.close();
  },
};
