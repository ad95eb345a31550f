// The one importer of @gradio/client. It hands out values and how a submission ended; nothing of the client's
// own vocabulary leaves this file.
import { Client } from "@gradio/client";
import type { FileView } from "../chat/model";

export interface Submission {
  text: string;
  files: readonly FileView[];
  conversation_id: string;
  action: string | null;
  /** The same for every attempt at sending one message, so that it is taken once. */
  client_message_id: string;
}

export type Signal =
  | { kind: "value"; value: unknown }
  | { kind: "complete" }
  /** The stream broke after the submission was taken, or nobody knows whether it was. */
  | { kind: "lost"; taken: boolean }
  /** An answer of HTTP said no. */
  | { kind: "refused"; code: string };

export interface Running {
  /** Stops the turn. */
  cancel(): Promise<void>;
  /** Stops listening; the turn goes on. */
  leave(): void;
}

export interface Headers {
  token: string | null;
  locale: string;
}

type Iterable = ReturnType<Client["submit"]>;

export class Transport {
  /** The gateway knows a message by its id, so that sending it again is safe. */
  isIdempotent = false;
  #client: Promise<Client> | null = null;

  constructor(
    private readonly base: string,
    private readonly headers: () => Headers,
  ) {}

  /** Connects if it isn't connected; fails if the gateway can't be reached. The largest file that it takes. */
  async connect(): Promise<{ fileBytes: number | null }> {
    const { config } = await this.#connected();
    return { fileBytes: config?.max_file_size ?? null };
  }

  /** A broken client can't be used again: the next submission makes another. */
  drop(): void {
    void this.#client?.then(
      (client) => client.close(),
      () => undefined,
    );
    this.#client = null;
  }

  submit(submission: Submission, on: (signal: Signal) => void): Running {
    let isLeft = false;
    let iterable: Iterable | null = null;
    const run = async () => {
      const client = await this.#connected();
      client.options.headers = this.#fields();
      const published = client.api_info?.named_endpoints["/chat"]?.parameters ?? [];
      this.isIdempotent = published.some((parameter) => parameter.parameter_name === "client_message_id");
      iterable = client.submit("/chat", payload(submission, this.isIdempotent));
      await follow(iterable, (signal) => isLeft || on(signal));
    };
    const done = run().catch(() => {
      this.drop();
      if (!isLeft) on({ kind: "lost", taken: false });
    });
    return {
      cancel: async () => {
        await Promise.race([iterable?.wait_for_id() ?? done, done]);
        await iterable?.cancel();
      },
      leave: () => {
        isLeft = true;
      },
    };
  }

  async #connected(): Promise<Client> {
    this.#client ??= Client.connect(this.base, { events: ["data", "status"], headers: this.#fields() });
    const connecting = this.#client;
    try {
      return await connecting;
    } catch (error) {
      if (this.#client === connecting) this.#client = null;
      throw error;
    }
  }

  #fields(): Record<string, string> {
    const { token, locale } = this.headers();
    return { "Accept-Language": locale, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  }
}

/** By name, and only what this gateway publishes. */
function payload(submission: Submission, takesId: boolean): Record<string, unknown> {
  const { text, files, conversation_id, action, client_message_id } = submission;
  const data = files.map(({ path, name, mime, size }) => ({
    path,
    orig_name: name,
    mime_type: mime,
    size,
    meta: { _type: "gradio.FileData" },
  }));
  return {
    message: { text, files: data },
    conversation_id,
    action,
    ...(takesId ? { client_message_id } : {}),
  };
}

/** `for await` up to the final status; what comes after it is not for us. */
async function follow(iterable: Iterable, on: (signal: Signal) => void): Promise<void> {
  for await (const event of iterable) {
    if (event.type === "data") on({ kind: "value", value: (event.data as unknown[])[0] });
    if (event.type !== "status") continue;
    if (event.stage === "complete") return on({ kind: "complete" });
    if (event.stage === "error") return on(failure(event, iterable.event_id()));
  }
  on({ kind: "lost", taken: Boolean(iterable.event_id()) });
}

function failure(status: { broken?: boolean; message?: unknown }, id: string | null): Signal {
  const message = typeof status.message === "string" ? status.message : "";
  if (id) return { kind: "lost", taken: true };
  if (status.broken || message === "" || message.startsWith("Connection errored"))
    return { kind: "lost", taken: false };
  if (message.startsWith("This application is currently busy"))
    return { kind: "refused", code: "QUEUE_FULL" };
  return { kind: "refused", code: /^[A-Z_]+$/.test(message) ? message : "UNAVAILABLE" };
}
