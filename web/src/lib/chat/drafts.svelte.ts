// What was typed and not sent, per person and conversation. Nothing that comes back is ever sent by itself.
import type { FileView } from "./model";
import { recall, remember } from "./storage";

export class Drafts {
  /** Grows when text is put into the field from outside. */
  version = $state(0);
  #files = new Map<string, readonly FileView[]>();

  constructor(private readonly user: () => string) {}

  read(conversation: string, isNew: boolean): string {
    return recall(this.#key(conversation, isNew)) ?? "";
  }

  write(conversation: string, isNew: boolean, text: string): void {
    remember(this.#key(conversation, isNew), text);
  }

  giveBack(conversation: string, text: string, files: readonly FileView[]): void {
    const written = this.read(conversation, false);
    this.write(conversation, false, written && written !== text ? `${text}\n${written}` : text);
    this.#files.set(conversation, files);
    this.version += 1;
  }

  takeFiles(conversation: string): readonly FileView[] {
    const files = this.#files.get(conversation) ?? [];
    this.#files.delete(conversation);
    return files;
  }

  /** A new conversation has no id that a reload would know. */
  #key(conversation: string, isNew: boolean): string {
    return `draft:${this.user()}:${isNew ? "new" : conversation}`;
  }
}
