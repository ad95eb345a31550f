// The chosen language. Whatever reads `t` in a component follows a change.
import * as pure from "./translate";
import type { Key, Locale, Values } from "./translate";

class Language {
  locale = $state<Locale>("en");
}

export const language = new Language();

export const t = (key: Key, values?: Values): string => pure.translate(language.locale, key, values);
export const errorText = (code: string): string => pure.errorText(language.locale, code);
export const noteText = (code: string, values: Values): string =>
  pure.noteText(language.locale, code, values);
export const sizeText = (bytes: number): string => pure.sizeText(language.locale, bytes);
export const durationText = (ms: number): string => pure.durationText(language.locale, ms);
export const groupOf = (at: number, now: number): string => pure.groupOf(language.locale, at, now);
export const whenText = (at: number, now: number): string => pure.whenText(language.locale, at, now);
export const momentText = (at: number): string => pure.momentText(language.locale, at);
