// The chat inside another page: `mountChat(target, options)`, or the element
//
//   <agent-chat variant="drawer" locale="ru"></agent-chat>
//   element.getToken = () => myToken; element.focusTarget = { type: "dashboard", id: "42", title: "Sales" };
//   element.addEventListener("agent-chat:touched", (event) => highlight(event.detail));
//   element.addEventListener("agent-chat:sign-in", () => login().then(() => element.renewed()));
//
// It lives in a shadow root: the page's styles don't reach it, nor its own the page.
import { mount, unmount } from "svelte";
import styles from "./styles/chat.css?inline";
import { Chat } from "./lib/chat/chat.svelte";
import type { Focus } from "./lib/chat/focus";
import { Preferences, type Theme } from "./lib/chat/preferences.svelte";
import { recall, remember } from "./lib/chat/storage";
import Embedded from "./lib/components/Embedded.svelte";
import { DrawerState } from "./lib/components/drawer.svelte";
import type { Locale } from "./lib/i18n/translate";

export type { Focus };

export interface Options {
  variant?: "inline" | "drawer";
  /** Where `/api/...` is; this page's own origin by default. */
  origin?: string;
  gradioPath?: string;
  locale?: Locale;
  theme?: Theme;
  getToken(): string | null;
  /** The token is missing or no longer works: sign the person in, then call `renewed()`. */
  onSignIn?(reason: "needed" | "expired"): void;
  /** The agent works with this object. */
  onTouched?(focus: Focus): void;
}

export interface Mounted {
  /** The object that the person looks at: it is mentioned with the next message. */
  focus(target: Focus | null): void;
  open(): void;
  close(): void;
  renewed(): void;
  destroy(): void;
}

let sheet: CSSStyleSheet | undefined;

export function mountChat(target: HTMLElement, options: Options): Mounted {
  const root = target.shadowRoot ?? target.attachShadow({ mode: "open" });
  if (!sheet) {
    sheet = new CSSStyleSheet();
    sheet.replaceSync(styles);
  }
  root.adoptedStyleSheets = [sheet];
  const preferences = new Preferences({
    ...(options.locale ? { locale: options.locale } : {}),
    ...(options.theme ? { theme: options.theme } : {}),
  });
  const variant = options.variant ?? "inline";
  const drawer = new DrawerState();
  const chat = new Chat(
    {
      origin: options.origin ?? location.origin,
      gradio: options.gradioPath ?? "/api/agent/gradio",
      token: options.getToken,
      signIn: (reason) => options.onSignIn?.(reason),
    },
    {
      ...(options.onTouched ? { touched: options.onTouched } : {}),
      opened: (id) => remember("embedded", id),
    },
  );
  const app = mount(Embedded, { target: root, props: { chat, preferences, variant, drawer } });
  chat.start(recall("embedded"));
  return {
    focus: (focus) => (chat.focus = focus),
    open: () => (drawer.isOpen = true),
    close: () => (drawer.isOpen = false),
    renewed: () => {
      chat.session.renewed();
      chat.begin(recall("embedded"));
    },
    destroy: () => {
      chat.dispose();
      void unmount(app);
    },
  };
}

export class AgentChatElement extends HTMLElement {
  getToken: () => string | null = () => null;
  #mounted: Mounted | null = null;
  #focus: Focus | null = null;

  get focusTarget(): Focus | null {
    return this.#focus;
  }

  set focusTarget(focus: Focus | null) {
    this.#focus = focus;
    this.#mounted?.focus(focus);
  }

  connectedCallback(): void {
    // A property that was set before this class was known hides its accessor.
    const early = Object.getOwnPropertyDescriptor(this, "focusTarget")?.value as Focus | null | undefined;
    if (early !== undefined) {
      Reflect.deleteProperty(this, "focusTarget");
      this.#focus = early;
    }
    const locale = this.getAttribute("locale");
    const theme = this.getAttribute("theme");
    const origin = this.getAttribute("origin");
    const gradioPath = this.getAttribute("gradio-path");
    const tell = (name: string, detail: unknown) =>
      this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
    this.#mounted = mountChat(this, {
      variant: this.getAttribute("variant") === "drawer" ? "drawer" : "inline",
      ...(locale === "ru" || locale === "en" ? { locale } : {}),
      ...(theme === "light" || theme === "dark" || theme === "system" ? { theme } : {}),
      ...(origin ? { origin } : {}),
      ...(gradioPath ? { gradioPath } : {}),
      getToken: () => this.getToken(),
      onSignIn: (reason) => tell("agent-chat:sign-in", { reason }),
      onTouched: (focus) => tell("agent-chat:touched", focus),
    });
    this.#mounted.focus(this.#focus);
  }

  disconnectedCallback(): void {
    this.#mounted?.destroy();
    this.#mounted = null;
  }

  open(): void {
    this.#mounted?.open();
  }

  close(): void {
    this.#mounted?.close();
  }

  renewed(): void {
    this.#mounted?.renewed();
  }
}

if (!customElements.get("agent-chat")) customElements.define("agent-chat", AgentChatElement);
