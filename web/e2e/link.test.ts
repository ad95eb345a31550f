// What a person sees when something breaks: the network, a worker, the token; and with a second tab open.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { history, launch, order, Screen, somebody, sql, token } from "./kit";

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

const using =
  (options: Parameters<typeof Screen.open>[1], body: (screen: Screen) => Promise<void>) => async () => {
    const screen = await Screen.open(browser, options);
    try {
      await body(screen);
      expect(screen.problems).toEqual([]);
    } finally {
      await screen.close();
    }
  };

/** 35 tokens, ten a second: long enough to break something in the middle. */
const LONG = "slow";
const WORDS = 70;
const words = (text: string) => text.match(/ещё|слово/g)?.length ?? 0;

const JOIN = /\/gradio_api\/queue\/join/;

test.concurrent(
  "an answer lost after the message was accepted: it is sent again and taken once",
  using({}, async (screen) => {
    let posts = 0;
    await screen.page.locator(".link-online").waitFor();
    await screen.page.route(JOIN, async (route) => {
      posts += 1;
      if (posts > 1) return route.continue();
      await route.fetch();
      await route.abort("connectionreset");
    });
    await screen.ask("which environments are there?");
    const stored = await history(screen.user, screen.conversation);
    expect(stored.map(({ role }) => role)).toEqual(["user", "assistant"]);
    expect(await screen.page.locator("article.user").count()).toBe(1);
    expect(await screen.answers.count()).toBe(1);
    expect(
      sql(
        `SELECT count(DISTINCT turn_id) FROM agent_messages WHERE conversation_id = '${screen.conversation}'`,
      ),
    ).toBe("1");
  }),
);

test.concurrent(
  "a message that was not accepted is sent again by itself",
  using({}, async (screen) => {
    let posts = 0;
    await screen.page.locator(".link-online").waitFor();
    await screen.page.route(JOIN, (route) =>
      ++posts === 1 ? route.abort("connectionreset") : route.continue(),
    );
    await screen.ask("which environments are there?");
    expect(posts).toBeGreaterThan(1);
    expect((await history(screen.user, screen.conversation)).length).toBe(2);
    expect(await screen.page.locator("article.user").count()).toBe(1);
  }),
);

test.concurrent(
  "a reload in the middle of an answer goes on where it was",
  using({}, async (screen) => {
    await screen.send(LONG);
    await screen.answer.getByText("слово ещё слово ещё").waitFor();
    await screen.page.reload();
    await screen.answer.getByText("слово ещё слово ещё").waitFor();
    expect(await screen.button("composer.stop").isVisible()).toBe(true);
    expect(words(await screen.settled())).toBe(WORDS);
    expect(await screen.page.locator("article.user").count()).toBe(1);
    expect(await screen.answers.count()).toBe(1);
  }),
);

test.concurrent(
  "after a reload the answer can still be stopped",
  using({}, async (screen) => {
    await screen.send(LONG);
    await screen.answer.getByText("слово ещё слово ещё").waitFor();
    await screen.page.reload();
    await screen.answer.getByText("слово ещё слово ещё").waitFor();
    await screen.button("composer.stop").click();
    await screen.answer.getByText(screen.text("message.stopped")).waitFor();
    const [, stored] = await history(screen.user, screen.conversation);
    expect(stored?.finish).toBe("cancelled");
  }),
);

test.concurrent(
  "offline in the middle of an answer and back: nothing lost, nothing twice",
  using({}, async (screen) => {
    await screen.send(LONG);
    await screen.answer.getByText("слово ещё слово ещё").waitFor();
    await screen.context.setOffline(true);
    await screen.page.locator(".link-retrying").waitFor();
    await screen.context.setOffline(false);
    await screen.page.locator(".link-online").waitFor();
    expect(words(await screen.settled())).toBe(WORDS);
    expect(await screen.answers.count()).toBe(1);
  }),
);

test.concurrent(
  "the dot tells of a network that went while nothing was asked, tries five times and comes back",
  using({}, async (screen) => {
    await screen.page.locator(".link-online").waitFor();
    await screen.context.setOffline(true);
    // The fifth fails at once and is over.
    for (let attempt = 1; attempt <= 4; attempt++)
      await screen.page.getByText(`Reconnecting, attempt ${attempt} of 5`).waitFor();
    await screen.page.locator(".link-offline").waitFor();
    await screen.context.setOffline(false);
    await screen.page.locator(".link-online").waitFor();
    expect(await screen.ask("stream")).toContain("двенадцать.");
  }),
);

test.concurrent(
  "a second tab is told, follows live, and takes over when the answer is there",
  using({}, async (screen) => {
    await screen.send(LONG);
    await screen.answer.getByText("слово ещё слово ещё").waitFor();
    const second = await screen.tab(`#/c/${screen.conversation}`);
    await second.page.getByText(second.text("busy.elsewhere")).waitFor();
    await second.answer.getByText("слово ещё слово ещё").waitFor();
    expect(words(await second.settled())).toBe(WORDS);
    expect(await second.page.getByText(second.text("busy.elsewhere")).count()).toBe(0);
    expect(words(await screen.settled())).toBe(WORDS);
    expect(await second.ask("stream")).toContain("двенадцать.");
    await screen.answer.getByText("двенадцать.").waitFor();
    expect(await screen.page.locator("article.user").count()).toBe(2);
    expect(second.problems).toEqual([]);
  }),
);

test.concurrent(
  "a card that is decided in one tab is decided in the other",
  using({}, async (screen) => {
    await screen.send("deploy dashboard 42 to prod");
    await screen.card.waitFor();
    const second = await screen.tab(`#/c/${screen.conversation}`);
    await second.card.waitFor();
    await second.button("card.deny").click();
    await second.page.locator(".decided-denied").waitFor();
    await second.settled();
    await screen.page.locator(".decided-denied").waitFor();
    expect(await screen.card.count()).toBe(0);
    expect(second.problems).toEqual([]);
  }),
);

test.concurrent(
  "an expired token leads to the login and back, with the draft",
  using({ user: somebody() }, async (screen) => {
    const asked: string[] = [];
    await screen.page.route("**/login?*", (route) => {
      asked.push(new URL(route.request().url()).search);
      return route.fulfill({ contentType: "text/html", body: "<title>login</title>" });
    });
    await screen.ask("stream");
    const address = screen.page.url();
    await screen.field.fill("what about my draft?");
    await screen.page.evaluate((expired) => localStorage.setItem("token", expired), token(screen.user, -600));
    // The page asks what is new by itself, too, and may be on its way already.
    await screen.field.press("Enter").catch(() => undefined);
    await screen.page.waitForURL("**/login?*");
    expect(decodeURIComponent(asked[0] ?? "")).toContain(new URL(address).hash);
    await screen.page.evaluate((renewed) => localStorage.setItem("token", renewed), token(screen.user));
    await screen.page.goto(address);
    expect(await screen.field.inputValue()).toBe("what about my draft?");
    await screen.field.press("Enter");
    await screen.page.locator("article.user").nth(1).waitFor();
    await screen.answers.nth(1).waitFor();
    await screen.settled();
    expect((await history(screen.user, screen.conversation)).length).toBe(4);
  }),
);

test.concurrent(
  "Enter before the conversation is there sends when it is, but declines no card unseen",
  using({ user: somebody() }, async (screen) => {
    const { page } = screen;
    await screen.ask("stream");
    let gate = Promise.resolve();
    await page.route("**/history?*", async (route) => {
      await gate;
      await route.continue();
    });
    const late = async () => {
      let go = () => {};
      gate = new Promise<void>((resolve) => (go = resolve));
      await page.reload();
      await screen.field.press("Enter");
      expect(await page.locator("article.user").count()).toBe(0);
      go();
    };
    await screen.field.fill("stream once more");
    await late();
    await page.locator("article.user").nth(1).waitFor();
    await screen.settled();
    await screen.send("deploy dashboard 42 to prod");
    await screen.card.waitFor();
    await screen.settled();
    await screen.field.fill("a draft");
    await late();
    await screen.card.waitFor();
    expect(await screen.field.inputValue()).toBe("a draft");
    expect(await page.locator(".decided-denied").count()).toBe(0);
    expect(screen.problems).toEqual([]);
  }),
);

// Last and alone: it takes workers from the others.
test("a worker that is killed in the middle: the answer goes on, right and once", async () => {
  const screen = await Screen.open(browser);
  await screen.send(LONG);
  await screen.answer.getByText("слово ещё слово ещё").waitFor();
  const worker = sql(`SELECT owner FROM leases WHERE conversation_id = '${screen.conversation}'`);
  await order(`kill ${worker.split("/")[0] ?? worker}`);
  const text = await screen.settled();
  expect(words(text)).toBe(WORDS);
  const stored = await history(screen.user, screen.conversation);
  expect(stored.length).toBe(2);
  expect(words(stored[1]?.content ?? "")).toBe(WORDS);
  expect(await screen.answers.count()).toBe(1);
  expect(screen.problems).toEqual([]);
  await screen.close();
});
