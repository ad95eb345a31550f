// The page as a thing: its weight, its headers, its accessibility, and how smooth it stays.
import type { Browser, CDPSession } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { fleet, launch, rest, Screen, somebody, sql } from "./kit";

const WEIGHT_BYTES = 250_000;
const LONG_TASK_MS = 100;

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

async function weigh(session: CDPSession): Promise<() => number> {
  let bytes = 0;
  await session.send("Network.enable");
  session.on("Network.loadingFinished", ({ encodedDataLength }) => (bytes += encodedDataLength));
  return () => bytes;
}

/** What each task of the page's thread cost in milliseconds of CPU: a busy machine makes them no longer. */
function mainThreadTasks(trace: Buffer): number[] {
  interface Event {
    name: string;
    ph: string;
    pid: number;
    tid: number;
    tdur?: number;
    args: { name?: string };
  }
  const { traceEvents: events } = JSON.parse(trace.toString()) as { traceEvents: Event[] };
  const threads = new Set(
    events.filter((one) => one.args.name === "CrRendererMain").map((one) => `${one.pid}:${one.tid}`),
  );
  return events
    .filter(
      (one) =>
        one.ph === "X" &&
        one.name === "ThreadControllerImpl::RunTask" &&
        threads.has(`${one.pid}:${one.tid}`),
    )
    .map((one) => (one.tdur ?? 0) / 1000);
}

test("before the first message it weighs less than 250 kB, in either language", async () => {
  for (const locale of ["en-US", "ru-RU"]) {
    const screen = await Screen.open(browser, { locale, path: "/robots.txt" });
    const weight = await weigh(await screen.context.newCDPSession(screen.page));
    await screen.page.goto(fleet.url);
    await screen.page.locator(".link-online").waitFor();
    await screen.page.waitForLoadState("networkidle");
    console.log(`weight ${locale}: ${Math.round(weight() / 1000)} kB`);
    expect(weight()).toBeGreaterThan(50_000);
    expect(weight()).toBeLessThan(WEIGHT_BYTES);
    await screen.close();
  }
});

test("it allows no inline script or style, and no frame of strangers", async () => {
  const answer = await fetch(fleet.url);
  const policy = answer.headers.get("content-security-policy") ?? "";
  expect(policy).toContain("default-src 'none'");
  expect(policy).toContain("frame-ancestors 'self'");
  expect(policy).not.toContain("unsafe");
  expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
  expect(answer.headers.get("cache-control")).toBe("no-cache");
  const asset = /\.?\/assets\/[^"]+\.js/.exec(await answer.text())?.[0] ?? "";
  const built = await fetch(new URL(asset, fleet.url));
  expect(built.status).toBe(200);
  expect(built.headers.get("cache-control")).toContain("immutable");
  expect(built.headers.get("content-security-policy")).toBe(policy);
  for (const path of ["/nothing-here", "/assets/nothing-here.js"]) {
    const missing = await fetch(fleet.url + path);
    expect(missing.status).toBe(404);
    expect(missing.headers.get("cache-control") ?? "").not.toContain("immutable");
  }
});

test("hostile text stays text", async () => {
  const screen = await Screen.open(browser);
  const { id } = await rest<{ id: string }>(screen.user, "POST", "/api/assistant/conversations", {
    title: "<img src=x onerror=alert(1)>",
  });
  const text =
    "<img src=x onerror=window.hacked=1> [click](javascript:window.hacked=1) ![pixel](https://evil.example/p.png)\n\n<script>window.hacked=1</script>\n\n[ok](https://example.org)";
  await rest(screen.user, "POST", `/api/assistant/conversations/${id}/messages`, {
    role: "assistant",
    content: text,
  });
  const asked: string[] = [];
  screen.page.on("request", (request) => asked.push(request.url()));
  await screen.page.goto(`${fleet.url}/#/c/${id}`);
  await screen.page.reload();
  await screen.answer.getByText("window.hacked=1").first().waitFor();
  expect(await screen.answer.locator("img, script").count()).toBe(0);
  expect(
    await screen.answer
      .getByRole("link")
      .evaluateAll((links) => links.map((link) => link.getAttribute("href"))),
  ).toEqual(["https://evil.example/p.png", "https://example.org"]);
  expect(await screen.page.evaluate(() => "hacked" in window)).toBe(false);
  expect(asked.filter((url) => !url.startsWith(fleet.url) && !url.startsWith("blob:"))).toEqual([]);
  await screen.close();
});

// A busy machine's caches lengthen a task even in CPU time once in a while; a defect is there every time.
test("20,000 tokens over 1,000 messages: no long task", { retry: 2, timeout: 180_000 }, async () => {
  const user = somebody();
  const { id } = await rest<{ id: string }>(user, "POST", "/api/assistant/conversations", { title: "long" });
  sql(
    `INSERT INTO agent_messages (conversation_id, role, content, created_at) SELECT '${id}', CASE WHEN n % 2 = 1 THEN 'user' ELSE 'assistant' END, 'Сообщение **' || n || '** о дашборде [42](/dashboards/42):' || chr(10) || chr(10) || '- раз' || chr(10) || '- два' || chr(10) || chr(10) || '| a | b |' || chr(10) || '|---|---|' || chr(10) || '| 1 | 2 |', now() FROM generate_series(1, 1000) n`,
  );
  const screen = await Screen.open(browser, { user, hash: `#/c/${id}` });
  await screen.answer.waitFor();
  for (let turns = 0; turns < 600 && (await screen.page.locator(".item").count()) < 1000; turns++) {
    await screen.page.locator(".scroll").evaluate((element) => (element.scrollTop = 0));
    await screen.page.waitForTimeout(60);
  }
  expect(await screen.page.locator(".item").count()).toBe(1000);
  await browser.startTracing(screen.page, { categories: ["toplevel"] });
  // Five times as fast as asked for: a token each two milliseconds.
  const started = Date.now();
  await screen.send("article 20000 2");
  // By its selector: asking for roles again and again would be the longest task.
  await screen.page.locator("button.send[type=submit]").waitFor({ timeout: 120_000 });
  const tasks = mainThreadTasks(await browser.stopTracing());
  const text = await screen.answer.innerText();
  const worst = Math.max(...tasks);
  console.log(
    `${text.length} characters in ${Date.now() - started} ms: ${tasks.filter((ms) => ms > 50).length} tasks over 50 ms, the longest ${Math.round(worst)} ms`,
  );
  expect(tasks.length).toBeGreaterThan(1000);
  expect(text.length).toBeGreaterThan(40_000);
  expect(
    await screen.page
      .locator(".scroll")
      .evaluate((element) => element.scrollHeight - element.scrollTop - element.clientHeight),
  ).toBeLessThan(50);
  expect(worst).toBeLessThan(LONG_TASK_MS);
  await screen.close();
});
