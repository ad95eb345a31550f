// Starts the fleet once for all test files, and takes their orders over a loopback port.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import type { TestProject } from "vitest/node";

const here = new URL(".", import.meta.url);
const python = new URL("../../.tools/py/bin/python", here).pathname;

export interface Fleet {
  url: string;
  secret: string;
  database: string;
  /** Takes orders of fleet.py as the body of a POST. */
  orders: string;
}

declare module "vitest" {
  export interface ProvidedContext {
    fleet: Fleet;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  if (!existsSync(python)) throw new Error("run tests/setup.sh first");
  const child = spawn(python, ["-u", new URL("fleet.py", here).pathname], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const first = await lines.next();
  if (first.done) throw new Error("the fleet did not start");
  const server = createServer((request, response) => {
    let order = "";
    request.on("data", (chunk: Buffer) => (order += chunk.toString()));
    request.on("end", () => {
      child.stdin.write(`${order}\n`);
      void lines.next().then(() => response.end("done"));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const orders = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  project.provide("fleet", { ...(JSON.parse(first.value) as Omit<Fleet, "orders">), orders });
  return async () => {
    server.close();
    const ended = new Promise((resolve) => child.on("exit", resolve));
    child.stdin.end();
    await ended;
  };
}
