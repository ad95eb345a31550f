import { describe, expect, test } from "vitest";
import { FILE_BYTES, refusal } from "./files";
import { plainTitle, splitFocus, touched, withFocus } from "./focus";

describe("files", () => {
  const file = (name: string, type = "", size = 1) => ({ name, type, size });
  test("of the six kinds pass, up to the last byte", () => {
    for (const name of ["a.pdf", "a.XLSX", "a.json", "a.csv", "a.png", "a.jpg", "a.jpeg"])
      expect(refusal(file(name), 0)).toBeNull();
    expect(refusal(file("a.pdf", "application/pdf", FILE_BYTES), 4)).toBeNull();
    expect(refusal(file("", "image/png"), 0)).toBeNull();
  });
  test("of other kinds, too large, empty or too many don't", () => {
    for (const name of ["a.exe", "a.zip", "pdf", "a.pdf.exe", ""])
      expect(refusal(file(name), 0)).toBe("FILE_TYPE");
    expect(refusal(file("a.pdf", "application/zip"), 0)).toBe("FILE_TYPE");
    expect(refusal(file("a.pdf", "", FILE_BYTES + 1), 0)).toBe("FILE_TOO_LARGE");
    expect(refusal(file("a.pdf", "", 1001), 0, 1000)).toBe("FILE_TOO_LARGE");
    expect(refusal(file("a.pdf", "", 0), 0)).toBe("FILE_EMPTY");
    expect(refusal(file("a.pdf"), 5)).toBe("TOO_MANY_FILES");
  });
});

describe("focus", () => {
  test("travels with a message and is read back", () => {
    for (const focus of [
      { type: "dashboard", id: "42", title: "Обзор продаж" },
      { type: "task", id: "task-3" },
    ])
      expect(splitFocus(withFocus("deploy it", focus))).toEqual({ text: "deploy it", focus });
    expect(withFocus("x", null)).toBe("x");
    expect(withFocus("x", { type: "Not a type", id: "1" })).toBe("x");
    expect(splitFocus("a [b]")).toEqual({ text: "a [b]", focus: null });
  });
  test("leaves titles that the server made of it", () => {
    for (const title of [
      "deploy [dashboard 42",
      'deploy [dashboard 42 "Sales overview"]',
      'deploy [dashboard 42 "Sal…',
    ])
      expect(plainTitle(title)).toBe("deploy");
    for (const title of ["fix [urgent]", "a [b] c", ""]) expect(plainTitle(title)).toBe(title);
  });
  test("of the agent is what its call names", () => {
    expect(touched({ query: "x", dashboard_id: 42 })).toEqual({ type: "dashboard", id: "42" });
    expect(touched({ dashboard_ids: ["7", "8"] })).toEqual({ type: "dashboard", id: "7" });
    expect(touched({ id: "1" })).toBeNull();
    expect(touched({ dashboard_id: "" })).toBeNull();
    expect(touched([1])).toBeNull();
  });
});
