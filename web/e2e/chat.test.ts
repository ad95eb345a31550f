// Stories 1 to 6 as a person lives them, in a real browser against the real fleet through nginx.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { fleet, history, launch, rest, Screen, sql } from "./kit";

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

test.concurrent(
  "an answer streams, and is in the list and the history",
  using({}, async (screen) => {
    await screen.send("stream");
    await screen.button("composer.stop").waitFor();
    await screen.answer.getByText("Один два").waitFor();
    const text = await screen.settled();
    expect(text).toContain("одиннадцать двенадцать.");
    await screen.page.getByRole("navigation").getByText("2 messages").waitFor();
    const [, stored] = await history(screen.user, screen.conversation);
    expect(stored).toMatchObject({ content: text.split("\n")[0], finish: "completed" });
  }),
);

test.concurrent(
  "stop keeps what was said, here and in the history",
  using({}, async (screen) => {
    await screen.send("slow");
    await screen.answer.getByText("ещё слово ещё слово").waitFor();
    await screen.button("composer.stop").click();
    await screen.answer.getByText(screen.text("message.stopped")).waitFor();
    const shown = await screen.settled();
    const [, stored] = await history(screen.user, screen.conversation);
    expect(stored?.finish).toBe("cancelled");
    expect(shown).toContain(stored?.content.trim());
    await screen.page.reload();
    await screen.answer.getByText(screen.text("message.stopped")).waitFor();
  }),
);

test.concurrent(
  "tools are cards: spinner, check, input and result",
  using({}, async (screen) => {
    const text = await screen.ask("show dashboards with validation problems");
    expect(text).toContain("search_dashboards");
    expect(await screen.answer.locator(".tool-done").count()).toBe(2);
    expect(await screen.answer.locator("table tbody tr").count()).toBe(5);
    const tool = screen.answer.getByRole("button", { name: /get_health_summary/ });
    expect(
      await tool.evaluate(
        (element) => getComputedStyle(element.querySelector(".tool-name") as Element).fontFamily,
      ),
    ).toContain("Mono");
    await tool.click();
    await screen.answer.getByText('"healthy": 7').waitFor();
    await screen.page.reload();
    expect(await screen.settled()).toContain("get_health_summary");
  }),
);

test.concurrent(
  "a tool that fails shows a cross and why",
  using({ user: `bob-${Date.now()}` }, async (screen) => {
    await screen.send("deploy dashboard 42 to prod");
    await screen.button("card.confirm").click();
    await screen.page.locator(".tool-failed").waitFor();
    await screen.page.locator(".tool-failed button").click();
    await screen.page.locator(".tool-failed").getByText(screen.text("error.FORBIDDEN")).waitFor();
    await screen.settled();
  }),
);

test.concurrent(
  "a dangerous call asks first; confirmed, it runs once",
  using({}, async (screen) => {
    await screen.send("deploy dashboard 42 to prod");
    await screen.card.waitFor();
    expect(await screen.card.innerText()).toMatch(
      /deploy_dashboard[\s\S]*dashboard_id[\s\S]*42[\s\S]*environment_id[\s\S]*prod/,
    );
    expect(await screen.card.getByRole("timer").innerText()).toMatch(/^1[45]:\d\d$/);
    await screen.page.reload();
    await screen.button("card.confirm").click();
    await screen.page.getByText(screen.text("card.state.confirmed")).waitFor();
    await screen.answer
      .getByText(/deployment-\d+/)
      .first()
      .waitFor();
    await screen.settled();
    await screen.page.reload();
    await screen.page.getByText(screen.text("card.state.confirmed")).waitFor();
    expect(await screen.card.count()).toBe(0);
  }),
);

test.concurrent(
  "declined with a reason, nothing runs and the assistant knows why",
  using({}, async (screen) => {
    await screen.send("deploy dashboard 17 to prod");
    await screen.button("card.denyReason").click();
    await screen.page.keyboard.type("not on Friday");
    await screen.page.keyboard.press("Enter");
    await screen.page.locator(".decided-denied", { hasText: "not on Friday" }).waitFor();
    await screen.settled();
    expect(await screen.page.locator(".tool").count()).toBe(0);
    await screen.page.reload();
    await screen.page.locator(".decided-denied", { hasText: "not on Friday" }).waitFor();
  }),
);

test.concurrent(
  "a card expires on the screen, and a late answer is told so",
  using({}, async (screen) => {
    await screen.send("deploy dashboard 42 to staging");
    await screen.card.waitFor();
    const id = screen.conversation;
    sql(
      `UPDATE confirmations SET expires_at = now() + interval '15 seconds' WHERE conversation_id = '${id}'`,
    );
    await screen.page.reload();
    await screen.card.waitFor();
    await screen.page.getByText(screen.text("card.state.expired")).waitFor();
    expect(await screen.card.count()).toBe(0);
  }),
);

test.concurrent(
  "a message instead of a decision declines the card",
  using({}, async (screen) => {
    await screen.send("deploy dashboard 42 to prod");
    await screen.card.waitFor();
    expect(await screen.field.getAttribute("placeholder")).toBe(screen.text("composer.waiting"));
    await screen.ask("which environments are there?");
    await screen.page.locator(".decided-denied", { hasText: screen.text("card.superseded") }).waitFor();
  }),
);

test.concurrent(
  "a failed answer can be asked for again",
  using({}, async (screen) => {
    await screen.send("error");
    await screen.answer.getByText(screen.text("error.LLM_UNAVAILABLE")).waitFor();
    await screen.answer.getByRole("button", { name: screen.text("message.retry") }).click();
    await screen.page.locator("article.user").nth(1).waitFor();
  }),
);

test.concurrent(
  "conversations: three survive a reload, each with its own context",
  using({}, async (screen) => {
    for (const text of ["show dashboard 42", "which environments are there?", "what can you do?"]) {
      await screen.button("list.new").click();
      await screen.ask(text);
    }
    await screen.page.reload();
    const rows = screen.page.getByRole("navigation").locator(".row");
    await rows.nth(2).waitFor();
    expect(await rows.count()).toBe(3);
    await rows.filter({ hasText: "show dashboard 42" }).getByRole("button").first().click();
    await screen.page.locator("article.user", { hasText: "show dashboard 42" }).waitFor();
    await screen.ask("create a branch for it");
    expect(await screen.page.innerText("main")).toContain("feature/dashboard-42");
  }),
);

test.concurrent(
  "search finds words of titles and messages; archive, undo, archive view, rename",
  using({}, async (screen) => {
    await screen.ask("which environments are there?");
    await screen.button("list.new").click();
    await screen.ask("stream");
    const nav = screen.page.getByRole("navigation");
    const search = screen.page.getByRole("searchbox");
    await search.fill("одиннадцать");
    await nav.getByText("1 conversation found").waitFor({ state: "attached" });
    expect(await nav.locator(".row-title").allInnerTexts()).toEqual(["stream"]);
    await search.fill("nonsense");
    await nav.getByText("Nothing found for “nonsense”.").waitFor();
    await search.fill("");
    const row = nav.locator(".row", { hasText: "environments" });
    const act = async (name: string) => {
      await row.hover();
      await row.getByRole("button", { name: /Conversation actions/ }).click();
      await screen.page.getByRole("menuitem", { name, exact: true }).click();
    };
    await act("Archive");
    await row.waitFor({ state: "detached" });
    await screen.button("conversation.undo").click();
    await row.waitFor();
    await act("Archive");
    await row.waitFor({ state: "detached" });
    await screen.button("list.archive").click();
    await row.getByRole("button").first().click();
    await screen.page.getByText(screen.text("conversation.archivedNote")).waitFor();
    expect(await screen.field.isDisabled()).toBe(true);
    await act("Move out of the archive");
    await screen.button("list.back").click();
    await act("Rename");
    await screen.page.keyboard.type("Where we deploy");
    await screen.page.keyboard.press("Enter");
    await nav.locator(".row-title", { hasText: "Where we deploy" }).waitFor();
    await screen.page.reload();
    await nav.locator(".row-title", { hasText: "Where we deploy" }).waitFor();
  }),
);

test.concurrent(
  "the list and the history come in pages, and the place that is read stays",
  using({}, async (screen) => {
    const { user } = screen;
    for (let number = 0; number < 45; number++)
      await rest(user, "POST", "/api/assistant/conversations", { title: `talk ${number}` });
    const { id } = await rest<{ id: string }>(user, "POST", "/api/assistant/conversations", {
      title: "long",
    });
    sql(
      `INSERT INTO agent_messages (conversation_id, role, content, created_at) SELECT '${id}', CASE WHEN n % 2 = 1 THEN 'user' ELSE 'assistant' END, 'message number ' || n, now() FROM generate_series(1, 130) n`,
    );
    await screen.page.goto(`${screen.page.url().split("#")[0]}#/c/${id}`);
    await screen.page.reload();
    await screen.page.getByText("message number 130", { exact: true }).waitFor();
    const nav = screen.page.getByRole("navigation");
    await nav.locator(".row").nth(29).scrollIntoViewIfNeeded();
    await nav.getByText("talk 0", { exact: true }).waitFor();
    await screen.page.locator(".scroll").hover();
    for (
      let turns = 0;
      turns < 200 && !(await screen.page.getByText("message number 1", { exact: true }).isVisible());
      turns++
    )
      await screen.page.mouse.wheel(0, -1500);
    expect(await screen.page.locator(".item").count()).toBe(130);
  }),
);

test.concurrent(
  "files: checked before, sent with progress, shown, and refused with the limits",
  using({}, async (screen) => {
    const input = screen.page.locator('input[type="file"]');
    await input.setInputFiles([
      { name: "setup.exe", mimeType: "application/octet-stream", buffer: Buffer.from("MZ") },
      { name: "big.pdf", mimeType: "application/pdf", buffer: Buffer.alloc(10 * 1024 * 1024 + 1) },
    ]);
    const problems = screen.page.locator(".problems");
    await problems
      .getByText("setup.exe: this format can’t be read. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG or JPEG.")
      .waitFor();
    await problems.getByText("big.pdf is larger than 10 MB.").waitFor();
    const png = Buffer.from(
      "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
      "base64",
    );
    await input.setInputFiles([{ name: "report.pdf", mimeType: "application/pdf", buffer: png }]);
    await problems.getByText("report.pdf: The file is called PDF, but its content is PNG.").waitFor();
    await input.setInputFiles([
      { name: "orders.csv", mimeType: "text/csv", buffer: Buffer.from("id,total\n1,2\n") },
      { name: "chart.png", mimeType: "image/png", buffer: png },
    ]);
    await screen.page.locator(".tile-done").nth(1).waitFor();
    await screen.send("what is in these files?");
    const sent = screen.page.locator("article.user").last();
    await sent.getByText("orders.csv").waitFor();
    await sent.getByRole("img", { name: "Picture chart.png" }).waitFor();
    await screen.settled();
    await screen.page.reload();
    await screen.page.locator("article.user").last().getByText("orders.csv").waitFor();
  }),
);

test.concurrent(
  "the largest file is the one that the gateway's configuration names",
  using({ path: "/robots.txt" }, async (screen) => {
    await screen.page.route("**/gradio/config", async (route) => {
      const answer = await route.fetch();
      const config = (await answer.json()) as object;
      await route.fulfill({ response: answer, json: { ...config, max_file_size: 2 * 1024 * 1024 } });
    });
    await screen.page.goto(fleet.url);
    await screen.page.locator(".link-online").waitFor();
    await screen.page
      .locator('input[type="file"]')
      .setInputFiles([
        { name: "big.pdf", mimeType: "application/pdf", buffer: Buffer.alloc(2 * 1024 * 1024 + 1) },
      ]);
    await screen.page.locator(".problems").getByText("big.pdf is larger than 2 MB.").waitFor();
  }),
);

test.concurrent(
  "files come by drop and by paste, too",
  using({}, async (screen) => {
    await screen.field.waitFor();
    await screen.page.evaluate(() => {
      const data = new DataTransfer();
      data.items.add(new File(["{}"], "dropped.json", { type: "application/json" }));
      const panel = document.querySelector(".panel") as Element;
      for (const type of ["dragenter", "dragover", "drop"])
        panel.dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true }));
      const paste = new DataTransfer();
      paste.items.add(new File(["a,b"], "pasted.csv", { type: "text/csv" }));
      document
        .querySelector("textarea")
        ?.dispatchEvent(
          new ClipboardEvent("paste", { clipboardData: paste, bubbles: true, cancelable: true }),
        );
    });
    await screen.page.locator(".tile-done", { hasText: "dropped.json" }).waitFor();
    await screen.page.locator(".tile-done", { hasText: "pasted.csv" }).waitFor();
  }),
);

test.concurrent(
  "Russian by the browser, English by choice, remembered",
  using({ locale: "ru-RU" }, async (screen) => {
    await screen.page.getByText("Что посмотрим?").waitFor();
    expect(await screen.page.getAttribute("html", "lang")).toBe("ru");
    await screen.page.locator(".person-button").click();
    await screen.page.getByRole("radio", { name: "English" }).check();
    await screen.page.getByText("What shall we look at?").waitFor();
    await screen.page.getByRole("radio", { name: "Dark" }).check();
    await screen.page.reload();
    await screen.page.getByText("What shall we look at?").waitFor();
    expect(await screen.page.evaluate(() => getComputedStyle(document.body).backgroundColor)).toBe(
      "rgb(22, 23, 24)",
    );
  }),
);

test.concurrent(
  "code and answers are copied",
  using({}, async (screen) => {
    await screen.ask("article 100 1");
    await screen.answer
      .getByRole("button", { name: screen.text("message.copyCode") })
      .first()
      .click();
    expect(await screen.page.evaluate(() => navigator.clipboard.readText())).toMatch(
      /^select region, count[\s\S]*order by days desc;$/,
    );
    await screen.answer.getByRole("button", { name: screen.text("message.copy"), exact: true }).click();
    expect(await screen.page.evaluate(() => navigator.clipboard.readText())).toMatch(/^## /);
  }),
);
