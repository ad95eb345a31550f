// The time, for what ticks on the screen. It stands still while nothing needs it.
class Clock {
  now = $state(Date.now());
  #users = 0;
  #timer: ReturnType<typeof setInterval> | undefined;

  /** Ticks until the returned function is called. */
  run(): () => void {
    this.now = Date.now();
    this.#users += 1;
    this.#timer ??= setInterval(() => (this.now = Date.now()), 500);
    return () => {
      this.#users -= 1;
      if (this.#users > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
    };
  }
}

export const clock = new Clock();
