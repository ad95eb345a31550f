// The main states as pictures, for people who review how the page looks: target/screenshots.
import { mkdirSync, rmSync } from "node:fs";
import type { Browser, BrowserContextOptions } from "playwright-core";
import { afterAll, beforeAll, test } from "vitest";
import { fleet, launch, rest, Screen, somebody, sql, token } from "./kit";

const FOLDER = new URL("../../target/screenshots/", import.meta.url).pathname;
const PHONE = { width: 390, height: 844 };

interface Look {
  locale: "en-US" | "ru-RU";
  colorScheme: "light" | "dark";
  isPhone: boolean;
}

const LOOKS: Look[] = [
  { locale: "en-US", colorScheme: "light", isPhone: false },
  { locale: "ru-RU", colorScheme: "dark", isPhone: false },
  { locale: "ru-RU", colorScheme: "light", isPhone: true },
  { locale: "en-US", colorScheme: "dark", isPhone: true },
];

const WORDS = {
  "en-US": {
    tools: "show dashboards with validation problems",
    deploy: "deploy dashboard 42 to prod",
    reason: "not on Friday evening",
    search: "dashboard",
    talks: [
      "Why delivery times grew in week 46",
      "Branch for the sales dashboard",
      "Who owns Customer churn?",
    ],
    older: ["Migrate finance to prod", "Support tickets: data source moved", "Maintenance on Sunday night"],
    about: ["Administrator: deploys and migrates", "Reader: only looks"],
  },
  "ru-RU": {
    tools: "покажи дашборды с проблемами валидации",
    deploy: "задеплой дашборд 42 на prod",
    reason: "не в пятницу вечером",
    search: "дашборд",
    talks: ["Почему выросли сроки доставки", "Ветка для дашборда продаж", "Кто владелец оттока клиентов?"],
    older: [
      "Перенос финансов на prod",
      "Обращения: источник данных переехал",
      "Обслуживание в воскресенье ночью",
    ],
    about: ["Администратор: деплоит и переносит", "Читатель: только смотрит"],
  },
} as const;

let browser: Browser;
beforeAll(async () => {
  rmSync(FOLDER, { recursive: true, force: true });
  mkdirSync(FOLDER, { recursive: true });
  browser = await launch();
});
afterAll(() => browser.close());

const png = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAFElEQVR4nGNgYGD4z4AAjP///2dgYAAAGewEATvvJbwAAAAASUVORK5CYII=",
  "base64",
);

/** Conversations of yesterday and of last week, so that the list has something to show. */
async function seed(user: string, words: (typeof WORDS)["en-US" | "ru-RU"]): Promise<void> {
  const titles = [...words.older, ...words.talks];
  for (const [index, title] of titles.entries()) {
    const { id } = await rest<{ id: string }>(user, "POST", "/api/assistant/conversations", { title });
    await rest(user, "POST", `/api/assistant/conversations/${id}/messages`, { role: "user", content: title });
    const days = (titles.length - index) * 2 - 1;
    sql(
      `UPDATE agent_conversations SET updated_at = now() - interval '${days} days', last_message_at = now() - interval '${days} days' WHERE id = '${id}'`,
    );
  }
}

for (const look of LOOKS) {
  const { locale, colorScheme, isPhone } = look;
  const label = `${locale.slice(0, 2)}-${colorScheme}-${isPhone ? "phone" : "wide"}`;
  const options: BrowserContextOptions = {
    locale,
    colorScheme,
    deviceScaleFactor: isPhone ? 2 : 1,
    viewport: isPhone ? PHONE : { width: 1280, height: 820 },
    ...(isPhone ? { hasTouch: true, isMobile: true } : {}),
    reducedMotion: "reduce",
  };
  const words = WORDS[locale];

  test.concurrent(`pictures: ${label}`, async () => {
    const user = somebody();
    await seed(user, words);
    const screen = await Screen.open(browser, { user, ...options });
    const { page } = screen;
    let number = 0;
    const shoot = (name: string) =>
      page.screenshot({ path: `${FOLDER}${label}-${String(++number).padStart(2, "0")}-${name}.png` });
    const list = async () => isPhone && (await screen.button("list.open").click());

    await page.locator(".link-online").waitFor();
    await shoot("welcome");
    await screen.send("slow");
    await screen.answer.locator("p", { hasText: "ещё слово ещё слово" }).waitFor();
    await shoot("streaming");
    await screen.button("composer.stop").click();
    await screen.settled();
    await shoot("stopped");

    await list();
    await screen.button("list.new").click();
    await screen.ask(words.tools);
    await shoot("tools");
    await page.locator(".scroll").evaluate((element) => (element.scrollTop = 0));
    await screen.answer.getByRole("button", { name: /get_health_summary/ }).click();
    await shoot("tool-open");
    await screen.send(words.deploy);
    await screen.card.waitFor();
    await shoot("card");
    await screen.button("card.denyReason").click();
    await page.keyboard.type(words.reason);
    await shoot("card-reason");
    await page.keyboard.press("Enter");
    await page.locator(".decided-denied").waitFor();
    await screen.settled();
    await screen.send(words.deploy);
    await screen.button("card.confirm").click();
    await page.locator(".decided-confirmed").waitFor();
    await screen.settled();
    await shoot("decided");

    await list();
    await screen.button("list.new").click();
    await screen.ask("article 260 1");
    await shoot("article-end");
    await page.locator(".scroll").evaluate((element) => (element.scrollTop = 0));
    await shoot("article");

    await screen.send("error");
    await screen.answer.getByText(screen.text("error.LLM_UNAVAILABLE")).waitFor();
    await page.locator('input[type="file"]').setInputFiles([
      { name: "deliveries-week-46.csv", mimeType: "text/csv", buffer: Buffer.from("id,total\n1,2\n") },
      { name: "chart.png", mimeType: "image/png", buffer: png },
      { name: "setup.exe", mimeType: "application/octet-stream", buffer: Buffer.from("MZ") },
    ]);
    await page.locator(".tile-done").nth(1).waitFor();
    await shoot("error-and-files");

    await list();
    await page.getByRole("searchbox").fill(words.search);
    await page
      .getByRole("status")
      .filter({ hasText: /found|Найд/ })
      .waitFor({ state: "attached" });
    await shoot("search");
    await page.getByRole("searchbox").fill("");
    await page.locator(".person-button").click();
    await shoot("settings");
    await page.keyboard.press("Escape");
    await page.context().setOffline(true);
    await page.locator(".link-retrying, .link-offline").first().waitFor();
    if (isPhone) await page.keyboard.press("Escape");
    await shoot("offline");
    await screen.close();
  });

  test.concurrent(`pictures of what is around: ${label}`, async () => {
    const context = await browser.newContext(options);
    const users = ["alice", "bob"].map((name, index) => {
      const about = words.about[index];
      return { name, token: token(somebody()), about: { en: about, ru: about } };
    });
    await context.route("**/chat-config.json", (route) =>
      route.fulfill({ json: { token_key: "demo", demo_users: users } }),
    );
    const page = await context.newPage();
    await page.goto(fleet.url);
    await page.locator(".login-box").waitFor();
    await page.screenshot({ path: `${FOLDER}${label}-20-login.png` });
    await page.locator(".login-box button").first().click();
    await page.goto(`${fleet.url}/host.html`);
    await page.locator("#rows tr").nth(5).click();
    await page.locator("agent-chat .launcher").click();
    await page.locator("agent-chat textarea").waitFor();
    await page.screenshot({ path: `${FOLDER}${label}-21-drawer.png` });
    await page.locator("agent-chat textarea").fill(words.deploy);
    await page.keyboard.press("Enter");
    await page.locator("agent-chat section.card").waitFor();
    await page.screenshot({ path: `${FOLDER}${label}-22-drawer-card.png` });
    await context.close();
  });
}
