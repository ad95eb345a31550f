// What a screen reader is told: answers, cards and tools, never tokens.
export class Announcer {
  polite = $state("");
  urgent = $state("");

  say(text: string): void {
    // The same text twice is read twice only if it differs.
    this.polite = this.polite === text ? `${text}\u00a0` : text;
  }

  alert(text: string): void {
    this.urgent = this.urgent === text ? `${text}\u00a0` : text;
  }
}
