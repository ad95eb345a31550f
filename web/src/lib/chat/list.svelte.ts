// The list of conversations: pages, search, archive.
import type { ConversationView, Rest } from "../transport/rest";
import { RestError } from "../transport/rest";
import type { Session } from "./session.svelte";

const PAGE = 30;
const TYPING_MS = 200;

export class ConversationList {
  items = $state.raw<readonly ConversationView[]>([]);
  total = $state(0);
  search = $state("");
  isArchive = $state(false);
  phase = $state<"loading" | "ready" | "failed">("loading");
  hasMore = $state(false);
  isLoadingMore = $state(false);

  #cursor: string | null = null;
  #generation = 0;
  #typing: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly rest: Rest,
    private readonly session: Session,
  ) {}

  /** From the top. What is shown stays until the answer is there. */
  async refresh(): Promise<void> {
    const generation = ++this.#generation;
    try {
      const page = await this.#page(null, Math.min(100, Math.max(PAGE, this.items.length)));
      if (generation !== this.#generation) return;
      this.items = page.items;
      this.#took(page);
      this.phase = "ready";
    } catch (error) {
      if (generation !== this.#generation) return;
      if (error instanceof RestError && error.status === 401) this.session.expired();
      this.phase = this.items.length ? "ready" : "failed";
    }
  }

  async more(): Promise<void> {
    if (this.isLoadingMore || this.#cursor === null) return;
    this.isLoadingMore = true;
    const generation = this.#generation;
    try {
      const page = await this.#page(this.#cursor, PAGE);
      if (generation !== this.#generation) return;
      const known = new Set(this.items.map((item) => item.id));
      this.items = [...this.items, ...page.items.filter((item) => !known.has(item.id))];
      this.#took(page);
    } catch {
      // The next scroll tries again.
    } finally {
      this.isLoadingMore = false;
    }
  }

  find(search: string): void {
    this.search = search;
    // What is shown is not yet the answer: no count of it is told.
    this.phase = "loading";
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => void this.#afresh(), TYPING_MS);
  }

  async show(archive: boolean): Promise<void> {
    this.isArchive = archive;
    this.search = "";
    this.items = [];
    this.phase = "loading";
    await this.#afresh();
  }

  async rename(id: string, title: string): Promise<void> {
    const before = this.items;
    this.items = this.items.map((item) => (item.id === id ? { ...item, title } : item));
    try {
      const renamed = await this.rest.rename(id, title);
      this.items = this.items.map((item) => (item.id === id ? renamed : item));
    } catch {
      this.items = before;
    }
  }

  async archive(id: string): Promise<void> {
    await this.rest.archive(id);
    this.#without(id);
  }

  async unarchive(id: string): Promise<ConversationView> {
    const view = await this.rest.unarchive(id);
    if (this.isArchive) this.#without(id);
    else await this.refresh();
    return view;
  }

  #afresh(): Promise<void> {
    this.items = this.items.slice(0, PAGE);
    return this.refresh();
  }

  #without(id: string): void {
    this.items = this.items.filter((item) => item.id !== id);
    this.total = Math.max(0, this.total - 1);
  }

  #page(cursor: string | null, limit: number) {
    return this.rest.list({ search: this.search, archived: this.isArchive, cursor, limit });
  }

  #took(page: { next_cursor: string | null; total: number }): void {
    this.#cursor = page.next_cursor;
    this.hasMore = page.next_cursor !== null;
    this.total = page.total;
  }
}
