// The gateway's frames held against those of real Gradio (tests/conformance). Needs the foreign worker.
import { readFileSync, readdirSync } from "node:fs";

import { Frames, conversation, hash, msg, need, post, rawJoin, same, slowScenario } from "../lib.mjs";

const root = new URL("../../../conformance/", import.meta.url);
const versions = readdirSync(root).filter((name) => name.startsWith("gradio-"));
const read = (version, file) => readFileSync(new URL(`${version}/${file}.txt`, root), "utf8").split("\n\n").filter(Boolean);
const queue = (version, file) => read(version, file).map((raw) => JSON.parse(raw.replace(/^data: /, "")));

const kind = (value) => (value === null ? "null" : Array.isArray(value) ? "array" : typeof value);
/** Every path of a frame with its type; what is inside `data` belongs to the application. */
function fields(frame, prefix = "") {
  return Object.entries(frame).flatMap(([key, value]) => {
    const path = `${prefix}${key}`;
    return kind(value) === "object" && key !== "data" ? [[path, "object"], ...fields(value, `${path}.`)] : [[path, kind(value)]];
  });
}
/** message -> field -> types seen, over all recorded streams. */
const known = {};
for (const version of versions)
  for (const file of ["types", "heartbeats", "two_at_once"])
    for (const frame of queue(version, file))
      for (const [path, type] of fields(frame)) ((known[frame.msg] ??= {})[path] ??= new Set()).add(type);

// What clients rely on (GRADIO-PROTOCOL §5.3): these must be there.
const MUST = {
  estimation: ["event_id", "rank", "queue_size"],
  process_starts: ["event_id"],
  process_generating: ["event_id", "success", "output.data"],
  process_completed: ["event_id", "success", "output.data"],
  heartbeat: ["event_id"],
  close_stream: ["event_id"],
};

function compare(frames) {
  for (const { raw, at, ...frame } of frames) {
    need(at > 0 && /^data: \{.*\}$/.test(raw), `frame ${raw.slice(0, 80)}`);
    const seen = fields(frame);
    need(known[frame.msg], `Gradio knows no ${frame.msg}`);
    for (const [path, type] of seen) {
      need(known[frame.msg][path], `${frame.msg} has ${path}, which Gradio does not send`);
      const may = known[frame.msg][path];
      need(may.has(type) || (type === "null" && may.has("number")), `${frame.msg}.${path} is ${type}, Gradio sends ${[...may]}`);
    }
    for (const path of MUST[frame.msg]) need(seen.some(([p]) => p === path), `${frame.msg} lacks ${path}`);
  }
}
/** The order of messages, with runs of the same one folded. */
const order = (frames) => frames.map((f) => f.msg).filter((m, i, all) => m !== all[i - 1]);

export default {
  async one_submission() {
    const session = hash();
    await rawJoin(session, "types");
    const stream = await Frames.session(session).end();
    compare(stream.list);
    for (const version of versions) same(order(stream.list), order(queue(version, "types")), `order against ${version}`);
  },
  async two_submissions() {
    const session = hash();
    const ids = [await rawJoin(session, "stream"), await rawJoin(session, "stream")];
    const stream = await Frames.session(session).end();
    compare(stream.list);
    for (const version of versions) {
      const recorded = queue(version, "two_at_once");
      const theirs = [...new Set(recorded.map((f) => f.event_id).filter(Boolean))];
      for (const [mine, other] of [[ids[0], theirs[0]], [ids[1], theirs[1]]])
        same(order(stream.list.filter((f) => f.event_id === mine)), order(recorded.filter((f) => f.event_id === other)), `order against ${version}`);
      same(stream.list.at(-1).raw, `data: ${JSON.stringify(recorded.at(-1))}`, "the last frame");
    }
  },
  silence: slowScenario(60, async () => {
    const session = hash();
    await rawJoin(session, "pause 17");
    const stream = await Frames.session(session).end();
    compare(stream.list);
    for (const version of versions) same(order(stream.list), order(queue(version, "heartbeats")), `order against ${version}`);
  }),
  async the_plain_form() {
    const { event_id } = await (await post("/call/chat", { data: [msg("only_tokens 2"), conversation(), null] })).json();
    const stream = await new Frames(`/call/chat/${event_id}`).end();
    const lines = (raw) => raw.split("\n").map((line) => line.replace(/^(event: \w+|data:).*/, "$1"));
    for (const version of versions) {
      const shape = (list) => list.map(lines).filter((l, i, all) => JSON.stringify(l) !== JSON.stringify(all[i - 1]));
      same(shape(stream.list.map((f) => f.raw)), shape(read(version, "call")), `frames against ${version}`);
    }
  },
};
