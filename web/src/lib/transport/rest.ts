// The gateway's REST: conversations, history, the multi-tab gate; and uploads, whose progress only XHR tells.
import type { StoredMessage } from "../chat/history";
import { parseCard, type Card } from "../contract/event";
import { FILE_BYTES } from "../chat/files";
import type { FileView } from "../chat/model";
import type { Headers } from "./gradio";

export interface ConversationView {
  id: string;
  title: string;
  is_archived: boolean;
  message_count: number;
  created_at: string;
  updated_at: string;
  last_message_at: string | null;
}

export interface Listed<T> {
  items: T[];
  total: number;
  next_cursor: string | null;
}

export interface Active {
  active: boolean;
  turn_id: string | null;
  started_at: string | null;
  cursor: string | null;
  card: Card | null;
}

/** What a request came to, if not to an answer. `code` is one of the contract's; `detail` may say more. */
export class RestError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly detail = "",
  ) {
    super(`${status} ${code}`);
  }
}

const REQUEST_MS = 20_000;
const REACH_MS = 5000;
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null;

export class Rest {
  /** The largest file that this gateway takes, as its configuration says. */
  fileBytes: number = FILE_BYTES;

  constructor(
    private readonly root: string,
    private readonly gradio: string,
    private readonly headers: () => Headers,
  ) {}

  /** Fails unless a gateway answers. */
  async reach(): Promise<void> {
    const answer = await fetch(`${this.gradio}/config`, {
      headers: this.#fields(),
      cache: "no-store",
      signal: AbortSignal.timeout(REACH_MS),
    });
    if (answer.status >= 500) throw new RestError(answer.status, "UNAVAILABLE");
  }

  list(query: { search: string; archived: boolean; cursor: string | null; limit: number }) {
    const parameters = new URLSearchParams({ limit: String(query.limit) });
    if (query.cursor) parameters.set("cursor", query.cursor);
    if (query.search.trim()) parameters.set("search", query.search.trim());
    if (query.archived) parameters.set("archived_only", "true");
    return this.#get<Listed<ConversationView>>(`/api/assistant/conversations?${parameters}`);
  }

  /** The newest page, or the one before `cursor`. */
  history(conversation: string, cursor: string | null, limit: number) {
    const parameters = new URLSearchParams({ conversation_id: conversation, limit: String(limit) });
    if (cursor) parameters.set("cursor", cursor);
    return this.#get<Listed<StoredMessage>>(`/api/assistant/history?${parameters}`);
  }

  async active(conversation: string): Promise<Active> {
    const path = `/api/agent/conversations/${encodeURIComponent(conversation)}/active`;
    const view = await this.#get<Omit<Active, "card"> & { confirmation: unknown }>(path);
    const { confirmation, ...rest } = view;
    return { ...rest, card: isObject(confirmation) ? parseCard(confirmation) : null };
  }

  rename(conversation: string, title: string) {
    return this.#send<ConversationView>("PATCH", this.#one(conversation), { title });
  }

  archive(conversation: string) {
    return this.#send<unknown>("DELETE", this.#one(conversation));
  }

  unarchive(conversation: string) {
    return this.#send<ConversationView>("POST", `${this.#one(conversation)}/unarchive`);
  }

  /** The bytes of an upload, for a preview. */
  async file(path: string, signal?: AbortSignal): Promise<Blob> {
    const encoded = path.split("/").map(encodeURIComponent).join("/");
    return (await this.#fetch(`${this.gradio}/gradio_api/file=${encoded}`, signal ? { signal } : {})).blob();
  }

  /** Stops a turn of this person, whoever shows it. */
  async cancel(turn: string): Promise<void> {
    await this.#fetch(`${this.gradio}/gradio_api/cancel`, {
      method: "POST",
      body: JSON.stringify({ event_id: turn }),
      headers: { "Content-Type": "application/json" },
    });
  }

  upload(file: File, on: (fraction: number) => void, signal: AbortSignal): Promise<FileView> {
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open("POST", `${this.gradio}/gradio_api/upload`);
      for (const [name, value] of Object.entries(this.#fields())) request.setRequestHeader(name, value);
      request.upload.onprogress = (event) => event.lengthComputable && on(event.loaded / event.total);
      request.onerror = () => reject(new RestError(0, "UNAVAILABLE"));
      request.onabort = () => reject(new RestError(0, "ABORTED"));
      request.onload = () => {
        const paths: unknown = request.status === 200 ? parseJson(request.responseText) : null;
        const path: unknown = Array.isArray(paths) ? paths[0] : null;
        if (typeof path === "string") resolve({ path, name: file.name, mime: file.type, size: file.size });
        else reject(refused(request.status, parseJson(request.responseText)));
      };
      signal.addEventListener("abort", () => request.abort());
      const form = new FormData();
      form.append("files", file, file.name);
      request.send(form);
    });
  }

  #one(conversation: string): string {
    return `/api/assistant/conversations/${encodeURIComponent(conversation)}`;
  }

  async #get<T>(path: string): Promise<T> {
    return (await (await this.#fetch(this.root + path)).json()) as T;
  }

  async #send<T>(method: string, path: string, body?: object): Promise<T> {
    const json = body ? { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } } : {};
    return (await (await this.#fetch(this.root + path, { method, ...json })).json()) as T;
  }

  async #fetch(url: string, init: RequestInit = {}): Promise<Response> {
    const signal = init.signal ?? AbortSignal.timeout(REQUEST_MS);
    const headers = { ...this.#fields(), ...(init.headers as Record<string, string> | undefined) };
    const answer = await fetch(url, { ...init, headers, signal }).catch(() => {
      throw new RestError(0, "UNAVAILABLE");
    });
    if (answer.ok) return answer;
    throw refused(answer.status, await answer.json().catch(() => null));
  }

  #fields(): Record<string, string> {
    const { token, locale } = this.headers();
    return { "Accept-Language": locale, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function refused(status: number, body: unknown): RestError {
  const detail = isObject(body) && typeof body["detail"] === "string" ? body["detail"] : "";
  return new RestError(status, codeOf(status, body), detail);
}

function codeOf(status: number, body: unknown): string {
  if (isObject(body) && typeof body["code"] === "string") return body["code"];
  const known: Record<number, string> = {
    400: "BAD_REQUEST",
    401: "UNAUTHORIZED",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    413: "FILE_TOO_LARGE",
    415: "FILE_TYPE",
    422: "BAD_REQUEST",
    429: "USER_BUSY",
  };
  return known[status] ?? (status >= 500 || status === 0 ? "UNAVAILABLE" : "INTERNAL");
}
