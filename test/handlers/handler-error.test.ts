import { describe, expect, onTestFinished, test } from "vitest";
import { isTransient, parseRetryAfter, toHandlerError } from "../../runtime/adapters/handlers/handler-error.ts";
import { PermanentError, RetryAfter, TransientError } from "../../runtime/handler.ts";

describe("anything thrown becomes an error that can be stored", () => {
  test.each([
    ["a text", "boom", "boom"],
    ["undefined", undefined, "the handler threw undefined"],
    ["null", null, "the handler threw null"],
    ["a number", 42, "42"],
    ["an object", { code: 7 }, 'the handler threw an object: {"code":7}'],
    ["an error with NUL", new Error("x\u0000"), "x\ufffd"],
    ["an error without a message", new RangeError(), "RangeError"],
    ["a Proxy whose traps throw", hostile(), "(an error whose text cannot be read)"],
    ["a symbol", Symbol("s"), "Symbol(s)"],
  ])("%s", (_, thrown, message) => {
    expect(toHandlerError(thrown)).toMatchObject({ message, permanent: false, retryAfterMs: null });
  });

  test("causes are part of the stack, and a cycle of causes ends", () => {
    const inner = new Error("inner");
    const outer = new Error("outer", { cause: inner });
    inner.cause = outer;
    const { stack } = toHandlerError(outer);
    expect(stack).toContain("Error: outer");
    expect(stack?.match(/caused by: Error: inner/g)).toHaveLength(1);
  });

  test("a stack is kept up to 16 KiB, a message up to 8 KiB", () => {
    const error = toHandlerError(new Error("m".repeat(1_000_000)));
    expect(Buffer.byteLength(error.stack ?? "")).toBeLessThanOrEqual(16 * 1024);
    expect(Buffer.byteLength(error.message)).toBeLessThanOrEqual(8 * 1024);
  });

  test("PermanentError and RetryAfter say what comes next, also from another copy of their class", () => {
    expect(toHandlerError(new PermanentError("no")).permanent).toBe(true);
    expect(toHandlerError({ turnoOutcome: "permanent" }).permanent).toBe(true);
    expect(toHandlerError(new RetryAfter("120")).retryAfterMs).toBe(120_000);
  });
});

describe("Retry-After (H05)", () => {
  const now = Date.parse("2026-10-21T07:20:00Z");
  test.each([
    [120_000, 120_000],
    ["120", 120_000],
    [" 1 ", 1_000],
    ["2m", 120_000],
    ["Wed, 21 Oct 2026 07:28:00 GMT", 480_000],
    ["Wednesday, 21-Oct-26 07:28:00 GMT", 480_000],
    ["Wed Oct 21 07:28:00 2026", 480_000],
    ["315360000", 400 * 86_400_000],
    [10 * 365 * 86_400_000, 400 * 86_400_000],
    ["99999999999999999999", 400 * 86_400_000],
    [-5, null],
    ["-5", null],
    [0, null],
    ["soon", null],
    ["soon 1", null],
    ["", null],
    [Number.NaN, null],
    [Number.POSITIVE_INFINITY, null],
    ["Wed, 21 Oct 2020 07:28:00 GMT", null],
    [{}, null],
  ])("%j is %j", (given, ms) => {
    expect(parseRetryAfter(given, now)).toBe(ms);
  });

  test("is read as GMT wherever the machine stands when its date has no zone", () => {
    const zone = process.env.TZ;
    onTestFinished(() => {
      if (zone === undefined) delete process.env.TZ;
      else process.env.TZ = zone;
    });
    process.env.TZ = "America/Sao_Paulo";
    expect(parseRetryAfter("Wed Oct 21 07:28:00 2026", now)).toBe(480_000);
  });
});

describe("transient failures", () => {
  test("are TransientError and broken connections, also as a cause", () => {
    expect(isTransient(new TransientError("again"))).toBe(true);
    expect(isTransient(Object.assign(new Error("reset"), { code: "ECONNRESET" }))).toBe(true);
    const cause = Object.assign(new Error("closed"), { code: "UND_ERR_SOCKET" });
    expect(isTransient(new TypeError("fetch failed", { cause }))).toBe(true);
  });

  test("are not other errors, and not what the handler itself called permanent", () => {
    expect(isTransient(new Error("bug"))).toBe(false);
    expect(isTransient("text")).toBe(false);
    const permanent = new PermanentError("no");
    permanent.cause = Object.assign(new Error(), { code: "ECONNRESET" });
    expect(isTransient(permanent)).toBe(false);
  });
});

function hostile(): object {
  const fail = () => {
    throw new Error("trapped");
  };
  return new Proxy({}, { get: fail, getPrototypeOf: fail, ownKeys: fail });
}
