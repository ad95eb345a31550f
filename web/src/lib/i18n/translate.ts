// Keys and values -> text. Pure; which language is chosen is i18n.svelte.ts's business.
import en from "./en.json";
import ru from "./ru.json";

export type Locale = "en" | "ru";
export type Key = keyof typeof en;
type Entry = string | Record<string, string>;
export type Values = Record<string, string | number>;

const texts: Record<Locale, Record<string, Entry>> = { en, ru };
const numbers: Record<Locale, Intl.NumberFormat> = {
  en: new Intl.NumberFormat("en"),
  ru: new Intl.NumberFormat("ru"),
};
const rules: Record<Locale, Intl.PluralRules> = {
  en: new Intl.PluralRules("en"),
  ru: new Intl.PluralRules("ru"),
};

/** A key with plural forms takes the one for `count`. */
export function translate(locale: Locale, key: Key, values: Values = {}): string {
  const entry = texts[locale][key] ?? key;
  const text = typeof entry === "string" ? entry : form(locale, entry, values["count"]);
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = values[name];
    if (value === undefined) return whole;
    return typeof value === "number" ? numbers[locale].format(value) : value;
  });
}

function form(locale: Locale, forms: Record<string, string>, count: unknown): string {
  const category = typeof count === "number" ? rules[locale].select(count) : "other";
  return forms[category] ?? forms["other"] ?? "";
}

/** The text of a code of the contract, of a newer one too. */
export function errorText(locale: Locale, code: string): string {
  const key = `error.${code}`;
  return translate(locale, (key in en ? key : "error.INTERNAL") as Key);
}

/** Whether a warning's own words name the file that it is about; another text of ours would not. */
export const isAboutFile = (code: string): boolean => /^(FILE|PDF|IMAGE)_/.test(code);

export function noteText(locale: Locale, code: string, values: Values): string {
  const key = `note.${code}`;
  return translate(locale, (key in en ? key : "note.other") as Key, values);
}

export function sizeText(locale: Locale, bytes: number): string {
  const round = (value: number) => Math.round(value * 10) / 10;
  if (bytes >= 1024 * 1024) return translate(locale, "unit.mb", { count: round(bytes / 1024 / 1024) });
  return bytes >= 1024
    ? translate(locale, "unit.kb", { count: Math.round(bytes / 1024) })
    : translate(locale, "unit.b", { count: bytes });
}

/** `0.4 s`, `12 s`, `2:05`. */
export function durationText(locale: Locale, ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 10) return translate(locale, "unit.seconds", { count: Math.round(seconds * 10) / 10 });
  return seconds < 60 ? translate(locale, "unit.seconds", { count: Math.round(seconds) }) : clockText(ms);
}

export function clockText(ms: number): string {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

/** The list's heading for a date, and how the date itself is written. */
export function groupOf(locale: Locale, at: number, now: number): string {
  const day = (time: number) => new Date(time).setHours(0, 0, 0, 0);
  const days = Math.round((day(now) - day(at)) / 86_400_000);
  if (days <= 0) return translate(locale, "date.today");
  if (days === 1) return translate(locale, "date.yesterday");
  if (days <= 7) return translate(locale, "date.week");
  const month = new Intl.DateTimeFormat(locale, { month: "long", year: "numeric" })
    .format(at)
    .replace(/ г\.$/, "");
  return month.charAt(0).toLocaleUpperCase(locale) + month.slice(1);
}

export function whenText(locale: Locale, at: number, now: number): string {
  const day = (time: number) => new Date(time).setHours(0, 0, 0, 0);
  const isRecent = day(now) - day(at) <= 90_000_000;
  const isThisYear = new Date(at).getFullYear() === new Date(now).getFullYear();
  const format: Intl.DateTimeFormatOptions = isRecent
    ? { hour: locale === "en" ? "numeric" : "2-digit", minute: "2-digit" }
    : { day: "numeric", month: "short", ...(isThisYear ? {} : { year: "numeric" }) };
  return new Intl.DateTimeFormat(locale, format).format(at);
}

export function momentText(locale: Locale, at: number): string {
  return new Intl.DateTimeFormat(locale, { dateStyle: "long", timeStyle: "short" }).format(at);
}

/** What a browser prefers among what there is. */
export function preferred(languages: readonly string[]): Locale {
  const known = languages
    .map((language) => language.slice(0, 2).toLowerCase())
    .find((one) => one === "ru" || one === "en");
  return known === "ru" ? "ru" : "en";
}
