// For everybody: every state as axe sees it, in both languages and themes; the keyboard alone; the chat in another page.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { fleet, history, launch, Screen, somebody, token } from "./kit";

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

const LOOKS = [
  { locale: "en-US", colorScheme: "light", viewport: { width: 1280, height: 800 } },
  { locale: "ru-RU", colorScheme: "dark", viewport: { width: 390, height: 844 } },
] as const;

for (const look of LOOKS) {
  test.concurrent(
    `axe finds nothing: ${look.locale}, ${look.colorScheme}, ${look.viewport.width} wide`,
    async () => {
      const screen = await Screen.open(browser, { ...look, reducedMotion: "reduce" });
      const { page } = screen;
      const list = async () => look.viewport.width < 600 && (await screen.button("list.open").click());
      const found: string[] = [];
      const check = async (state: string) =>
        found.push(...(await screen.axe()).map((violation) => `${state}: ${violation}`));

      await page.locator(".link-online").waitFor();
      await check("welcome");
      await screen.send("slow");
      await screen.answer.getByText("слово").first().waitFor();
      await check("streaming");
      await screen.button("composer.stop").click();
      await screen.answer.getByText(screen.text("message.stopped")).waitFor();
      await screen.settled();
      await check("stopped");
      await screen.ask("show dashboards with validation problems");
      await screen.answer.getByRole("button", { name: /get_health_summary/ }).click();
      await check("tools and a table");
      await screen.send("deploy dashboard 42 to prod");
      await screen.card.waitFor();
      await check("card");
      await screen.button("card.denyReason").click();
      await check("card with a reason");
      await page.keyboard.press("Enter");
      await page.locator(".decided-denied").waitFor();
      await screen.settled();
      await check("decided card");
      await screen.ask("article 260 1");
      await check("Markdown");
      await screen.send("error");
      await screen.answer.locator(".failure").waitFor();
      await page.locator('input[type="file"]').setInputFiles([
        { name: "a.csv", mimeType: "text/csv", buffer: Buffer.from("id\n1\n") },
        { name: "a.exe", mimeType: "application/octet-stream", buffer: Buffer.from("MZ") },
      ]);
      await page.locator(".tile-done").waitFor();
      await check("error card, files and their problems");
      await list();
      await page.locator(".row").first().waitFor();
      await check("list");
      await page.locator(".person-button").click();
      await check("settings");
      await page.keyboard.press("Escape");
      await screen.button("list.archive").click();
      await check("archive");
      await screen.context.setOffline(true);
      await page.locator(".link-retrying").waitFor();
      await check("no network");
      await screen.context.setOffline(false);
      await page.evaluate(() => localStorage.removeItem("token"));
      expect(found).toEqual([]);
      await screen.close();
    },
    120_000,
  );
}

test.concurrent("the keyboard alone asks, decides, stops, searches, renames and opens", async () => {
  const screen = await Screen.open(browser);
  const { page } = screen;
  const keys = page.keyboard;
  /** Tab until the element with this accessible name has the focus. */
  const reach = async (name: string | RegExp, back = false) => {
    const fits = (label: string) => (typeof name === "string" ? label === name : name.test(label));
    for (let presses = 0; presses < 60; presses++) {
      const label = await page.evaluate(() => {
        const element = document.activeElement;
        return element?.getAttribute("aria-label") ?? element?.textContent?.trim() ?? "";
      });
      if (fits(label)) return;
      await keys.press(back ? "Shift+Tab" : "Tab");
    }
    throw new Error(`the keyboard doesn't reach ${String(name)}`);
  };
  await page.locator(".link-online").waitFor();
  await reach(screen.text("app.skip"));
  await keys.press("Enter");
  await keys.type("deploy dashboard 42 to prod");
  await keys.press("Enter");
  await screen.card.waitFor();
  await reach(screen.text("card.confirm"), true);
  await keys.press("Enter");
  await page.locator(".decided-confirmed").waitFor();
  await screen.settled();
  // The field has the focus again: the next message needs no search for it.
  await keys.type("slow");
  await keys.press("Enter");
  await screen.answer.getByText("слово").first().waitFor();
  await reach(screen.text("composer.stop"));
  await keys.press("Enter");
  await screen.answer.getByText(screen.text("message.stopped")).waitFor();
  await reach(/^Conversation actions/, true);
  await keys.press("Enter");
  await page.getByRole("menuitem").first().waitFor();
  await keys.press("Enter");
  await keys.press("Control+a");
  await keys.type("By keyboard");
  await keys.press("Enter");
  await page.locator(".row-title", { hasText: "By keyboard" }).waitFor();
  await reach(screen.text("list.searchLabel"), true);
  await keys.type("keyboard");
  await page.getByText("1 conversation found").waitFor({ state: "attached" });
  expect((await history(screen.user, screen.conversation)).map(({ role }) => role)).toContain("user");
  expect(screen.problems).toEqual([]);
  await screen.close();
});

test.concurrent("answers and cards are announced, tokens are not", async () => {
  const screen = await Screen.open(browser);
  const { page } = screen;
  await page.locator(".link-online").waitFor();
  await page.evaluate(() => {
    const said: string[] = [];
    (window as unknown as { said: string[] }).said = said;
    for (const region of document.querySelectorAll(".panel > .hidden"))
      new MutationObserver(() => said.push(region.textContent ?? "")).observe(region, {
        childList: true,
        characterData: true,
        subtree: true,
      });
  });
  await screen.ask("stream");
  await screen.send("deploy dashboard 42 to prod");
  await screen.card.waitFor();
  const said = await page.evaluate(() => (window as unknown as { said: string[] }).said);
  expect(said.filter((text) => text.includes("Один два"))).toHaveLength(1);
  expect(said.filter((text) => text.includes("двенадцать."))).toHaveLength(1);
  expect(said.some((text) => text.includes("dashboard 42"))).toBe(true);
  expect(said.length).toBeLessThan(8);
  expect(await screen.answers.first().locator("[aria-live]").count()).toBe(0);
  await screen.close();
});

test.concurrent(
  "in another page: the host's object goes with the message, the agent's comes back",
  async () => {
    const screen = await Screen.open(browser, { path: "/host.html", user: somebody() });
    const { page } = screen;
    await page.locator("#rows tr", { hasText: "Sales overview" }).click();
    await page.locator("agent-chat .launcher").click();
    await page.locator("agent-chat .composer .focus-chip", { hasText: "Sales overview" }).waitFor();
    await screen.field.fill("deploy it to prod");
    await screen.field.press("Enter");
    await page.locator("agent-chat section.card").waitFor();
    expect(await page.locator("agent-chat section.card").innerText()).toMatch(/dashboard_id\s+42/);
    // Seen in the address of no one, in the list and the head without the mark.
    expect(await page.locator("agent-chat .head-title").innerText()).toBe("deploy it to prod");
    await page.locator("#rows tr.is-touched", { hasText: "Sales overview" }).waitFor();
    await screen.button("card.deny").click();
    await page.locator("agent-chat .decided-denied").waitFor();
    expect(await screen.axe()).toEqual([]);
    await page.keyboard.press("Escape");
    await page.locator("agent-chat .launcher").waitFor();
    expect(await screen.axe()).toEqual([]);
    expect(screen.problems).toEqual([]);
    await screen.close();
  },
);

test.concurrent("as an element inside a page: it starts, survives being moved, and leaves", async () => {
  const screen = await Screen.open(browser, { path: "/host.html", user: somebody() });
  const { page } = screen;
  await page.locator("agent-chat .launcher").waitFor();
  await page.evaluate(() => {
    document.querySelector("agent-chat")?.remove();
    const chat = document.createElement("agent-chat") as HTMLElement & { getToken: () => string | null };
    chat.getToken = () => localStorage.getItem("token");
    document.querySelector("main")?.append(chat);
  });
  await screen.ask("stream");
  await page.evaluate(() => {
    const chat = document.querySelector("agent-chat");
    if (chat) document.querySelector("main")?.prepend(chat);
  });
  await screen.answer.getByText("двенадцать.").waitFor();
  await screen.ask("stream");
  expect(await screen.answers.count()).toBe(2);
  await page.evaluate(() => document.querySelector("agent-chat")?.remove());
  expect(await page.locator("agent-chat").count()).toBe(0);
  expect(screen.problems).toEqual([]);
  await screen.close();
});

test.concurrent("two people, two sets of rights: nobody sees the other's conversation", async () => {
  const alice = await Screen.open(browser);
  await alice.ask("stream");
  const bob = await Screen.open(browser, { user: `bob-${Date.now()}`, hash: `#/c/${alice.conversation}` });
  await bob.page.locator(".empty").waitFor();
  expect(await bob.page.locator("article").count()).toBe(0);
  const answer = await fetch(`${fleet.url}/api/assistant/history?conversation_id=${alice.conversation}`, {
    headers: { Authorization: `Bearer ${token(bob.user)}` },
  });
  expect(answer.status).toBe(404);
  await alice.close();
  await bob.close();
});
