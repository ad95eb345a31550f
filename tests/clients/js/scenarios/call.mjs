// The plain form for curl (GRADIO-PROTOCOL §9).
import { Frames, conversation, get, hash, msg, need, options, post, same } from "../lib.mjs";

async function call(data, more = {}) {
  const answer = await post("/call/chat", { data, ...more });
  const said = await answer.json();
  same([answer.status, typeof said.event_id], [200, "string"], `call/chat (${JSON.stringify(said)})`);
  return said.event_id;
}
/** [event, value] per frame. */
async function read(event_id, more) {
  const stream = await new Frames(`/call/chat/${event_id}`, more).end();
  same([stream.status, stream.rest], [200, ""]);
  return stream.list.map(({ raw }) => {
    const [event, data, ...rest] = raw.split("\n");
    need(event.startsWith("event: ") && data?.startsWith("data: ") && !rest.length, `frame ${JSON.stringify(raw)}`);
    return [event.slice(7), JSON.parse(data.slice(6))];
  });
}

export default {
  async values_come_whole() {
    const c = conversation();
    const frames = await read(await call([msg("stream"), c, null]), { base: options.peer });
    same(frames.map(([event]) => event).filter((e) => e === "complete").length, 1);
    const [event, value] = frames.at(-1);
    same([event, value.length, value[0].role, value[0].metadata.conversation_id], ["complete", 1, "assistant", c]);
    const tokens = frames.filter(([e, v]) => e === "generating" && v[0].metadata.type === "stream_token").map(([, v]) => v[0].metadata.token);
    same([tokens.length, tokens.join("")], [8, value[0].content]);
  },
  async every_data_form_works_here_too() {
    const c = conversation();
    for (const data of [[msg("echo"), c, "confirm"], ["echo", c, "confirm"], [msg("echo"), null, c, "confirm"]]) {
      const [, [value]] = (await read(await call(data))).at(-1);
      const echo = JSON.parse(value.content);
      same([echo.message.text, echo.conversation_id, echo.action], ["echo", c, "confirm"]);
    }
  },
  async an_error_is_a_value() {
    const frames = await read(await call([msg("error"), conversation(), null]));
    const [event, [value]] = frames.at(-1);
    same([event, value.metadata.type, value.metadata.code], ["complete", "error", "LLM_UNAVAILABLE"]);
  },
  async with_its_own_session_hash() {
    const frames = await read(await call([msg("echo"), conversation(), null], { session_hash: hash() }));
    same(frames.at(-1)[0], "complete");
  },
  async an_unknown_id_is_an_error_event() {
    for (const id of ["none", "00000000-0000-7000-8000-000000000000", "a.*"]) same(await read(id), [["error", "404: Not Found"]], id);
  },
  async an_id_is_read_once() {
    const id = await call([msg("echo"), conversation(), null]);
    same((await read(id)).at(-1)[0], "complete");
    same(await read(id), [["error", "404: Not Found"]]);
  },
  async unknown_endpoints_are_404() {
    const answer = await post("/call/nothing", { data: [] });
    same([answer.status, typeof (await answer.json()).detail], [404, "string"]);
    const status = await get("/queue/status");
    if (status.status === 200) same((await status.json()).msg, "estimation");
  },
};
