// The project's own scenarios with the stock JavaScript client.
//
//   JWT_SECRET=... node suite.mjs --base URL [--peer URL] [--rest URL] --client DIR [--worker foreign|real]
//                                 [--joins 2000] [--only a.b,c.d] [--except x.y] [--list] [--parallel 6]
//
// Prints a PASS, FAIL or SKIP line per scenario and `N passed, N failed` at the end; exits with 1 if anything failed.
import { options, runAll } from "./lib.mjs";

const groups = options.worker === "real" ? ["real", "cuts"] : ["connect", "forms", "stream", "cancel", "sessions", "auth", "attach", "call", "bad_input", "files", "transcripts"];
const scenarios = {};
for (const group of groups) {
  const { default: all } = await import(`./scenarios/${group}.mjs`);
  for (const [name, scenario] of Object.entries(all)) scenarios[`${group}.${name}`] = scenario;
}
await runAll(scenarios);
