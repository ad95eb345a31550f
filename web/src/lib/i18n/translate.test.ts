import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import en from "./en.json";
import ru from "./ru.json";
import {
  clockText,
  durationText,
  errorText,
  groupOf,
  isAboutFile,
  noteText,
  preferred,
  sizeText,
  translate,
  type Key,
} from "./translate";

type Entries = Record<string, string | Record<string, string>>;
const both: Record<string, Entries> = { en, ru };
const forms = (entry: string | Record<string, string>) =>
  typeof entry === "string" ? [entry] : Object.values(entry);
const names = (entry: string | Record<string, string>) =>
  [...new Set(forms(entry).flatMap((text) => text.match(/\{\w+\}/g) ?? []))]
    .filter((name) => name !== "{count}")
    .sort();

test("both languages have the same keys, values and kinds of text", () => {
  expect(Object.keys(ru)).toEqual(Object.keys(en));
  for (const key of Object.keys(en)) {
    const [one, other] = [both["en"]?.[key] ?? "", both["ru"]?.[key] ?? ""];
    expect(names(other), key).toEqual(names(one));
    expect(typeof other, key).toBe(typeof one);
  }
});

test("every text is in its language, and plurals have every form of it", () => {
  for (const [key, entry] of Object.entries(en as Entries))
    for (const text of forms(entry)) expect(text, key).not.toMatch(/[а-яё]/i);
  for (const [key, entry] of Object.entries(ru as Entries)) {
    for (const text of forms(entry))
      if (key !== "composer.hint") expect(text, key).toMatch(/[а-яё]|^\{\w+\}: \{\w+\}$/i);
    if (typeof entry !== "string") expect(Object.keys(entry), key).toEqual(["one", "few", "many", "other"]);
  }
  for (const [key, entry] of Object.entries(en as Entries))
    if (typeof entry !== "string") expect(Object.keys(entry), key).toEqual(["one", "other"]);
});

test("every error code of the contract has a text in both", () => {
  const file = new URL("../../../../shared/contract/fixtures/error_codes.json", import.meta.url);
  const codes: { code: string }[] = JSON.parse(readFileSync(file, "utf8"));
  for (const { code } of codes) expect(Object.keys(en)).toContain(`error.${code}`);
  const known = Object.keys(en).filter((key) => key.startsWith("error."));
  expect(known.length).toBe(codes.length);
});

test("every warning about a file has the contract's text in both", () => {
  const file = new URL("../../../../shared/contract/fixtures/file_warnings.json", import.meta.url);
  const warnings: { code: string; en: string; ru: string }[] = JSON.parse(readFileSync(file, "utf8"));
  for (const { code, en: english, ru: russian } of warnings) {
    expect(isAboutFile(code), code).toBe(true);
    expect(noteText("en", code, {}).replaceAll("’", "'"), code).toBe(english);
    expect(noteText("ru", code, {}), code).toBe(russian);
  }
  const known = Object.keys(en).filter(
    (key) => key.startsWith("note.") && isAboutFile(key.slice("note.".length)),
  );
  expect(known.length).toBe(warnings.length);
});

test("every key that the page uses exists, and none is left over", () => {
  const root = new URL("../../", import.meta.url);
  const files = readdirSync(root, { recursive: true, encoding: "utf8" }).filter(
    (name) => /\.(svelte|ts)$/.test(name) && !name.includes("test"),
  );
  const source = files.map((name) => readFileSync(new URL(name, root), "utf8")).join("\n");
  const built = [
    "error.",
    "note.",
    "card.state.",
    "file.problem.",
    "welcome.suggest.",
    "tool.",
    "user.theme.",
    "link.",
  ];
  const named = Object.keys(en).filter((key) => !built.some((prefix) => key.startsWith(prefix)));
  expect(named.filter((key) => !source.includes(`"${key}"`))).toEqual([]);
  const used = [...source.matchAll(/\b(?:t|translate)\((?:locale, )?"([\w.]+)"/g)].map(
    (found) => found[1] ?? "",
  );
  expect(used.filter((key) => !(key in en))).toEqual([]);
});

test("plural rules of both languages", () => {
  const count = (locale: "en" | "ru", n: number) => translate(locale, "list.messages", { count: n });
  expect([1, 2, 5, 11, 21, 22, 112].map((n) => count("ru", n))).toEqual([
    "1 сообщение",
    "2 сообщения",
    "5 сообщений",
    "11 сообщений",
    "21 сообщение",
    "22 сообщения",
    "112 сообщений",
  ]);
  expect([0, 1, 2].map((n) => count("en", n))).toEqual(["0 messages", "1 message", "2 messages"]);
});

test("codes that are newer than this page have a text, too", () => {
  expect(errorText("ru", "SOMETHING_NEW")).toBe(errorText("ru", "INTERNAL"));
  expect(noteText("en", "SOMETHING_NEW", {})).toBe("Part of the request was left out.");
  expect(translate("en", "no.such.key" as Key)).toBe("no.such.key");
});

test("sizes, durations and dates", () => {
  expect([
    sizeText("en", 10_485_760),
    sizeText("ru", 1_572_864),
    sizeText("en", 2048),
    sizeText("ru", 7),
  ]).toEqual(["10 MB", "1,5 МБ", "2 KB", "7 Б"]);
  expect([
    durationText("en", 420),
    durationText("ru", 1520),
    durationText("en", 34_600),
    durationText("en", 125_000),
  ]).toEqual(["0.4 s", "1,5 с", "35 s", "2:05"]);
  expect(clockText(899_001)).toBe("15:00");
  const now = new Date(2026, 10, 30, 12).getTime();
  const days = (n: number) => groupOf("ru", now - n * 86_400_000, now);
  expect([0, 1, 3, 40].map(days)).toEqual(["Сегодня", "Вчера", "Последние 7 дней", "Октябрь 2026"]);
});

test("the browser's first known language is taken", () => {
  expect([preferred(["ru-RU", "en"]), preferred(["de", "ru"]), preferred(["fr"]), preferred([])]).toEqual([
    "ru",
    "ru",
    "en",
    "en",
  ]);
});
