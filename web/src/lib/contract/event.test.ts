// The golden files of shared/contract/fixtures, wrapped as a gateway wraps them.
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { isAfter, parse, type Event } from "./event";

const folder = new URL("../../../../shared/contract/fixtures/", import.meta.url);
const read = (name: string) => JSON.parse(readFileSync(new URL(name, folder), "utf8"));
const files = readdirSync(new URL("event/", folder)).sort();

const omit = (data: Record<string, unknown>, ...keys: string[]) =>
  Object.fromEntries(Object.entries(data).filter(([key]) => !keys.includes(key)));

/** Told to gateways only. */
const INTERNAL = ["queued", "attempt", "session"];

function wrapped(fixture: { type: string; data: Record<string, unknown> }) {
  const place = { cursor: "4711", conversation_id: "conv", thread_id: "conv" };
  if (fixture.type === "message")
    return { role: "assistant", content: fixture.data["content"], metadata: place };
  const { extra, ...data } = omit(fixture.data, "text");
  const facts = { ...data, ...(extra as object | undefined) };
  const retry = fixture.type === "error" ? { retryable: true } : {};
  return { role: "assistant", content: "", metadata: { type: fixture.type, ...facts, ...retry, ...place } };
}

/** What the union must hold of a fixture: every documented field, under its documented name. */
function expected(fixture: { type: string; data: Record<string, unknown> }): Record<string, unknown> {
  const data = omit(fixture.data, "thread_id", "text");
  if (fixture.type === "error") return { type: "error", retryable: true, extra: {}, ...data };
  return { type: fixture.type, ...data };
}

describe("the event union", () => {
  for (const file of files) {
    const fixture = read(`event/${file}`);
    test(file, () => {
      const { event, cursor, conversation_id } = parse(wrapped(fixture));
      expect(cursor).toBe("4711");
      expect(conversation_id).toBe("conv");
      const known: Event["type"] = event.type;
      if (INTERNAL.includes(fixture.type)) expect(event).toEqual({ type: "unknown", name: fixture.type });
      else {
        expect(known).toBe(fixture.type);
        expect(event).toEqual(expected(fixture));
      }
    });
  }

  test("knows the closing message by its turn", () => {
    const value = { role: "assistant", content: "Привет", metadata: { turn_id: "t", status: "cancelled" } };
    expect(parse(value).event).toEqual({
      type: "message",
      content: "Привет",
      turn_id: "t",
      status: "cancelled",
    });
  });

  test("survives what makes no sense", () => {
    expect(parse(null).event).toEqual({ type: "message", content: "" });
    expect(parse({ metadata: { type: "hologram", x: 1 } }).event).toEqual({
      type: "unknown",
      name: "hologram",
    });
    expect(parse({ metadata: { type: "confirm_required", calls: 3 } }).event).toMatchObject({ calls: [] });
    expect(parse({ metadata: { type: "stream_token" } }).event).toEqual({ type: "stream_token", token: "" });
  });

  test("orders cursors as numbers", () => {
    expect(isAfter("10", "9")).toBe(true);
    expect(isAfter("9", "10")).toBe(false);
    expect(isAfter("9", "9")).toBe(false);
    expect(isAfter("9007199254740993", "9007199254740992")).toBe(true);
  });
});
