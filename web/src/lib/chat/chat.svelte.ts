// Everything behind one screen: session, connection, list, the conversation that is open, drafts.
import type { Received } from "../contract/event";
import { language, t } from "../i18n/i18n.svelte";
import { Transport } from "../transport/gradio";
import { Rest, type ConversationView } from "../transport/rest";
import { Announcer } from "./announcer.svelte";
import { ChatConversation, type Services } from "./conversation.svelte";
import { Drafts } from "./drafts.svelte";
import { touched, withFocus, type Focus } from "./focus";
import { Link } from "./link.svelte";
import { ConversationList } from "./list.svelte";
import { textOf, type FileView } from "./model";
import { Session, type Host } from "./session.svelte";

const FOLLOW_MS = 4000;
const SPOKEN_CHARS = 400;

export interface Toast {
  text: string;
  undo: (() => void) | null;
}

export class Chat {
  readonly session: Session;
  readonly link: Link;
  readonly rest: Rest;
  readonly list: ConversationList;
  readonly announcer = new Announcer();
  readonly drafts: Drafts;

  current = $state.raw<ChatConversation | null>(null);
  /** What the host says the person is looking at. */
  focus = $state.raw<Focus | null>(null);
  toast = $state.raw<Toast | null>(null);

  #transport: Transport;
  #live = new Map<string, ChatConversation>();
  #channel: BroadcastChannel | null = null;
  #timers: ReturnType<typeof setInterval>[] = [];
  #toasting: ReturnType<typeof setTimeout> | undefined;
  #stop = new AbortController();

  constructor(
    host: Host,
    private readonly on: { touched?(focus: Focus): void; opened?(id: string | null): void } = {},
  ) {
    this.session = new Session(host);
    const headers = () => ({ token: this.session.token, locale: language.locale });
    const gradio = host.origin + host.gradio;
    this.rest = new Rest(host.origin, gradio, headers);
    this.#transport = new Transport(gradio, headers);
    // A client that was made before the network went says nothing about the network.
    this.link = new Link(async () => {
      await this.rest.reach();
      await this.#connect();
    });
    this.list = new ConversationList(this.rest, this.session);
    this.drafts = new Drafts(() => this.session.name);
    this.current = this.#make(crypto.randomUUID(), true);
  }

  /** Connects, loads the list and begins to follow. */
  start(open: string | null): void {
    const { signal } = this.#stop;
    window.addEventListener("online", () => this.link.hurry(), { signal });
    window.addEventListener("offline", () => this.link.cut(), { signal });
    document.addEventListener("visibilitychange", () => this.#woken(), { signal });
    window.addEventListener("focus", () => this.#woken(), { signal });
    this.#timers.push(setInterval(() => this.#follow(), FOLLOW_MS));
    if (typeof BroadcastChannel !== "undefined") {
      this.#channel = new BroadcastChannel("agentchat");
      this.#channel.onmessage = (event: MessageEvent<{ conversation: string; user: string }>) =>
        this.#told(event.data);
    }
    this.session.require();
    this.begin(open);
  }

  /** After signing in, too. */
  begin(open: string | null): void {
    if (!this.session.isReady) return;
    this.#connect().then(
      () => this.link.heard(),
      () => void this.link.reconnect(),
    );
    void this.list.refresh();
    if (open) this.open(open);
    else if (this.current?.phase === "failed" || this.current?.phase === "loading") void this.current.load();
  }

  async #connect(): Promise<void> {
    const { fileBytes } = await this.#transport.connect();
    if (fileBytes !== null) this.rest.fileBytes = fileBytes;
  }

  dispose(): void {
    this.#stop.abort();
    this.#channel?.close();
    for (const timer of this.#timers) clearInterval(timer);
    for (const conversation of this.#live.values()) conversation.leave();
    this.#transport.drop();
  }

  /** Somebody else is signed in: nothing of the one before stays. */
  reset(): void {
    for (const conversation of this.#live.values()) conversation.leave();
    this.#live.clear();
    this.#transport.drop();
    this.list.items = [];
    this.current = this.#make(crypto.randomUUID(), true);
    this.on.opened?.(null);
  }

  open(id: string): void {
    if (this.current?.id === id) return;
    this.#depart();
    const known = this.#live.get(id);
    const conversation = known ?? this.#make(id, false);
    this.current = conversation;
    this.on.opened?.(id);
    if (!known && this.session.isReady) void conversation.load();
  }

  startNew(): void {
    if (this.current?.phase === "new") return;
    this.#depart();
    this.current = this.#make(crypto.randomUUID(), true);
    this.on.opened?.(null);
  }

  send(text: string, files: readonly FileView[]): void {
    const conversation = this.current;
    if (!conversation) return;
    const isFirst = conversation.phase === "new";
    conversation.send(withFocus(text, this.focus), files);
    if (isFirst) this.on.opened?.(conversation.id);
  }

  view(id: string): ConversationView | null {
    return this.list.items.find((item) => item.id === id) ?? null;
  }

  isWriting(id: string): boolean {
    return (this.current?.id === id ? this.current : this.#live.get(id))?.isBusy ?? false;
  }

  async archive(id: string): Promise<void> {
    await this.list.archive(id);
    this.#live.get(id)?.leave();
    this.#live.delete(id);
    if (this.current?.id === id) {
      this.current.leave();
      this.startNew();
    }
    this.say(t("conversation.archivedDone"), () => void this.list.unarchive(id));
  }

  async unarchive(id: string): Promise<void> {
    await this.list.unarchive(id);
    this.say(t("conversation.unarchivedDone"), null);
  }

  say(text: string, undo: (() => void) | null): void {
    clearTimeout(this.#toasting);
    this.toast = { text, undo };
    this.announcer.say(text);
    this.#toasting = setTimeout(() => (this.toast = null), 6000);
  }

  hush(): void {
    this.toast = null;
  }

  #make(id: string, isNew: boolean): ChatConversation {
    const services: Services = {
      transport: this.#transport,
      rest: this.rest,
      link: this.link,
      session: this.session,
      changed: (conversation, what) => this.#changed(conversation, what),
      shown: (received, conversation) => this.#shown(received, conversation),
      giveBack: (conversation, text, files) => this.drafts.giveBack(conversation.id, text, files),
    };
    return new ChatConversation(id, services, isNew);
  }

  /** A conversation that is being answered goes on in the background. */
  #depart(): void {
    const conversation = this.current;
    if (!conversation) return;
    if (conversation.isBusy) this.#live.set(conversation.id, conversation);
    else this.#live.delete(conversation.id);
  }

  #changed(conversation: ChatConversation, what: "turn" | "message"): void {
    this.#channel?.postMessage({ conversation: conversation.id, user: this.session.name });
    if (what === "turn") return;
    void this.list.refresh();
    if (this.current !== conversation) this.#live.delete(conversation.id);
    else {
      const last = conversation.state.items.at(-1);
      if (last?.kind !== "answer") return;
      if (last.status === "cancelled") this.announcer.say(t("say.stopped"));
      const text = textOf(last).trim();
      if (last.status === "completed" && text)
        this.announcer.say(t("say.answer", { text: text.slice(0, SPOKEN_CHARS) }));
    }
  }

  #shown({ event }: Received, conversation: ChatConversation): void {
    if (event.type === "tool_start") {
      const focus = touched(event.input);
      if (focus) this.on.touched?.(focus);
    }
    if (this.current !== conversation) return;
    if (event.type === "tool_start")
      this.announcer.say(t("say.tool", { tool: event.tool, state: t("tool.running") }));
    if (event.type === "tool_end")
      this.announcer.say(t("say.tool", { tool: event.tool, state: t("tool.done") }));
    if (event.type === "tool_error")
      this.announcer.say(t("say.tool", { tool: event.tool, state: t("tool.failed") }));
    if (event.type === "confirm_required") {
      for (const call of event.calls) {
        const focus = touched(call.input);
        if (focus) this.on.touched?.(focus);
      }
      this.announcer.alert(t("say.card", { prompt: event.prompt }));
    }
  }

  #told(message: { conversation: string; user: string }): void {
    if (message.user !== this.session.name || !this.session.isReady) return;
    void this.list.refresh();
    if (this.current?.id === message.conversation) void this.current.sync();
  }

  #woken(): void {
    if (document.visibilityState === "hidden" || !this.session.isReady) return;
    if (this.link.state === "offline") this.link.hurry();
    void this.current?.sync();
  }

  #follow(): void {
    if (document.visibilityState === "hidden" || !this.session.isReady || this.link.state !== "online")
      return;
    void this.current?.sync();
  }
}
