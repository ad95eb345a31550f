// Files on their way into a message: checked, sent up, shown.
import type { Rest } from "../transport/rest";
import { RestError } from "../transport/rest";
import { FILES_PER_MESSAGE, isImage, refusal } from "./files";
import { sizeText, t } from "../i18n/i18n.svelte";
import type { Key } from "../i18n/translate";
import type { FileView } from "./model";

export class Upload {
  fraction = $state(0);
  state = $state<"sending" | "done" | "failed">("sending");
  view: FileView | null = $state.raw(null);
  readonly preview: string | null;
  readonly key = crypto.randomUUID();
  readonly stop = new AbortController();

  constructor(
    readonly name: string,
    readonly size: number,
    readonly file: File | null,
  ) {
    this.preview = file && isImage({ name, mime: file.type }) ? URL.createObjectURL(file) : null;
  }
}

export class Uploads {
  items = $state.raw<readonly Upload[]>([]);
  problems = $state.raw<readonly string[]>([]);

  constructor(private readonly rest: Rest) {}

  get isSending(): boolean {
    return this.items.some((item) => item.state === "sending");
  }

  get ready(): FileView[] {
    return this.items.flatMap((item) => (item.view ? [item.view] : []));
  }

  add(files: Iterable<File>): void {
    const problems: string[] = [];
    for (const file of files) {
      const named = file.name
        ? file
        : new File([file], `image.${file.type.split("/")[1] ?? "png"}`, { type: file.type });
      const why = refusal(named, this.items.length, this.rest.fileBytes);
      if (why) problems.push(this.#problem(why, named.name));
      else void this.#send(new Upload(named.name, named.size, named));
    }
    this.problems = [...new Set(problems)];
  }

  again(upload: Upload): void {
    if (!upload.file) return;
    this.remove(upload);
    void this.#send(new Upload(upload.name, upload.size, upload.file));
  }

  remove(upload: Upload): void {
    upload.stop.abort();
    if (upload.preview) URL.revokeObjectURL(upload.preview);
    this.items = this.items.filter((item) => item !== upload);
  }

  /** Files that are on the server already. */
  restore(files: readonly FileView[]): void {
    const back = files.map((view) => {
      const upload = new Upload(view.name, view.size, null);
      upload.state = "done";
      upload.view = view;
      return upload;
    });
    this.items = [...this.items, ...back];
  }

  clear(): void {
    for (const item of this.items) if (item.preview) URL.revokeObjectURL(item.preview);
    this.items = [];
    this.problems = [];
  }

  dismiss(): void {
    this.problems = [];
  }

  async #send(upload: Upload): Promise<void> {
    this.items = [...this.items, upload];
    if (!upload.file) return;
    try {
      upload.view = await this.rest.upload(
        upload.file,
        (fraction) => (upload.fraction = fraction),
        upload.stop.signal,
      );
      upload.state = "done";
    } catch (error) {
      if (upload.stop.signal.aborted) return;
      const code = error instanceof RestError ? error.code : "UPLOAD";
      if (code === "FILE_TOO_LARGE" || code === "FILE_TYPE") {
        this.remove(upload);
        // The server has looked inside: it knows better what is wrong.
        const seen = code === "FILE_TYPE" && error instanceof RestError && error.detail;
        this.problems = [
          ...this.problems,
          seen ? `${upload.name}: ${seen}` : this.#problem(code, upload.name),
        ];
      } else upload.state = "failed";
    }
  }

  #problem(code: string, name: string): string {
    const size = sizeText(this.rest.fileBytes);
    return t(`file.problem.${code}` as Key, { name, size, count: FILES_PER_MESSAGE });
  }
}
