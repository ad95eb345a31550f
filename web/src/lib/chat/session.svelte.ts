// Who is signed in. The host owns the token; the chat only asks for it and says when it no longer works.
export interface Host {
  /** Where `/api/...` is, e.g. `https://reports.example.org`. */
  origin: string;
  /** Path of the Gradio protocol below the origin. */
  gradio: string;
  token(): string | null;
  /** Lets the person sign in: leave for a login page, or show one and call `Session.renewed()`. */
  signIn(reason: "needed" | "expired"): void;
  signOut?(): void;
}

export class Session {
  /** Set while nobody is signed in. */
  missing = $state<"needed" | "expired" | null>(null);
  /** Grows with every sign-in. */
  generation = $state(0);
  name = $state("");

  constructor(readonly host: Host) {
    this.renewed();
  }

  get token(): string | null {
    return this.host.token();
  }

  get isReady(): boolean {
    return this.missing === null;
  }

  /** The host has a token, another one than before perhaps. */
  renewed(): void {
    const token = this.token;
    this.missing = token ? null : "needed";
    this.name = token ? nameIn(token) : "";
    this.generation += 1;
  }

  /** The server didn't take the token. */
  expired(): void {
    if (this.missing) return;
    this.missing = "expired";
    this.host.signIn("expired");
  }

  require(): void {
    if (this.missing) this.host.signIn(this.missing);
  }
}

/** For display only: nothing here trusts a token. */
function nameIn(token: string): string {
  try {
    const body = token.split(".")[1] ?? "";
    const bytes = Uint8Array.from(atob(body.replace(/-/g, "+").replace(/_/g, "/")), (char) =>
      char.charCodeAt(0),
    );
    const claims = JSON.parse(new TextDecoder().decode(bytes)) as Record<string, unknown>;
    return String(claims["name"] ?? claims["sub"] ?? "");
  } catch {
    return "";
  }
}
