// Every way to say message, conversation and action (GRADIO-PROTOCOL §4.3). Needs the echo of the foreign worker.
import { Frames, ask, cancel, connect, conversation, echoed, errorOf, hash, last, msg, need, post, same, types } from "../lib.mjs";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Through the stock client: what `submit` got, and what arrived at the worker. */
async function form(data, event_data, wanted) {
  const app = await connect();
  const out = await ask(app, data, { event_data });
  const echo = echoed(out);
  same({ text: echo.message.text, files: echo.message.files.length, conversation: echo.conversation_id ?? null, action: echo.action }, { text: "echo", files: 0, conversation: null, action: null, ...wanted });
  app.close();
}

/** A body as curl would send it. */
async function body(data, more, wanted) {
  const session = hash();
  const answer = await post("/queue/join", { data, fn_index: 0, session_hash: session, ...more });
  const text = await answer.text();
  same(answer.status, 200, `status of ${JSON.stringify(data)} (${text})`);
  const frames = await Frames.session(session).end();
  const plain = frames.messages().at(-1);
  if (wanted.error) return same(errorOf(frames.messages())?.code, wanted.error, `error of ${JSON.stringify(data)}`);
  const echo = JSON.parse(plain.content);
  return same({ text: echo.message.text, conversation: echo.conversation_id ?? null, action: echo.action, call: echo.tool_call_id }, { text: "echo", conversation: null, action: null, call: null, ...wanted }, JSON.stringify(data));
}

const name = () => conversation("form");

export default {
  async array() {
    const c = name();
    await form([msg("echo"), c, "confirm"], undefined, { conversation: c, action: "confirm" });
  },
  async array_of_all_six() {
    const c = name();
    await form([null, c, null, "an id", "echo", []], undefined, { conversation: c });
  },
  array_of_one: () => form([msg("echo")], undefined, {}),
  async array_with_an_explicit_null_for_the_state() {
    const c = name();
    await form([msg("echo"), null, c, "confirm"], undefined, { conversation: c, action: "confirm" });
    const d = name();
    await form([msg("echo"), null, d, null], undefined, { conversation: d });
    await form([msg("echo"), null, null, null], undefined, {});
  },
  async array_and_event_data() {
    const c = name();
    await form([msg("echo")], [c, "deny"], { conversation: c, action: "deny" });
  },
  async named() {
    const c = name();
    await form({ message: msg("echo"), conversation_id: c, action: "deny" }, undefined, { conversation: c, action: "deny" });
  },
  async named_message_and_event_data() {
    const c = name();
    await form({ message: msg("echo") }, [c, null], { conversation: c });
  },
  async named_message_and_a_string_as_event_data() {
    const c = name();
    await form({ message: msg("echo") }, c, { conversation: c });
  },
  async text_and_files_and_event_data() {
    const c = name();
    await form(msg("echo"), [c, null], { conversation: c });
  },
  async the_resume_call_of_the_seeds() {
    const c = name();
    await form({ message: "echo", action: "confirm", conversation_id: c }, [c, "confirm"], { conversation: c, action: "confirm" });
  },
  async message_as_a_plain_string() {
    const c = name();
    await form(["echo", c, null], undefined, { conversation: c });
  },
  async the_parameters_win_over_event_data() {
    const [c, d] = [name(), name()];
    await form([msg("echo"), c, null], [d, null], { conversation: c });
  },
  async other_event_data_is_ignored() {
    for (const event_data of [null, 7, { a: 1 }, [], [null, null], ["", ""]]) await body([msg("echo"), null, null], { event_data }, {});
  },
  async empty_strings_mean_nothing() {
    await body([msg("echo"), "", ""], {}, {});
  },
  async data_as_an_object() {
    const c = name();
    await body({ message: msg("echo"), conversation_id: c }, {}, { conversation: c });
  },
  async unknown_fields_are_tolerated() {
    const c = name();
    await body([msg("echo"), c, null], { trigger_id: 4, simple_format: false, batched: false, event_id: null, oauth_token: "x", added: [1] }, { conversation: c });
  },
  async decision_about_one_call() {
    const c = name();
    await body([msg("echo"), c, "confirm:call_2"], {}, { conversation: c, action: "confirm", call: "call_2" });
    await body([msg("echo"), c, "deny:call_1"], {}, { conversation: c, action: "deny", call: "call_1" });
    await body([msg("echo"), c, "resume"], {}, { conversation: c, action: "resume" });
  },
  async text_is_not_an_action() {
    const c = name();
    await body(["confirm", c, null], {}, { text: "confirm", conversation: c });
  },
  async an_unknown_action_is_no_action() {
    for (const action of ["explode", "CONFIRM", "yes"]) {
      const c = name();
      await body([msg("echo"), c, action], {}, { conversation: c });
    }
    const answer = await post("/queue/join", { data: [msg("echo"), name(), "attach:x"], fn_index: 0, session_hash: hash() });
    same([answer.status, typeof (await answer.json()).detail], [400, "string"], "attach with a cursor that is none");
  },
  async an_empty_message_is_an_error_in_the_stream() {
    for (const message of [msg(""), "", "  \n ", null, {}]) await body([message, name(), null], {}, { error: "BAD_REQUEST" });
  },
  async a_message_of_the_wrong_type_is_an_error() {
    for (const message of [7, true, [1], { text: 5 }, { text: "x", files: "y" }, { text: ["x"] }]) {
      const session = hash();
      const answer = await post("/queue/join", { data: [message, name(), null], fn_index: 0, session_hash: session });
      const said = await answer.json();
      if (answer.status === 400) need(typeof said.detail === "string", JSON.stringify(said));
      else same(errorOf((await Frames.session(session).end()).messages())?.code, "BAD_REQUEST", JSON.stringify(message));
    }
  },
  async conversation_names_may_hold_anything_but_not_be_long() {
    for (const c of ["a.*.>", "мой чат 🙂", "../../etc", "x".repeat(128), " "]) await body([msg("echo"), c, null], {}, { conversation: c });
    for (const c of ["x".repeat(129), "a\u0000b", "line\nbreak"]) await body([msg("echo"), c, null], {}, { error: "BAD_REQUEST" });
    for (const c of [5, { a: 1 }, ["x"]]) {
      const answer = await post("/queue/join", { data: [msg("echo"), c, null], fn_index: 0, session_hash: hash() });
      const said = await answer.json();
      need(answer.status === 200 || (answer.status === 400 && typeof said.detail === "string"), `${answer.status} ${JSON.stringify(said)}`);
    }
  },
  async a_new_conversation_gets_an_id_that_can_be_used() {
    const app = await connect();
    const out = await ask(app, [msg("stream")]);
    const ids = new Set(out.values.map((m) => m.metadata.conversation_id));
    same(ids.size, 1, "number of conversation ids");
    const [id] = ids;
    need(UUID.test(id), `a new conversation is called ${id}`);
    same(new Set(out.values.map((m) => m.metadata.thread_id)).has(id), true, "thread_id");
    same(last(await ask(app, [msg("stream"), id, null])).metadata.conversation_id, id);
    app.close();
  },
  async a_named_conversation_keeps_its_name() {
    const app = await connect();
    const c = name();
    for (const m of (await ask(app, [msg("types"), c, null])).values) same([m.metadata.conversation_id, m.metadata.thread_id], [c, c], types([m])[0]);
    app.close();
  },
  async cancel_and_reset_always_succeed() {
    for (const [event_id, session] of [["none", "none"], [null, "none"], ["00000000-0000-7000-8000-000000000000", hash()], [7, null], ["a.*.>", ">"]]) {
      const answer = await cancel(event_id, session);
      same([answer.status, await answer.json()], [200, { success: true }], `cancel of ${event_id}`);
    }
    const answer = await post("/reset", { event_id: "none" });
    same([answer.status, await answer.json()], [200, { success: true }]);
  },
};
