// Keeps the end in view while text comes, until the reader scrolls away; then never again by itself.
const NEAR_PX = 48;

export class Follow {
  isAtEnd = $state(true);
  #scroller: HTMLElement | null = null;
  #isFollowing = true;
  #lastTop = 0;
  #lastHeight = 0;

  watch(scroller: HTMLElement, column: HTMLElement): () => void {
    this.#scroller = scroller;
    const stop = new AbortController();
    const { signal } = stop;
    scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true, signal });
    scroller.addEventListener("wheel", (event) => event.deltaY < 0 && this.#release(), {
      passive: true,
      signal,
    });
    scroller.addEventListener(
      "keydown",
      (event) => ["PageUp", "Home", "ArrowUp"].includes(event.key) && this.#release(),
      { signal },
    );
    const sizes = new ResizeObserver(() => this.#resized());
    sizes.observe(column);
    sizes.observe(scroller);
    return () => {
      stop.abort();
      sizes.disconnect();
    };
  }

  jump(): void {
    this.#isFollowing = true;
    this.#toEnd();
  }

  #release(): void {
    const scroller = this.#scroller;
    if (scroller && scroller.scrollHeight > scroller.clientHeight) this.#isFollowing = false;
  }

  #scrolled(): void {
    const scroller = this.#scroller;
    if (!scroller) return;
    const top = scroller.scrollTop;
    const isNear = this.#distance() < NEAR_PX;
    // Content that shrinks moves the position, too; that is not the reader.
    if (top < this.#lastTop - 2 && scroller.scrollHeight >= this.#lastHeight && !isNear)
      this.#isFollowing = false;
    if (isNear && top >= this.#lastTop) this.#isFollowing = true;
    this.#lastTop = top;
    this.#lastHeight = scroller.scrollHeight;
    this.isAtEnd = isNear || this.#isFollowing;
  }

  #resized(): void {
    if (this.#isFollowing) this.#toEnd();
    else this.isAtEnd = this.#distance() < NEAR_PX;
  }

  #toEnd(): void {
    const scroller = this.#scroller;
    if (!scroller) return;
    scroller.scrollTop = scroller.scrollHeight;
    this.#lastTop = scroller.scrollTop;
    this.#lastHeight = scroller.scrollHeight;
    this.isAtEnd = true;
  }

  #distance(): number {
    const scroller = this.#scroller;
    return scroller ? scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight : 0;
  }
}
