// One open conversation: sends, decides, stops, follows, and finds its way back after a lost connection.
import { isAfter, parse, type Received } from "../contract/event";
import type { Rest } from "../transport/rest";
import { RestError } from "../transport/rest";
import type { Running, Signal, Submission, Transport } from "../transport/gradio";
import { toItems, type Results } from "./history";
import type { Link } from "./link.svelte";
import {
  empty,
  isWriting,
  liveAnswer,
  openCard,
  type AnswerItem,
  type Conversation,
  type FileView,
  type Item,
} from "./model";
import { reduce, type ChatEvent } from "./reduce";
import type { Session } from "./session.svelte";

export interface Services {
  transport: Transport;
  rest: Rest;
  link: Link;
  session: Session;
  /** A turn began or ended, here. */
  changed(conversation: ChatConversation, what: "turn" | "message"): void;
  /** Events in the order they were shown. */
  shown?(received: Received, conversation: ChatConversation): void;
  /** What was to be sent comes back into the field. */
  giveBack(conversation: ChatConversation, text: string, files: readonly FileView[]): void;
}

const PAGE = 40;
const SILENCE_MS = 20_000;
const CHECK_MS = 5000;
const RESENDS = 3;
const OVERTAKEN = ["ALREADY_RESOLVED", "CHECKPOINT_EXPIRED", "NO_PENDING_CONFIRMATION", "CONVERSATION_BUSY"];

const isUndecided = (item: Item): boolean =>
  item.kind === "answer" && item.parts.some((part) => part.kind === "card" && part.state === "unknown");
const isHidden = () => document.visibilityState === "hidden";

export class ChatConversation {
  state = $state.raw<Conversation>(empty(""));
  phase = $state<"new" | "loading" | "ready" | "failed" | "missing">("new");
  hasOlder = $state(false);
  isLoadingOlder = $state(false);
  /** The live turn was begun somewhere else. */
  isElsewhere = $state(false);
  isStopping = $state(false);
  notice = $state<"busy.kept" | null>(null);

  #older: string | null = null;
  #results: Results = new Map();
  #queue: ChatEvent[] = [];
  #frame: number | null = null;
  #running: Running | null = null;
  #isAttached = false;
  #heardAt = 0;
  #seenCursor: string | null = null;
  #generation = 0;
  /** How often a message was sent again, by its id. */
  readonly #tries = new Map<string, number>();

  constructor(
    readonly id: string,
    private readonly services: Services,
    isNew: boolean,
  ) {
    this.state = empty(id);
    if (!isNew) this.phase = "loading";
  }

  get isBusy(): boolean {
    return this.state.live !== null;
  }

  get live(): AnswerItem | null {
    return liveAnswer(this.state);
  }

  // ---- loading

  async load(): Promise<void> {
    if (this.phase !== "ready") this.phase = "loading";
    try {
      const [page, active] = await Promise.all([
        this.services.rest.history(this.id, null, PAGE).catch((error: unknown) => {
          // The first turn of a conversation waits for a worker: there is a job and no history yet.
          if (error instanceof RestError && error.status === 404) return null;
          throw error;
        }),
        this.services.rest.active(this.id),
      ]);
      this.services.link.heard();
      this.#leave();
      this.#results = new Map();
      this.#older = page?.next_cursor ?? null;
      this.hasOlder = this.#older !== null;
      this.#apply({ type: "loaded", items: toItems(page?.items ?? [], this.#results) });
      this.#apply({ type: "card", card: active.card, key: crypto.randomUUID(), at: Date.now() });
      this.phase = "ready";
      this.#seenCursor = active.cursor;
      if (active.active) this.#attach(active.turn_id);
    } catch (error) {
      this.#failed(error);
    }
  }

  async loadOlder(): Promise<void> {
    if (this.isLoadingOlder || this.#older === null) return;
    this.isLoadingOlder = true;
    const generation = this.#generation;
    try {
      const page = await this.services.rest.history(this.id, this.#older, PAGE);
      if (generation !== this.#generation) return;
      this.#older = page.next_cursor;
      this.hasOlder = this.#older !== null;
      this.#apply({ type: "prepended", items: toItems(page.items, this.#results) });
    } catch (error) {
      if (error instanceof RestError && error.status === 401) this.services.session.expired();
    } finally {
      this.isLoadingOlder = false;
    }
  }

  /** What happened here while nobody listened: another tab, another device. */
  async sync(): Promise<void> {
    if (this.phase !== "ready" || this.isBusy) return;
    try {
      const active = await this.services.rest.active(this.id);
      this.services.link.heard();
      if (this.isBusy) return;
      if (active.active || active.cursor !== this.#seenCursor) await this.load();
      else this.#apply({ type: "card", card: active.card, key: crypto.randomUUID(), at: Date.now() });
    } catch (error) {
      if (!(error instanceof RestError)) return;
      if (error.status === 0) this.services.link.cut();
      if (error.status === 401) this.services.session.expired();
    }
  }

  // ---- sending

  send(text: string, files: readonly FileView[], key: string = crypto.randomUUID()): void {
    this.notice = null;
    this.phase = "ready";
    this.#apply({ type: "sent", key, text, files, at: Date.now() });
    this.#submit({ text, files, action: null, key });
  }

  decide(action: "confirm" | "deny", reason: string): void {
    const card = openCard(this.state);
    if (!card || this.isBusy) return;
    this.#apply({ type: "deciding", confirmation_id: card.id });
    this.#continue({ text: reason, action });
  }

  /** One decision each: every call but the last is told by itself, in the order of the card. */
  async decideEach(allowed: ReadonlySet<string>): Promise<void> {
    const card = openCard(this.state);
    if (!card || this.isBusy) return;
    this.#apply({ type: "deciding", confirmation_id: card.id });
    for (const call of card.calls) {
      const word = allowed.has(call.tool_call_id) ? "confirm" : "deny";
      await this.#continue({ text: "", action: `${word}:${call.tool_call_id}` });
    }
  }

  /** Goes on with a turn that paused because the token had expired. */
  resume(): void {
    if (!this.isBusy) void this.#continue({ text: "", action: "resume" });
  }

  expire(confirmation: string): void {
    this.#apply({ type: "expired", confirmation_id: confirmation });
  }

  async stop(): Promise<void> {
    if (!this.#running || this.isStopping) return;
    this.isStopping = true;
    try {
      if (!this.#isAttached) return await this.#running.cancel();
      // Cancelling what only shows a turn would end the showing.
      const turn = this.live?.turn_id ?? (await this.services.rest.active(this.id)).turn_id;
      if (turn) await this.services.rest.cancel(turn);
    } catch {
      this.isStopping = false;
    }
  }

  /** The same message again; one that was never taken leaves the screen first. */
  again(key: string): void {
    const items = this.state.items;
    const index = items.findIndex((item) => item.key === key);
    const user = items.slice(0, index + 1).findLast((item) => item.kind === "user");
    const failed = items[index];
    if (user?.kind !== "user" || this.isBusy) return;
    const wasTaken =
      failed?.kind !== "answer" || failed.cursor !== null || failed.key !== `${user.key}:answer`;
    if (!wasTaken) this.#apply({ type: "dropped", key: user.key });
    // One that may have been taken all the same keeps its id.
    this.send(user.text, user.files, wasTaken ? undefined : user.key);
  }

  /** Nothing is listened to any more; the turn goes on. */
  leave(): void {
    this.#leave();
    this.state = { ...this.state, live: null };
  }

  // ---- a submission's life

  #continue(what: { text: string; action: string }): Promise<void> {
    const key = crypto.randomUUID();
    this.#apply({ type: "joined", key, turn_id: null, at: Date.now() });
    return this.#submit({ ...what, files: [], key });
  }

  #attach(turn: string | null): void {
    const cursor = this.live?.cursor ?? null;
    if (!this.live) {
      this.isElsewhere = true;
      this.#apply({ type: "joined", key: crypto.randomUUID(), turn_id: turn, at: Date.now() });
    }
    const action = cursor === null ? "attach" : `attach:${cursor}`;
    void this.#submit({ text: "", files: [], action, key: this.state.live ?? "" });
  }

  #submit(what: {
    text: string;
    files: readonly FileView[];
    action: string | null;
    key: string;
  }): Promise<void> {
    const { text, files, action, key } = what;
    const submission: Submission = { text, files, action, conversation_id: this.id, client_message_id: key };
    this.#leave();
    const generation = this.#generation;
    this.#heardAt = Date.now();
    this.#isAttached = action?.startsWith("attach") ?? false;
    if (!this.#isAttached) {
      this.isElsewhere = false;
      this.services.changed(this, "turn");
    }
    return new Promise((resolve) => {
      const watch = setInterval(() => void this.#watch(generation), CHECK_MS);
      const over = () => {
        clearInterval(watch);
        resolve();
      };
      this.#running = this.services.transport.submit(submission, (signal) => {
        if (generation !== this.#generation) return over();
        this.#heardAt = Date.now();
        if (signal.kind === "value") return this.#value(signal.value, submission, key);
        over();
        this.#flush();
        this.#ended(signal, submission, key);
      });
    });
  }

  #value(value: unknown, submission: Submission, key: string): void {
    this.services.link.heard();
    const received = parse(value);
    const { event } = received;
    if (event.type === "error" && event.code === "UNAUTHORIZED") this.services.session.expired();
    if (event.type === "error" && OVERTAKEN.includes(event.code) && !submission.action?.startsWith("attach"))
      return this.#refused(received, event.code, submission, key);
    this.#queue.push({ type: "received", received, at: Date.now() });
    this.services.shown?.(received, this);
    this.#schedule();
  }

  /** Nothing was begun: what was asked leaves the screen, and what is true comes onto it. */
  #refused(received: Received, code: string, submission: Submission, key: string): void {
    this.#queue.push({ type: "received", received, at: Date.now() }, { type: "dropped", key });
    this.#flush();
    if (this.state.live !== null) this.state = { ...this.state, live: null };
    this.#leave();
    if (submission.action === null) {
      this.services.giveBack(this, submission.text, submission.files);
      this.notice = "busy.kept";
    }
    void this.load().then(() => code === "CONVERSATION_BUSY" && this.isBusy && (this.isElsewhere = true));
  }

  #ended(signal: Exclude<Signal, { kind: "value" }>, submission: Submission, key: string): void {
    this.isStopping = false;
    if (signal.kind === "complete") {
      this.#apply({ type: "ended", how: "complete" });
      this.#over();
      // How a card was decided elsewhere is in the history only.
      if (this.#isAttached && this.state.items.some(isUndecided)) void this.load();
    } else if (signal.kind === "refused") this.#declined(signal.code, submission, key);
    else {
      this.#apply({ type: "ended", how: "lost" });
      void this.#recover(signal.taken, submission);
    }
  }

  #declined(code: string, submission: Submission, key: string): void {
    if (code === "UNAUTHORIZED") {
      // The draft is the message; signing in must not lose it.
      this.#apply({ type: "dropped", key });
      this.state = { ...this.state, live: null };
      if (submission.action === null) this.services.giveBack(this, submission.text, submission.files);
      else void this.load();
      this.services.session.expired();
      return;
    }
    this.#apply({ type: "refused", failure: { code, detail: "", retryable: true } });
    this.#over();
  }

  async #recover(taken: boolean, submission: Submission): Promise<void> {
    const generation = this.#generation;
    this.services.transport.drop();
    await this.services.link.restored();
    if (generation !== this.#generation) return;
    try {
      const active = await this.services.rest.active(this.id).catch((error: unknown) => {
        if (error instanceof RestError && error.status === 404) return null;
        throw error;
      });
      if (generation !== this.#generation) return;
      if (active?.active) return this.#attach(active.turn_id);
      // Nobody knows whether it was taken: under its own id it is taken once, however often it is sent.
      if (!taken && !submission.action?.startsWith("attach")) {
        const tries = (this.#tries.get(submission.client_message_id) ?? 0) + 1;
        this.#tries.set(submission.client_message_id, tries);
        if (tries <= RESENDS && this.services.transport.isIdempotent) {
          const { text, files, action, client_message_id: key } = submission;
          return void this.#submit({ text, files, action, key });
        }
        return this.#apply({
          type: "refused",
          failure: { code: "UNAVAILABLE", detail: "", retryable: true },
        });
      }
      this.state = { ...this.state, live: null };
      await this.load();
      this.#over();
    } catch (error) {
      if (error instanceof RestError && error.status === 0) return void this.#recover(taken, submission);
      this.#apply({ type: "refused", failure: { code: "UNAVAILABLE", detail: "", retryable: true } });
    }
  }

  /** A stream can be dead without an error. After a silence the server is asked whether there is more. */
  async #watch(generation: number): Promise<void> {
    if (generation !== this.#generation || Date.now() - this.#heardAt < SILENCE_MS) return;
    this.#heardAt = Date.now();
    const active = await this.services.rest.active(this.id).catch(() => null);
    if (!active || generation !== this.#generation) return;
    const mine = this.live?.cursor ?? null;
    const isBehind = active.cursor !== null && (mine === null || isAfter(active.cursor, mine));
    if (active.active && !isBehind) return;
    this.#leave();
    this.services.transport.drop();
    if (active.active) this.#attach(active.turn_id);
    else {
      this.state = { ...this.state, live: null };
      await this.load();
      this.#over();
    }
  }

  #over(): void {
    this.isElsewhere = false;
    this.services.changed(this, "message");
    void this.services.rest.active(this.id).then(
      (active) => !active.active && (this.#seenCursor = active.cursor),
      () => undefined,
    );
  }

  #leave(): void {
    this.#flush();
    this.#generation += 1;
    this.#running?.leave();
    this.#running = null;
  }

  #failed(error: unknown): void {
    const status = error instanceof RestError ? error.status : 0;
    if (status === 401) this.services.session.expired();
    if (this.phase !== "ready") this.phase = status === 404 ? "missing" : "failed";
    if (status === 0 || status >= 500)
      void this.services.link.restored().then(() => (this.phase === "failed" ? this.load() : undefined));
  }

  // ---- state, at most once per frame

  #apply(event: ChatEvent): void {
    this.#queue.push(event);
    this.#flush();
  }

  #schedule(): void {
    if (this.#frame !== null) return;
    const run = () => this.#flush();
    // A hidden tab gets no frames.
    this.#frame = isHidden() ? window.setTimeout(run, 100) : requestAnimationFrame(run);
  }

  #flush(): void {
    if (this.#frame !== null) {
      cancelAnimationFrame(this.#frame);
      clearTimeout(this.#frame);
      this.#frame = null;
    }
    const queue = this.#queue;
    this.#queue = [];
    if (queue.length) this.state = queue.reduce(reduce, this.state);
  }

  get isWriting(): boolean {
    const live = this.live;
    return live !== null && isWriting(live);
  }
}
