// What this browser remembers. It may be forbidden to: then nothing is remembered.
const PREFIX = "agentchat:";

export function recall(key: string): string | null {
  try {
    return localStorage.getItem(PREFIX + key);
  } catch {
    return null;
  }
}

export function remember(key: string, value: string | null): void {
  try {
    if (value === null || value === "") localStorage.removeItem(PREFIX + key);
    else localStorage.setItem(PREFIX + key, value);
  } catch {
    // A full or forbidden storage loses a convenience only.
  }
}
