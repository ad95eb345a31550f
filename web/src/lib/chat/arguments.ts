// A call's input on one line.
import type { Json } from "../contract/event";

export function argumentsText(input: Json): string {
  if (typeof input !== "object" || input === null || Array.isArray(input)) return "";
  const shown = (value: Json) => (typeof value === "string" ? value : JSON.stringify(value));
  return Object.entries(input)
    .map(([key, value]) => `${key}: ${shown(value)}`)
    .join(", ");
}
