import { expect, test } from "vitest";
import { toItems, type Results, type StoredMessage } from "./history";
import type { AnswerItem } from "./model";

let id = 0;
const message = (more: Partial<StoredMessage>): StoredMessage => ({
  id: ++id,
  turn_id: "t",
  role: "assistant",
  content: "",
  finish: "completed",
  parts: null,
  files: [],
  created_at: "2026-11-30T12:00:00Z",
  ...more,
});
const call = (name: string, tool = "deploy_dashboard") => ({ id: name, name: tool, arguments: { id: "42" } });
const result = (name: string, content: object | string) => ({
  role: "tool",
  tool_call_id: name,
  content: typeof content === "string" ? content : JSON.stringify(content),
});
const kinds = (item: unknown) =>
  (item as AnswerItem).parts.map((part) =>
    part.kind === "text"
      ? part.text
      : part.kind === "tool"
        ? `${part.tool} ${part.state}`
        : `${part.kind} ${part.kind === "card" ? part.state : ""}`,
  );

test("steps become text and tools in their order", () => {
  const stored = message({
    content: "Let me look. \n\nFound.",
    parts: [
      { role: "assistant", content: "Let me look. ", tool_calls: [call("a", "search"), call("b", "health")] },
      result("a", { items: [] }),
      result("b", { error: "TOOL_FAILURE", message: "HTTP 500" }),
      { role: "assistant", content: "Found." },
    ],
  });
  const [item] = toItems([stored], new Map());
  expect(kinds(item)).toEqual(["Let me look. ", "search done", "health failed", "Found."]);
  expect(item).toMatchObject({
    parts: [{}, { output: { items: [] } }, { code: "TOOL_FAILURE", error: "HTTP 500" }, {}],
  });
});

const asked = () =>
  message({ finish: "interrupted", parts: [{ role: "assistant", content: "", tool_calls: [call("c")] }] });

test("a call that was decided in the next turn is a card", () => {
  const confirmed = message({
    content: "Done.",
    parts: [result("c", { deployment_id: "d" }), { role: "assistant", content: "Done." }],
  });
  expect(toItems([asked(), confirmed], new Map()).map(kinds)).toEqual([
    ["card confirmed", "deploy_dashboard done"],
    ["Done."],
  ]);
  const denied = message({
    content: "",
    parts: [result("c", { error: "DENIED", message: "", user_reason: "not now" })],
  });
  const [card] = toItems([asked(), denied], new Map());
  expect(card).toMatchObject({ parts: [{ kind: "card", state: "denied", reason: "not now" }] });
});

test("the decision may be on a newer page", () => {
  const results: Results = new Map();
  toItems([message({ parts: [result("c", { deployment_id: "d" })] })], results);
  expect(kinds(toItems([asked()], results)[0])).toEqual(["card confirmed", "deploy_dashboard done"]);
  expect(kinds(toItems([asked()], new Map())[0])).toEqual(["card unknown"]);
});

test("the stored text wins over steps that say something else", () => {
  const stored = message({
    content: "Cut here",
    finish: "cancelled",
    parts: [{ role: "assistant", content: "Cut" }],
  });
  expect(kinds(toItems([stored], new Map())[0])).toEqual(["Cut here"]);
});

test("an old client's message has neither turn nor steps", () => {
  const [user, answer] = toItems(
    [message({ role: "user", content: "q", finish: null }), message({ content: "a", turn_id: null })],
    new Map(),
  );
  expect(user).toMatchObject({ kind: "user", text: "q" });
  expect(kinds(answer)).toEqual(["a"]);
});
