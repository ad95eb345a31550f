// What every test of the page needs: a browser, a person of its own, and words for what is on the screen.
import { createHmac, randomUUID } from "node:crypto";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import {
  chromium,
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  type Locator,
  type Page,
} from "playwright-core";
import { inject } from "vitest";
import en from "../src/lib/i18n/en.json";
import ru from "../src/lib/i18n/ru.json";

export const fleet = inject("fleet");

const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
const AXE = readFileSync(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const PSQL = new URL("../../.tools/postgres/bin/psql", import.meta.url).pathname;

export const launch = (): Promise<Browser> =>
  chromium.launch({ executablePath: process.env["CHROMIUM_BIN"] ?? "/usr/bin/chromium", args: FLAGS });

const base64url = (text: string) => Buffer.from(text).toString("base64url");

export function token(user: string, seconds = 3600): string {
  const exp = Math.floor(Date.now() / 1000) + seconds;
  const head = `${base64url(JSON.stringify({ alg: "HS256", typ: "JWT" }))}.${base64url(JSON.stringify({ sub: user, exp }))}`;
  return `${head}.${createHmac("sha256", fleet.secret).update(head).digest("base64url")}`;
}

/** Somebody nobody else is. The reference backend lets `alice…` do everything. */
export const somebody = (): string => `alice-${randomUUID().slice(0, 8)}`;

export interface Options extends BrowserContextOptions {
  user?: string;
  seconds?: number;
  hash?: string;
  path?: string;
}

export class Screen {
  readonly problems: string[] = [];

  private constructor(
    readonly page: Page,
    readonly context: BrowserContext,
    readonly user: string,
    private readonly words: Record<string, string | Record<string, string>>,
  ) {
    page.on("pageerror", (error) => this.problems.push(error.message));
    page.on("console", (message) => {
      // The browser itself reports refused and broken requests; only the page's own complaints count.
      if (
        message.type() === "error" &&
        !/Failed to load resource|net::ERR|TypeError: (network|Failed to fetch)/.test(message.text())
      )
        this.problems.push(message.text());
    });
  }

  static async open(browser: Browser, options: Options = {}): Promise<Screen> {
    const { user = somebody(), seconds, hash = "", path = "/", locale = "en-US", ...rest } = options;
    const context = await browser.newContext({ locale, viewport: { width: 1280, height: 800 }, ...rest });
    await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: fleet.url });
    const jwt = token(user, seconds);
    await context.addInitScript(
      (value) => localStorage.getItem("token") ?? localStorage.setItem("token", value),
      jwt,
    );
    return Screen.in(context, user, locale, path + hash);
  }

  static async in(context: BrowserContext, user: string, locale: string, path: string): Promise<Screen> {
    const page = await context.newPage();
    const screen = new Screen(page, context, user, locale.startsWith("ru") ? ru : en);
    await page.goto(fleet.url + path);
    return screen;
  }

  /** Another tab of the same person. */
  tab(hash = ""): Promise<Screen> {
    return Screen.in(this.context, this.user, this.words === ru ? "ru" : "en", `/${hash}`);
  }

  text(key: keyof typeof en): string {
    const text = this.words[key];
    return typeof text === "string" ? text : (text?.["other"] ?? "");
  }

  button(key: keyof typeof en): Locator {
    return this.page.getByRole("button", { name: this.text(key), exact: true });
  }

  get field(): Locator {
    return this.page.getByRole("textbox", { name: this.text("composer.label"), exact: true });
  }

  get answers(): Locator {
    return this.page.locator("article.answer");
  }

  get answer(): Locator {
    return this.answers.last();
  }

  get card(): Locator {
    return this.page.locator("section.card");
  }

  get conversation(): string {
    return /#\/c\/(.+)$/.exec(this.page.url())?.[1] ?? "";
  }

  async send(text: string): Promise<void> {
    await this.field.fill(text);
    await this.field.press("Enter");
    await this.page.locator("article.user", { hasText: text }).last().waitFor();
  }

  /** The newest answer, once it is over. */
  async settled(): Promise<string> {
    await this.button("composer.send").waitFor();
    return (await this.answer.innerText()).trim();
  }

  async ask(text: string): Promise<string> {
    await this.send(text);
    return this.settled();
  }

  /** Violations that axe finds, as readable lines. */
  async axe(): Promise<string[]> {
    await this.page.evaluate(AXE);
    return this.page.evaluate(async () => {
      interface Result {
        violations: { id: string; nodes: { target: string[]; failureSummary: string }[] }[];
      }
      const { axe } = window as unknown as { axe: { run(root: Document): Promise<Result> } };
      const { violations } = await axe.run(document);
      return violations.flatMap(({ id, nodes }) =>
        nodes.map((node) => `${id}: ${node.target.join(" ")}: ${node.failureSummary}`),
      );
    });
  }

  async close(): Promise<void> {
    await this.context.close();
  }
}

export const order = async (text: string): Promise<void> => {
  await fetch(fleet.orders, { method: "POST", body: text });
};

export const sql = (statement: string): string =>
  execFileSync(PSQL, [fleet.database, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", statement], {
    encoding: "utf8",
  }).trim();

export async function rest<T>(user: string, method: string, path: string, body?: object): Promise<T> {
  const answer = await fetch(fleet.url + path, {
    method,
    headers: { Authorization: `Bearer ${token(user)}`, "Content-Type": "application/json" },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  return (await answer.json()) as T;
}

export interface Stored {
  role: string;
  content: string;
  finish: string | null;
}

export const history = async (user: string, conversation: string): Promise<Stored[]> =>
  (
    await rest<{ items: Stored[] }>(
      user,
      "GET",
      `/api/assistant/history?conversation_id=${conversation}&limit=100`,
    )
  ).items;
