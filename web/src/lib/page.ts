// What the page is told about its surroundings: `chat-config.json` beside it.
export interface DemoUser {
  name: string;
  token: string;
  about: { en: string; ru: string };
}

export interface PageConfig {
  /** Where people sign in; `?next=` brings them back. */
  login_url: string;
  /** Key of localStorage under which the host keeps the user's token. */
  token_key: string;
  gradio_path: string;
  /** A demo's own users, instead of a login page. */
  demo_users: DemoUser[];
}

const defaults: PageConfig = {
  login_url: "/login",
  token_key: "token",
  gradio_path: "/api/agent/gradio",
  demo_users: [],
};

export async function loadConfig(): Promise<PageConfig> {
  try {
    const answer = await fetch("./chat-config.json", { cache: "no-cache" });
    return answer.ok ? { ...defaults, ...((await answer.json()) as Partial<PageConfig>) } : defaults;
  } catch {
    return defaults;
  }
}
