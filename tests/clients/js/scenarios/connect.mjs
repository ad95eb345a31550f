// What a client fetches before it submits anything (GRADIO-PROTOCOL §2, §3).
import { ALICE, Frames, P, connect, get, hash, need, options, same, sleep, slowScenario } from "../lib.mjs";

const PARAMETERS = ["message", "conversation_id", "action", "client_message_id", "text", "files"];

export default {
  async config_says_what_every_client_needs() {
    const config = await (await fetch(`${options.base}/config`, { headers: ALICE })).json();
    same([config.protocol, config.api_prefix, config.run_history, config.connect_heartbeat], ["sse_v3", P, false, false]);
    need(!("root" in config), "root must be left out: newer JS clients follow it, wherever it points");
    need(typeof config.app_id === "string", "app_id must be a string");
    same(config.max_file_size, 10 * 1024 * 1024);
    const [dependency] = config.dependencies;
    same([dependency.api_name, dependency.show_api, dependency.api_visibility, dependency.backend_fn, dependency.queue], ["chat", true, "public", true, true]);
    same([dependency.inputs.length, dependency.outputs.length], [PARAMETERS.length, 1]);
    for (const id of [...dependency.inputs, ...dependency.outputs]) {
      const component = config.components.find((c) => c.id === id);
      need(component?.type && component.type !== "state", `component ${id} is ${JSON.stringify(component)}`);
    }
  },
  async info_gives_every_parameter_a_default() {
    const info = await (await get("/info?serialize=False")).json();
    const chat = info.named_endpoints["/chat"];
    same(chat.parameters.map((p) => p.parameter_name), PARAMETERS);
    for (const p of chat.parameters) need(p.parameter_has_default === true && "parameter_default" in p && p.python_type?.type, JSON.stringify(p));
    need(chat.returns.length === 1 && info.unnamed_endpoints, "returns and unnamed_endpoints must be there");
  },
  async every_gateway_of_the_fleet_says_the_same() {
    for (const path of ["/config", `${P}/info`, `${P}/app_id`]) {
      const [a, b] = await Promise.all([options.base, options.peer].map(async (base) => (await fetch(base + path, { headers: ALICE })).text()));
      same(a, b, path);
    }
  },
  async config_answers_with_a_slash_and_a_query_too() {
    for (const path of ["/config/", "/config?deep_link=x", "/config?page=y"]) same((await fetch(options.base + path, { headers: ALICE })).status, 200, path);
  },
  async the_client_connects_and_views_the_api() {
    const app = await connect();
    same(app.config.root, options.base, "root");
    const api = await app.view_api();
    same(api.named_endpoints["/chat"].parameters.map((p) => p.parameter_name), PARAMETERS);
    same(await app.reconnect(), "connected");
    app.close();
  },
  async unknown_paths_and_methods_are_json() {
    const unknown = await get("/nothing/here");
    same([unknown.status, typeof (await unknown.json()).detail], [404, "string"]);
    const method = await fetch(options.base + P + "/queue/join", { headers: ALICE });
    same([method.status, typeof (await method.json()).detail], [405, "string"]);
  },
  heartbeat_stays_open: slowScenario(40, async () => {
    const beat = new Frames(`/heartbeat/${hash()}`);
    await beat.until((frames) => frames.length >= 2, 25_000);
    same(beat.status, 200);
    for (const frame of beat.list) same(frame.raw, "data: ALIVE");
    need(!beat.ended, "the heartbeat ended");
    beat.stop();
  }),
  twenty_heartbeats_stay_open: slowScenario(30, async () => {
    const beats = Array.from({ length: 20 }, () => new Frames(`/heartbeat/${hash()}`));
    await Promise.all(beats.map((beat) => beat.until((frames) => frames.length >= 1)));
    await sleep(1000);
    for (const beat of beats) {
      same([beat.status, beat.ended, beat.list.length], [200, false, 1]);
      beat.stop();
    }
  }),
};
