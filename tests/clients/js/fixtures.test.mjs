// The golden files of shared/contract/fixtures, read as a JavaScript client would: every documented field has its
// type, nothing undocumented is there, and what docs/protocol.md promises holds.
//   node --test tests/clients/js/fixtures.test.mjs
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

const root = new URL("../../../shared/contract/fixtures/", import.meta.url);
const read = (name) => JSON.parse(readFileSync(new URL(name, root), "utf8"));
const folder = (name) => readdirSync(new URL(name + "/", root)).sort().map((file) => [file, read(`${name}/${file}`)]);

const uuid = (v) => /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/.test(v);
const time = (v) => /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/.test(v);
const text = (v) => typeof v === "string";
const count = (v) => Number.isInteger(v) && v >= 0;
const sequence = (v) => text(v) && /^\d+$/.test(v);
const token = (v) => /^[A-Za-z0-9_-]{1,64}$/.test(v);
const any = (v) => v !== undefined;
const one = (...values) => (v) => values.includes(v);
const list = (shape) => (v, at) => Array.isArray(v) && v.every((x, i) => check(x, shape, `${at}[${i}]`) ?? true);
const optional = (shape) => ({ optional: shape });
const codes = read("error_codes.json").map((c) => c.code);

function check(value, shape, at) {
  if (typeof shape === "function") return assert.ok(shape(value, at), `${at}: ${JSON.stringify(value)}`);
  for (const key of Object.keys(value)) assert.ok(key in shape, `${at}.${key} is not documented`);
  for (const [key, want] of Object.entries(shape)) {
    if (want.optional && value[key] === undefined) continue;
    check(value[key], want.optional ?? want, `${at}.${key}`);
  }
}

const job = {
  v: one(1), turn_id: uuid, conversation_id: uuid, conversation_ref: optional(text), session: token, user_id: text,
  user_token: optional((v) => /^v1\.[^.]+\.[A-Za-z0-9_-]+$/.test(v)), text, locale: one("ru", "en"), created_at: time, expires_at: time,
  files: optional(list({ blob: text, name: text, mime: text, size: count })),
};
const jobs = {
  message: { ...job, kind: one("message") },
  confirm: { ...job, kind: one("confirm"), tool_call_id: optional(text) },
  deny: { ...job, kind: one("deny"), tool_call_id: optional(text) },
  resume: { ...job, kind: one("resume") },
};

const call = { tool_call_id: text, tool: text };
const data = {
  queued: { user_id: text, session_hash: text, conversation_ref: optional(text), ahead: count, attach: optional({ turn_id: uuid, session: token, after: count }), digest: optional(text) },
  attempt: { attempt: count, worker: text },
  stream_token: { token: text },
  tool_start: { ...call, input: any },
  tool_progress: { ...call, elapsed_s: count },
  tool_end: { ...call, output: any },
  tool_error: { ...call, error: text, code: optional(one(...codes)) },
  confirm_required: { confirmation_id: uuid, prompt: text, thread_id: text, expires_at: time, calls: list({ ...call, input: any, prompt: text }) },
  confirm_resolved: { confirmation_id: uuid, result: one("confirmed", "denied", "mixed", "expired", "cancelled"), reason: optional(text), tool_call_ids: list(text) },
  warning: { code: text, detail: text },
  rewind: { to_cursor: sequence },
  stream_gap: { from: sequence, to: sequence },
  message: { content: text },
  error: { code: one(...codes), detail: text, extra: optional(any) },
  turn_end: {
    status: one("completed", "interrupted", "cancelled", "failed", "rejected"), text: optional(text),
    usage: optional({ input_tokens: count, output_tokens: count, steps: count }),
    timings: optional({ queue_ms: count, first_token_ms: optional(count), total_ms: count }),
  },
  session: { watermark: count, done: list(uuid), done_at: list(count) },
};

const control = {
  cancel: { v: one(1), turn_id: uuid, by: text },
  join: { ask: one("join"), turn_id: uuid },
  claim: { ask: one("claim"), reader: text },
  open: { answer: one("open") },
  closed: { answer: one("closed"), wait_ms: count },
  released: { answer: one("released"), delivered: list({ turn_id: uuid, seq: count }) },
};

const settings = { ack_wait_ms: count, lease_ms: count, heartbeat_ms: count, drain_ms: count, database_pool: count };
const workerAsk = { report: { ask: one("report") }, drain: { ask: one("drain"), worker: text, by: text } };
const workerAnswer = {
  report: { answer: one("report"), worker: text, version: text, slots: count, running: count, draining: one(true, false), started_at: time, clock: time, settings },
  drained: { answer: one("drained"), worker: text, handed_over: count },
};

const kindOf = (file) => file.split(".")[0];

for (const [file, value] of folder("job")) test(`job/${file}`, () => check(value, jobs[kindOf(file)], kindOf(file)));

for (const [file, value] of folder("event"))
  test(`event/${file}`, () => {
    const type = kindOf(file);
    check(value, { v: one(1), turn_id: uuid, attempt: count, n: count, type: one(type), data: data[type], ts: time }, type);
  });

for (const [file, value] of folder("control")) test(`control/${file}`, () => check(value, control[kindOf(file)], kindOf(file)));

for (const [file, value] of folder("worker/ask")) test(`worker/ask/${file}`, () => check(value, workerAsk[kindOf(file)], kindOf(file)));
for (const [file, value] of folder("worker/answer")) test(`worker/answer/${file}`, () => check(value, workerAnswer[kindOf(file)], kindOf(file)));

test("every documented kind has a fixture", () => {
  for (const [name, shapes] of Object.entries({ job: jobs, event: data, control, "worker/ask": workerAsk, "worker/answer": workerAnswer }))
    assert.deepEqual([...new Set(folder(name).map(([file]) => kindOf(file)))].sort(), Object.keys(shapes).sort());
});

test("names on NATS are made of the ids", () => {
  const { conversation_id, session, turn_id, subjects } = read("names.json");
  assert.equal(subjects.job, `agent.v1.job.${conversation_id}`);
  assert.equal(subjects.event, `agent.v1.ev.${conversation_id}.${session}.${turn_id}`);
  assert.equal(subjects.live_of_conversation, `agent.v1.live.${conversation_id}.*.*`);
  assert.equal(subjects.cancel, `agent.v1.ctl.cancel.${turn_id}`);
});

test("every error code has a status and a text in both languages", () => {
  for (const { code, http_status, retryable, en, ru } of read("error_codes.json")) {
    assert.match(code, /^[A-Z_]+$/);
    assert.ok(http_status >= 400 && http_status < 600 && typeof retryable === "boolean" && /^[\x20-\x7e]+$/.test(en) && /[а-яё]/i.test(ru), code);
  }
});
