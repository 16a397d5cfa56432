import { expect, test } from "vitest";
import { compileGlobs, describeBadGlob } from "../../runtime/core/glob.ts";

test.each([
  ["turno.d/**/*.yaml", "turno.d/a.yaml", true],
  ["turno.d/**/*.yaml", "turno.d/x/y/a.yaml", true],
  ["turno.d/**/*.yaml", "turno.d/a.yml", false],
  ["turno.d/**/*.yaml", "other/turno.d/a.yaml", false],
  ["./turno.d/*.yaml", "turno.d/a.yaml", true],
  ["turno.d/*.yaml", "turno.d/x/a.yaml", false],
  ["turno.d/**", "turno.d/x/a.yaml", true],
  ["turno.d/**", "turno.d", false],
  ["**/*.yaml", "a.yaml", true],
  ["*.{yaml,yml}", "a.yml", true],
  ["{a,b/c}/*.yaml", "b/c/x.yaml", true],
  ["a?.yaml", "ab.yaml", true],
  ["a?.yaml", "a.yaml", false],
  ["[a-c]1.yaml", "b1.yaml", true],
  ["[!a-c]1.yaml", "b1.yaml", false],
  ["a+b.yaml", "aab.yaml", false],
  ["a.yaml", "axyaml", false],
  ["turno.d/**/*.yaml", "turno.dx/a.yaml", false],
  ["*.yaml", "x/a.yaml", false],
  ["**", "x/a.yaml", true],
  ["a?.yaml", "a/.yaml", false],
  ["a+(b).yaml", "a+(b).yaml", true],
])("%s and %s: %s", (pattern, path, expected) => {
  expect(compileGlobs([pattern]).matches(path)).toBe(expected);
});

test.each([
  ["turno.d/**/*.yaml", ["turno.d"]],
  ["*.yaml", [""]],
  ["a/b/c.yaml", ["a/b"]],
  ["{a,b/c}/*.yaml", ["a", "b/c"]],
  ["./a/[bc]/*.yaml", ["a"]],
])("%s is looked for below %j", (pattern, bases) => {
  expect(compileGlobs([pattern]).bases).toEqual(bases);
});

test("patterns that leave the project's folder are refused and match nothing", () => {
  for (const pattern of [
    "../x.yaml",
    "a/../../x.yaml",
    "/etc/*.yaml",
    "C:/x.yaml",
    "a\\b.yaml",
    "{a,b}".repeat(10),
    "{a,..}/x.yaml",
    "{/etc,a}/x.yaml",
  ]) {
    expect(describeBadGlob(pattern)).not.toBeNull();
    expect(compileGlobs([pattern]).matches("x.yaml")).toBe(false);
  }
});

test("a pattern of many stars is matched in time that grows with its length only", () => {
  const path = `${"a".repeat(250)}/${"a/".repeat(100)}b`;
  const before = performance.now();
  expect(compileGlobs([`${"*a".repeat(100)}c/${"**/".repeat(60)}c`]).matches(path)).toBe(false);
  expect(performance.now() - before).toBeLessThan(1_000);
});
