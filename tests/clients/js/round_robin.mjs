// Sends each request to the next of several gateways, so that nothing of a session stays on one of them.
//   node round_robin.mjs PORT http://gateway-1 http://gateway-2 ...
import { Agent, createServer, request } from "node:http";
import { pipeline } from "node:stream";

const [port, ...gateways] = process.argv.slice(2);
const agent = new Agent({ keepAlive: true, maxSockets: Infinity });
let turn = 0;

createServer((from, to) => {
  const gateway = new URL(gateways[turn++ % gateways.length]);
  const onward = request({ agent, host: gateway.hostname, port: gateway.port, method: from.method, path: from.url, headers: from.headers });
  onward.on("response", (answer) => {
    to.writeHead(answer.statusCode, answer.headers);
    to.flushHeaders();
    pipeline(answer, to, () => {});
  });
  onward.on("error", () => (to.headersSent ? to.destroy() : to.writeHead(502, { "Content-Type": "application/json" }).end('{"detail":"Bad Gateway"}')));
  to.on("close", () => onward.destroy());
  pipeline(from, onward, () => {});
})
  .on("connection", (socket) => socket.setNoDelay(true))
  .listen(Number(port), "127.0.0.1");
