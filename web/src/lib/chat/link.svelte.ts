// Whether the gateway can be reached, and the five tries, five seconds apart, of getting there again.
export type LinkState = "online" | "connecting" | "retrying" | "offline";

export const ATTEMPTS = 5;
export const PAUSE_MS = 5000;

export class Link {
  state = $state<LinkState>("connecting");
  attempt = $state(0);
  #wake: (() => void) | null = null;
  #running: Promise<boolean> | null = null;
  #waiting = new Set<() => void>();

  constructor(private readonly probe: () => Promise<unknown>) {}

  /** Something came through. */
  heard(): void {
    if (this.#running) return;
    this.state = "online";
    this.#release();
  }

  /** Resolves once the gateway answers again, however long that takes. */
  async restored(): Promise<void> {
    const back = new Promise<void>((resolve) => this.#waiting.add(resolve));
    void this.reconnect();
    await back;
  }

  /** One series of tries; false if none of them came through. */
  reconnect(): Promise<boolean> {
    this.#running ??= this.#series().finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  /** Don't wait for the next try. */
  hurry(): void {
    if (this.#running) this.#wake?.();
    else if (this.state !== "online") void this.reconnect();
  }

  /** The browser knows that there is no network. */
  cut(): void {
    if (this.state === "online") void this.reconnect();
  }

  async #series(): Promise<boolean> {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      this.state = "retrying";
      this.attempt = attempt;
      try {
        await this.probe();
        this.state = "online";
        this.#release();
        return true;
      } catch {
        if (attempt < ATTEMPTS) await this.#pause();
      }
    }
    this.state = "offline";
    return false;
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, PAUSE_MS);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #release(): void {
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }
}
