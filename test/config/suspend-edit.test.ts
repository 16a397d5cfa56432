import { describe, expect, it } from "vitest";
import { suspendInText } from "../../runtime/config/suspend-edit.ts";

const HEAD = "kind: Schedule\nmetadata: { name: s }\n";
const TARGET = { kind: "Schedule", name: "s" };

function edited(text: string): string | null {
  const edit = suspendInText(text, TARGET);
  return edit.kind === "edited" ? edit.text : null;
}

describe("suspending in a file's text", () => {
  it.each([
    ["a block", `${HEAD}spec:\n  # why\n  job: a # one\n`, `${HEAD}spec:\n  suspend: true\n  # why\n  job: a # one\n`],
    ["a line", `${HEAD}spec: { job: a } # one\n`, `${HEAD}spec: { suspend: true, job: a } # one\n`],
    ["an empty mapping", `${HEAD}spec: {}\n`, `${HEAD}spec: { suspend: true }\n`],
    ["a false one", `${HEAD}spec:\n  suspend: false # now\n`, `${HEAD}spec:\n  suspend: true # now\n`],
    ["no end of line", `${HEAD}spec:\n  job: a`, `${HEAD}spec:\n  suspend: true\n  job: a`],
    ["no spec", HEAD, `${HEAD}spec: { suspend: true }\n`],
    ["no spec and no end of line", HEAD.trimEnd(), `${HEAD}spec: { suspend: true }`],
    [
      "a comment beside spec",
      `${HEAD}spec: # here\n    job: a\n`,
      `${HEAD}spec: # here\n    suspend: true\n    job: a\n`,
    ],
  ])("keeps everything else of %s", (_what, before, after) => {
    expect(edited(before)).toBe(after);
  });

  it("keeps the line ends of Windows", () => {
    expect(edited("kind: Schedule\r\nmetadata: { name: s }\r\nspec:\r\n  job: a\r\n")).toBe(
      "kind: Schedule\r\nmetadata: { name: s }\r\nspec:\r\n  suspend: true\r\n  job: a\r\n",
    );
  });

  it("changes the one document among several that declares it", () => {
    const other = "kind: Queue\nmetadata: { name: s }\nspec:\n  concurrency: 1\n";
    expect(edited(`${other}---\n${HEAD}spec:\n  job: a\n---\n${other}`)).toBe(
      `${other}---\n${HEAD}spec:\n  suspend: true\n  job: a\n---\n${other}`,
    );
    expect(edited(`${HEAD}---\n${other}`)).toBe(`${HEAD}spec: { suspend: true }\n---\n${other}`);
  });

  it("tells what is suspended already, and what no line of can be edited alone", () => {
    expect(suspendInText(`${HEAD}spec: { suspend: true }\n`, TARGET).kind).toBe("suspended");
    expect(suspendInText("{ kind: Schedule, metadata: { name: s } }\n", TARGET).kind).toBe("unwritable");
    expect(suspendInText(`x: &a { job: a }\n${HEAD}spec: *a\n`, TARGET).kind).toBe("unwritable");
  });
});
