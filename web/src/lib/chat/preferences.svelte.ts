// Language and appearance: the browser's at first, the person's once chosen.
import { language } from "../i18n/i18n.svelte";
import { preferred, type Locale } from "../i18n/translate";
import { recall, remember } from "./storage";

export type Theme = "system" | "light" | "dark";

const isTheme = (value: string | null): value is Theme =>
  value === "light" || value === "dark" || value === "system";

export class Preferences {
  theme = $state<Theme>("system");

  constructor(fixed: { locale?: Locale; theme?: Theme } = {}) {
    const locale = recall("locale");
    language.locale =
      fixed.locale ?? (locale === "ru" || locale === "en" ? locale : preferred(navigator.languages ?? []));
    const theme = recall("theme");
    this.theme = fixed.theme ?? (isTheme(theme) ? theme : "system");
  }

  get locale(): Locale {
    return language.locale;
  }

  set locale(locale: Locale) {
    language.locale = locale;
    remember("locale", locale);
  }

  choose(theme: Theme): void {
    this.theme = theme;
    remember("theme", theme === "system" ? null : theme);
  }
}
