import { expect, test } from "vitest";
import { whatWentWrong } from "../../runtime/adapters/embedded/data-folder.ts";

test("of what initdb tells, the lines that say what is wrong are shown", () => {
  const full = [
    "creating configuration files ... ok",
    'performing post-bootstrap initialization ... 2026-11-30 [1] FATAL:  could not write to file "base/4/1249": No space left on device',
    "child process exited with exit code 1",
    "initdb: removing contents of data directory",
  ].join("\n");
  expect(whatWentWrong(full)).toMatch(/^performing.*No space left on device$/);
  expect(whatWentWrong('creating\ninitdb: error: could not create directory "x": Permission denied\n')).toBe(
    'initdb: error: could not create directory "x": Permission denied',
  );
  expect(whatWentWrong("a\nb\nc\nd\n")).toBe("b; c; d");
});
