import type { Tokens } from "marked";
import { describe, expect, test } from "vitest";
import { grow, mend, nothing, safeHref, type Parsed } from "./blocks";

const document = `# Отчёт

Нашёл **два** дашборда, \`orders\` сломан.
Вторая строка.

| id | title |
|----|-------|
| 42 | Обзор |

- раз
- два
  - вложенный

1. первый
2. второй

\`\`\`sql
select 1;

select 2;
\`\`\`

> цитата

Конец <b>тег</b>.
`;

const shape = (parsed: Parsed) =>
  [...parsed.settled, ...parsed.tail].map(({ token }) => [token.type, token.raw.trim()]);

test("growing letter by letter gives what the whole text gives", () => {
  const whole = shape(grow(nothing, document, false));
  let parsed = nothing;
  for (let length = 1; length <= document.length; length++)
    parsed = grow(parsed, document.slice(0, length), true);
  parsed = grow(parsed, document, false);
  expect(shape(parsed)).toEqual(whole);
  expect(whole.map(([type]) => type)).toEqual([
    "heading",
    "paragraph",
    "table",
    "list",
    "list",
    "code",
    "blockquote",
    "paragraph",
  ]);
});

test("finished blocks are the same objects for ever", () => {
  let parsed = nothing;
  for (let length = 1; length <= document.length; length++) {
    const next = grow(parsed, document.slice(0, length), true);
    for (const [index, block] of parsed.settled.entries()) expect(next.settled[index]).toBe(block);
    const keys = [...next.settled, ...next.tail].map((block) => block.key);
    expect(keys).toEqual(keys.map((_, index) => index));
    parsed = next;
  }
});

test("text that changed before its end is parsed anew", () => {
  const first = grow(nothing, "one\n\ntwo\n\nthree", true);
  expect(shape(grow(first, "one\n\n2\n\nthree", true))).toEqual([
    ["paragraph", "one"],
    ["paragraph", "2"],
    ["paragraph", "three"],
  ]);
  expect(shape(grow(first, "one", true))).toEqual([["paragraph", "one"]]);
});

test("a paragraph or a list without end is cut, and nothing of it is lost", () => {
  const long = "слово за словом. ".repeat(2000);
  let parsed = nothing;
  for (let length = 500; length <= long.length; length += 500)
    parsed = grow(parsed, long.slice(0, length), true);
  const blocks = [...parsed.settled, ...parsed.tail];
  expect(blocks.length).toBeGreaterThan(5);
  expect(Math.max(...blocks.map((block) => block.token.raw.length))).toBeLessThan(4000);
  expect(
    blocks
      .map((block) => block.token.raw)
      .join("")
      .trimEnd(),
  ).toBe(grow(parsed, long, false).text.slice(0, parsed.text.length).trimEnd());
  const list = Array.from({ length: 200 }, (_, index) => `${index + 1}. item ${index + 1}\n`).join("");
  const cut = grow(nothing, list, false);
  const lists = [...cut.settled, ...cut.tail].map((block) => block.token as Tokens.List);
  expect(lists.flatMap((one) => one.items.map((item) => item.text))).toEqual(
    Array.from({ length: 200 }, (_, index) => `item ${index + 1}`),
  );
  expect(lists.map((one) => one.start).slice(0, 3)).toEqual([1, 31, 61]);
});

test("raw HTML stays text", () => {
  const tokens = grow(nothing, "<script>alert(1)</script>\n\nhi <img src=x onerror=alert(1)>", false);
  expect(shape(tokens).map(([type]) => type)).toContain("html");
});

describe("what is being written", () => {
  const cases: [string, string][] = [
    ["a **bold", "a **bold**"],
    ["a **bold*", "a **bold**"],
    ["a **", "a "],
    ["a **b** c", "a **b** c"],
    ["see `code", "see `code`"],
    ["see `", "see "],
    ["see [name](https://ex", "see name"],
    ["see [nam", "see nam"],
    ["x\n\n| a | b |", "x\n"],
    ["x\n\n| a | b |\n|---|---|\n| 1 |", "x\n\n| a | b |\n|---|---|\n| 1 |"],
    ["x\n\n| a | b |\n|---|---|\n| 1 | 2", "x\n\n| a | b |\n|---|---|"],
    ["Title\n-", "Title"],
    ["Title\n=", "Title"],
    ["- a\n- ", "- a"],
    ["```\na **b", "```\na **b"],
    ["~~gone", "~~gone~~"],
  ];
  for (const [source, mended] of cases) test(JSON.stringify(source), () => expect(mend(source)).toBe(mended));
});

test("links lead to the web, to mail or within this site only", () => {
  for (const href of ["https://a.b/c", "HTTP://a", "mailto:a@b", "/dashboards/42", "#part"])
    expect(safeHref(href)).toBe(href);
  for (const href of [
    "javascript:alert(1)",
    "java\nscript:alert(1)",
    " javascript:x",
    "data:text/html,x",
    "//evil",
    "/\\evil",
    "vbscript:x",
    "x",
  ])
    expect(safeHref(href)).toBeNull();
});
