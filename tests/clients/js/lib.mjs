// What every scenario needs: options, tokens, the stock client, raw HTTP, and the runner that prints PASS and FAIL.
import { createHmac, randomUUID } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { pathToFileURL } from "node:url";

const { values } = parseArgs({
  options: {
    base: { type: "string" }, // where the clients connect
    rest: { type: "string" }, // where /api/... is served
    peer: { type: "string" }, // another gateway of the same fleet; the base if absent
    client: { type: "string" }, // folder that holds node_modules/@gradio/client
    worker: { type: "string", default: "foreign" }, // foreign | real
    joins: { type: "string", default: "2000" }, // of the loop around the closing moment
    parallel: { type: "string", default: "6" },
    only: { type: "string" },
    except: { type: "string" },
    list: { type: "boolean" },
  },
});
export const options = {
  ...values,
  base: values.base?.replace(/\/+$/, ""),
  peer: (values.peer ?? values.base)?.replace(/\/+$/, ""),
  rest: (values.rest ?? values.base)?.replace(/\/+$/, ""),
  joins: Number(values.joins),
  secret: process.env.JWT_SECRET,
};
export const P = "/gradio_api";

// ---- tokens

const base64url = (x) => Buffer.from(x).toString("base64url");
export function token(claims, { secret = options.secret, header = { alg: "HS256", typ: "JWT" } } = {}) {
  const head = `${base64url(JSON.stringify(header))}.${base64url(JSON.stringify(claims))}`;
  return `${head}.${createHmac("sha256", secret).update(head).digest("base64url")}`;
}
export const now = () => Math.floor(Date.now() / 1000);
// A user of this run only, so that suites which run side by side don't meet.
const run = randomUUID().slice(0, 8);
export const user = (name, seconds = 3600) => token({ sub: `${name}-${run}`, exp: now() + seconds });
export const bearer = (jwt) => ({ Authorization: `Bearer ${jwt}` });
export const ALICE = options.secret ? bearer(user("alice")) : {};
export const BOB = options.secret ? bearer(user("bob")) : {};

// ---- the stock client

const folder = join(options.client ?? ".", "node_modules/@gradio/client");
export const version = existsSync(folder) ? JSON.parse(readFileSync(join(folder, "package.json"), "utf8")).version : "none";
const gradio = version === "none" ? {} : await import(pathToFileURL(join(folder, "dist/index.js")).href);
export const { prepare_files } = gradio;
const numbers = version.split(".").map(Number);
export const atLeast = (...wanted) => {
  for (const [i, w] of wanted.entries()) if ((numbers[i] ?? 0) !== w) return (numbers[i] ?? 0) > w;
  return true;
};
// 1.16.0 to 2.2.0 never leave a `for await` (GRADIO-PROTOCOL P1).
export const LOOP_ENDS = atLeast(2, 2, 1) || !atLeast(1, 15, 7);

// 1.15 reports a cancelled submission as complete by itself, before the server's last value is there.
export const CANCEL_WAITS = atLeast(1, 16);

let chatter = [];
console.error = console.warn = (...args) => chatter.push(args.map((a) => a?.message ?? String(a)).join(" "));
process.on("unhandledRejection", (e) => chatter.push(`unhandled: ${e}`));

export const connect = (more = {}, base = options.base) =>
  gradio.Client.connect(base, { events: ["data", "status", "log"], headers: ALICE, ...more });
export const msg = (text, files = []) => ({ text, files });
let names = 0;
export const conversation = (word = "conv") => `${word}-${run}-${++names}`;

/** Consumes a submission up to its final status, whatever the client's version does with the loop. */
export async function drain(submission, { timeout = 25_000, onEvent } = {}) {
  const started = performance.now();
  const out = { values: [], times: [], statuses: [], final: null, loopEnded: false };
  await new Promise((resolve) => {
    const timer = setTimeout(() => ((out.timedOut = true), resolve()), timeout);
    const done = () => (clearTimeout(timer), resolve());
    (async () => {
      for await (const event of submission) {
        if (event.type === "data") {
          out.values.push(event.data[0]);
          out.times.push(performance.now() - started);
        } else if (event.type === "status") {
          out.statuses.push(event);
          if (event.stage === "complete" || event.stage === "error") {
            out.final = event;
            if (!LOOP_ENDS || event.stage === "error") setTimeout(done, 100);
          }
        }
        onEvent?.(event, out);
      }
      out.loopEnded = true;
    })().then(done, (e) => ((out.thrown = e), done()));
  });
  out.ms = performance.now() - started;
  return out;
}

/** Submits and expects a clean end. */
export async function ask(app, data, more = {}) {
  const out = await drain(app.submit("/chat", data, more.event_data), more);
  completed(out);
  return out;
}
export function completed(out) {
  need(!out.timedOut, `no final status after ${Math.round(out.ms)} ms (${out.values.length} values)`);
  need(out.final?.stage === "complete", `ended with ${JSON.stringify(out.final)} ${out.thrown ?? ""}`);
  return out;
}
export const last = (out) => out.values.at(-1);
export const echoed = (out) => JSON.parse(last(out).content);
export const types = (messages) => messages.map((m) => m.metadata?.type ?? "plain");
export const tokens = (messages) => messages.filter((m) => m.metadata?.type === "stream_token").map((m) => m.metadata.token).join("");
export const errorOf = (messages) => messages.find((m) => m.metadata?.type === "error")?.metadata;

// ---- raw HTTP

export const hash = () => Math.random().toString(36).slice(2, 13);
const json = { "Content-Type": "application/json" };
export const post = (path, body, headers = ALICE, base = options.base) =>
  fetch(base + P + path, { method: "POST", headers: { ...json, ...headers }, body: typeof body === "string" ? body : JSON.stringify(body) });
export const get = (path, headers = ALICE, base = options.base) => fetch(base + P + path, { headers });

/** POST queue/join; gives the event's id. */
export async function rawJoin(session, text, { headers = ALICE, base = options.base, conversation: conv = conversation(), action = null, more = {} } = {}) {
  const answer = await post("/queue/join", { data: [msg(text), conv, action, null, null], fn_index: 0, session_hash: session, ...more }, headers, base);
  const body = await answer.json();
  need(answer.status === 200, `join answers ${answer.status} ${JSON.stringify(body)}`);
  need(typeof body.event_id === "string", `join answers ${JSON.stringify(body)}`);
  return body.event_id;
}
export const cancel = (event_id, session_hash, headers = ALICE, base = options.base) =>
  post("/cancel", { event_id, session_hash, fn_index: 0 }, headers, base);

/** One reader of an event stream, frame by frame. */
export class Frames {
  constructor(path, { headers = ALICE, base = options.base } = {}) {
    this.abort = new AbortController();
    this.list = [];
    this.ended = false;
    this.waiting = [];
    this.pump = this.#read(base + P + path, headers);
  }
  static session(session, more) {
    return new Frames(`/queue/data?session_hash=${session}`, more);
  }
  async #read(url, headers) {
    try {
      const answer = await fetch(url, { headers: { Accept: "text/event-stream", ...headers }, signal: this.abort.signal });
      Object.assign(this, { status: answer.status, headers: answer.headers });
      const decoder = new TextDecoder();
      let text = "";
      for await (const chunk of answer.body) {
        text += decoder.decode(chunk, { stream: true });
        for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) this.#take(text.slice(0, end));
      }
      this.rest = text;
      this.closed = true;
    } catch (e) {
      this.error = e;
    }
    this.ended = true;
    for (const wake of this.waiting.splice(0)) wake();
  }
  #take(raw) {
    const frame = { raw, at: performance.now() };
    if (raw.startsWith("data: {")) Object.assign(frame, JSON.parse(raw.slice(6)));
    this.list.push(frame);
    for (const wake of this.waiting.splice(0)) wake();
  }
  /** Waits until the frames fulfil `condition`, or the stream has ended. */
  async until(condition, timeout = 20_000) {
    const end = performance.now() + timeout;
    while (!condition(this.list)) {
      need(!this.ended, `the stream ended (${this.error ?? ""}) after ${this.kinds()}`);
      const left = end - performance.now();
      need(left > 0, `not seen within ${timeout} ms; frames: ${this.kinds()}`);
      await Promise.race([new Promise((wake) => this.waiting.push(wake)), sleep(Math.min(left, 500))]);
    }
    return this;
  }
  async end(timeout = 30_000) {
    const timer = sleep(timeout).then(() => "late");
    need((await Promise.race([this.pump, timer])) !== "late", `the stream is still open after ${timeout} ms; frames: ${this.kinds()}`);
    return this;
  }
  kinds() {
    return this.list.map((f) => f.msg ?? f.raw.slice(0, 40)).filter((m) => m !== "heartbeat");
  }
  /** The messages of one submission, edits applied, without the repeated last one. */
  messages(event_id) {
    return this.list
      .filter((f) => f.msg === "process_generating" && (!event_id || f.event_id === event_id))
      .map((f) => (Array.isArray(f.output.data[0]) ? f.output.data[0][0][2] : f.output.data[0]));
  }
  count(msg_name, event_id) {
    return this.list.filter((f) => f.msg === msg_name && (!event_id || f.event_id === event_id)).length;
  }
  stop() {
    this.abort.abort();
  }
}
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// ---- expectations

export function need(condition, text) {
  if (!condition) throw new Error(text);
}
export const same = (seen, wanted, what = "value") =>
  need(JSON.stringify(seen) === JSON.stringify(wanted), `${what} is ${JSON.stringify(seen)?.slice(0, 300)}, not ${JSON.stringify(wanted)?.slice(0, 300)}`);
class Skip extends Error {}
export const skip = (why) => {
  throw new Skip(why);
};

// ---- runner

export async function runAll(scenarios) {
  const only = options.only?.split(",");
  const except = options.except?.split(",") ?? [];
  const chosen = Object.entries(scenarios).filter(([name]) => (!only || only.includes(name)) && !except.includes(name));
  if (options.list) return console.log(chosen.map(([name]) => name).join("\n"));
  console.log(`# @gradio/client ${version} against ${options.base} (worker ${options.worker})`);
  const count = { PASS: 0, FAIL: 0, SKIP: 0 };
  const one = async ([name, scenario]) => {
    const started = performance.now();
    let state = "PASS";
    let why = "";
    const limit = scenario.seconds ?? 90;
    try {
      const late = new Promise((_, reject) => setTimeout(() => reject(new Error(`took over ${limit} s`)), limit * 1000));
      await Promise.race([scenario(), late]);
    } catch (e) {
      state = e instanceof Skip ? "SKIP" : "FAIL";
      why = e.message + (state === "FAIL" && chatter.length ? ` [client said: ${chatter.slice(-2).join(" | ").slice(0, 200)}]` : "");
    }
    count[state] += 1;
    console.log(`${state} ${name} (${Math.round(performance.now() - started)} ms)${why ? `: ${why}` : ""}`);
  };
  const alone = chosen.filter(([, s]) => s.alone);
  const queue = chosen.filter(([, s]) => !s.alone).sort(([, a], [, b]) => (b.seconds ?? 0) - (a.seconds ?? 0));
  const lane = async () => {
    for (let next; (next = queue.shift()); ) await one(next);
  };
  await Promise.all(Array.from({ length: Number(options.parallel) }, lane));
  for (const scenario of alone) await one(scenario);
  console.log(`${count.PASS} passed, ${count.FAIL} failed${count.SKIP ? `, ${count.SKIP} skipped` : ""}`);
  process.exit(count.FAIL || !count.PASS ? 1 : 0);
}
/** A scenario that needs more time than others; those start first. */
export const slowScenario = (seconds, scenario) => Object.assign(scenario, { seconds });
/** A scenario that measures, and so runs when nothing else does. */
export const aloneScenario = (seconds, scenario) => Object.assign(scenario, { seconds, alone: true });
