// A stock client that loses its stream and attaches with the last cursor it saw (docs/protocol.md, "A stream that breaks").
import { ask, completed, connect, conversation, drain, last, msg, need, options, same, skip, sleep } from "../lib.mjs";

const TURNS = 4;
const CUTTERS = 8;
const SEED = Number(process.env.CUTS_SEED ?? Math.floor(Math.random() * 2 ** 31));
let state = SEED || 1;
const below = (end) => (state = (state * 48271) % 2147483647) % end;

/** The values of a turn as text: without the gateway's own words, the repeated last one once. */
function join(kept, values) {
  for (const value of values.filter((v) => v.metadata.cursor !== undefined)) {
    const text = JSON.stringify(value);
    if (kept.at(-1) !== text) kept.push(text);
  }
  return kept;
}
const action = (kept) => (kept.length ? `attach:${JSON.parse(kept.at(-1)).metadata.cursor}` : "attach");

/** Reads so many values of the conversation's turn with a client of its own, then leaves. */
async function read(c, kept, count, base) {
  const app = await connect({}, base);
  const values = [];
  let done = false;
  const submission = app.submit("/chat", [msg(""), c, action(kept)]);
  // Leaving a `for await` calls the iterator's `return`, which hangs from 1.16.0 to 2.2.0.
  for (let next; !(next = await submission.next()).done; ) {
    const event = next.value;
    if (event.type === "data" && values.push(event.data[0]) >= count) break;
    if (event.type === "status" && event.stage === "error") throw new Error(JSON.stringify(event));
    if ((done = event.type === "status" && event.stage === "complete")) break;
  }
  app.close();
  join(kept, values);
  return done;
}

async function cutter(c) {
  const kept = [];
  for (let hops = 1 + below(3); hops > 0; hops--) await read(c, kept, 1 + below(40), below(2) ? options.base : options.peer);
  while (!(await read(c, kept, Infinity, below(2) ? options.base : options.peer)));
  return kept;
}

export default {
  async random_cuts_are_joined() {
    console.log(`# CUTS_SEED=${SEED}`);
    const turn = async () => {
      const app = await connect();
      const c = conversation();
      let started;
      const running = new Promise((resolve) => (started = resolve));
      const whole = drain(app.submit("/chat", [msg("slow"), c, null]), { timeout: 60_000, onEvent: (event) => event.type === "data" && started() });
      await running;
      const live = Array.from({ length: CUTTERS - 2 }, () => cutter(c));
      const wanted = join([], completed(await whole).values);
      for (const kept of [...(await Promise.all(live)), await cutter(c), await cutter(c)]) same(kept, wanted, `joined values (CUTS_SEED=${SEED})`);
      app.close();
    };
    await Promise.all(Array.from({ length: TURNS }, turn));
  },
  async a_stopping_gateway_sends_its_client_on() {
    const { SPARE_GATEWAY: spare, SPARE_PID: pid } = process.env;
    if (!spare) skip("has no gateway to stop");
    const app = await connect({}, spare);
    const c = conversation();
    const onEvent = (event, out) => event.type === "data" && out.values.length === 3 && process.kill(Number(pid), "SIGTERM");
    const out = completed(await drain(app.submit("/chat", [msg("slow"), c, null]), { onEvent }));
    const { code, retryable, cursor } = last(out).metadata;
    same([code, retryable, cursor], ["UNAVAILABLE", true, undefined]);
    const kept = join([], out.values);
    need(kept.length >= 3 && kept.length < 60, `${kept.length} values before the gateway stopped`);
    const again = await connect({}, options.peer);
    join(kept, (await ask(again, [msg(""), c, action(kept)], { timeout: 60_000 })).values);
    same(kept, join([], (await ask(again, [msg(""), c, "attach"])).values), "joined values");
    again.close();
    await sleep(0);
  },
};
