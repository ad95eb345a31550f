// The full page.
import { mount } from "svelte";
import "./styles/fonts.css";
import "./styles/chat.css";
import { Chat } from "./lib/chat/chat.svelte";
import { Preferences } from "./lib/chat/preferences.svelte";
import type { Host } from "./lib/chat/session.svelte";
import App from "./lib/components/App.svelte";
import { loadConfig, type DemoUser } from "./lib/page";

const config = await loadConfig();
const isDemo = config.demo_users.length > 0;
const idInAddress = () => /^#\/c\/([0-9A-Za-z_-]{1,128})$/.exec(location.hash)?.[1] ?? null;

const host: Host = {
  origin: location.origin,
  gradio: config.gradio_path,
  token: () => localStorage.getItem(config.token_key),
  signIn: () => {
    if (!isDemo)
      location.assign(`${config.login_url}?next=${encodeURIComponent(location.pathname + location.hash)}`);
  },
  ...(isDemo ? { signOut } : {}),
};

const preferences = new Preferences();
const chat = new Chat(host, {
  opened: (id) => {
    const hash = id ? `#/c/${id}` : "";
    if (location.hash !== hash) history.pushState(null, "", hash || location.pathname);
  },
});

function signOut(): void {
  localStorage.removeItem(config.token_key);
  chat.reset();
  chat.session.renewed();
}

function signIn(user: DemoUser): void {
  const before = chat.session.name;
  localStorage.setItem(config.token_key, user.token);
  chat.session.renewed();
  if (before && before !== chat.session.name) chat.reset();
  chat.begin(idInAddress());
}

window.addEventListener("popstate", () => {
  const id = idInAddress();
  if (id) chat.open(id);
  else chat.startNew();
});
// Signed in or out in another tab.
window.addEventListener("storage", (event) => {
  if (event.key !== config.token_key) return;
  chat.session.renewed();
  chat.begin(idInAddress());
});

mount(App, {
  target: document.body,
  props: { chat, preferences, users: config.demo_users, onuser: signIn },
});
chat.start(idInAddress());
