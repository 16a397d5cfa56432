import { expect, test } from "vitest";
import { createEventLog } from "../../runtime/adapters/system/event-log.ts";
import { createLogger, type LoggerOptions } from "../../runtime/adapters/system/logger.ts";
import type { JobId } from "../../runtime/core/ids.ts";

function capture(options: Partial<LoggerOptions> = {}) {
  const lines: string[] = [];
  const logger = createLogger({
    level: "debug",
    format: "json",
    colour: false,
    ...options,
    write: (line) => void lines.push(line),
  });
  const objects = () => lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  return { logger, lines, objects };
}

test("a JSON log has one object a line with level, time, message and fields", () => {
  const { logger, lines, objects } = capture();
  logger.child({ worker: "w1" }).info("a\nline", { count: 3 });
  expect(lines).toHaveLength(1);
  expect(lines[0]?.indexOf("\n")).toBe((lines[0]?.length ?? 0) - 1);
  expect(objects()[0]).toMatchObject({ level: "info", msg: "a\nline", worker: "w1", count: 3 });
  expect(objects()[0]?.time).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
});

test("lines below the level are not written", () => {
  const { logger, lines } = capture({ level: "warn" });
  logger.info("quiet");
  logger.warn("loud");
  expect(lines).toHaveLength(1);
});

test.each([
  ["postgresql://turno:hunter2@db/turno", "hunter2"],
  ["amqp://user:p%40ss@broker:5672/", "p%40ss"],
  ["postgres://u:p@ss@w0rd@host/db", "ss@w0rd"],
  ["Endpoint=sb://x;SharedAccessKeyName=k;SharedAccessKey=abc123=;", "abc123"],
  ["host=db password=hunter2 user=x", "hunter2"],
  ["host=db password='hunter 2' user=x", "hunter 2"],
  ["Authorization: Bearer eyJhbGciOi.abc", "eyJhbGciOi"],
  ["X-Turno-Key: 0123456789abcdef", "0123456789abcdef"],
  ["GET /hooks/x?token=s3cr3t&a=1", "s3cr3t"],
])("the secret in %j is not shown, neither in the message nor in a field, an error or its cause", (text, secret) => {
  for (const format of ["json", "text"] as const) {
    const { logger, lines } = capture({ format });
    logger.error(text, { note: text, deep: [{ text }], error: new Error(text, { cause: new Error(text) }) });
    logger.child({ text }).info("child");
    expect(lines.join("")).not.toContain(secret);
    expect(lines.join("")).toContain("***");
  }
});

test("fields named like secrets are not shown, whatever their value, and Turno's own tokens are", () => {
  const { logger, objects } = capture();
  logger.info("x", {
    password: "a",
    apiKey: { a: 1 },
    smtp: { pass: "b" },
    dispatchToken: 7n,
    concurrencyKey: "k",
    idempotencyKey: "i",
  });
  expect(objects()[0]).toMatchObject({
    password: "***",
    apiKey: "***",
    smtp: { pass: "***" },
    dispatchToken: "7",
    concurrencyKey: "k",
    idempotencyKey: "i",
  });
});

test("values that JSON cannot carry, cycles and throwing accessors do not lose the line", () => {
  const { logger, objects } = capture();
  const cycle: Record<string, unknown> = { name: "c" };
  cycle.self = cycle;
  const hostile = Object.defineProperty({}, "trap", {
    enumerable: true,
    get: () => {
      throw new Error("no");
    },
  });
  logger.info("odd", { big: 2n ** 70n, cycle, when: new Date(0), never: undefined });
  logger.info("hostile", { hostile });
  expect(objects()[0]).toMatchObject({
    big: String(2n ** 70n),
    cycle: { name: "c" },
    when: "1970-01-01T00:00:00.000Z",
  });
  expect(objects()[1]).toMatchObject({ msg: "hostile" });
});

test("a text line holds the time, the level, the message and its fields, and an error's stack below", () => {
  const { logger, lines } = capture({ format: "text" });
  logger.warn("slow", { ms: 12, name: "two words", error: new Error("broken") });
  expect(lines[0]).toMatch(
    /^\d\d:\d\d:\d\d warn {2}slow {2}ms=12 {2}name="two words" {2}error=broken\n {4}Error: broken\n/,
  );
});

test("control characters of a logged text do not reach the terminal", () => {
  const { logger, lines } = capture({ format: "text" });
  logger.info("\u001b[2Jcleared", { field: "\u009b31m\r" });
  expect(lines[0]?.trimEnd()).not.toMatch(/\p{Cc}/u);
});

test("colour appears only when asked for", () => {
  const plain = capture({ format: "text" });
  const coloured = capture({ format: "text", colour: true });
  plain.logger.info("x");
  coloured.logger.info("x");
  expect(plain.lines[0]).not.toContain("\u001b[");
  expect(coloured.lines[0]).toContain("\u001b[");
});

test("engine events become log lines: a refused result and a failed job as warnings, a good one quietly", () => {
  const { logger, objects } = capture();
  const log = createEventLog(logger);
  const jobId = "019" as JobId;
  log.observe({ kind: "fenced", jobId, type: "t", outcome: "succeeded" });
  log.observe({ kind: "job-finished", jobId, type: "t", outcome: "failed", ranMs: 3, error: "boom" });
  log.observe({ kind: "job-finished", jobId, type: "t", outcome: "succeeded", ranMs: 3, error: null });
  expect(objects().map(({ level }) => level)).toEqual(["warn", "warn", "debug"]);
  expect(objects()[0]).toMatchObject({ jobId: "019", type: "t", outcome: "succeeded" });
});
