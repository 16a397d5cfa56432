import { describe, expect, test } from "vitest";
import { openWorkbench } from "./support.ts";

describe.each(["thread", "process", "inline"] as const)("a handler's context (%s)", (isolation) => {
  test("says what runs, for whom and until when", async () => {
    const bench = openWorkbench({
      "ctx.ts": `import { defineHandler } from "turno";
        export default defineHandler(async (payload, ctx) => {
          const { signal, progress, log } = ctx;
          await progress(10);
          log.info("detached", {});
          return {
            payload, type: ctx.type, attempt: ctx.attempt, execution: ctx.execution, settings: ctx.settings,
            frozen: Object.isFrozen(ctx.settings.nested), fence: typeof ctx.fence + ctx.fence, key: ctx.idempotencyKey === "turno-" + ctx.jobId,
            left: ctx.deadline.getTime() - Date.now(), schedule: ctx.schedule, revision: ctx.revision, aborted: signal.aborted,
          };
        });`,
    });
    const outcome = await bench.run("ctx.ts", {
      isolation,
      payload: { text: "x" },
      settings: { nested: { a: 1 } },
      failures: 2,
      schedule: { name: "nightly", firedFor: new Date("2026-01-01T00:00:00Z"), lateByMs: 7 },
    });
    const result = JSON.parse(outcome.kind === "returned" ? (outcome.result ?? "") : JSON.stringify(outcome));
    expect(result).toMatchObject({
      payload: { text: "x" },
      type: "ctx",
      attempt: 3,
      execution: 3,
      settings: { nested: { a: 1 } },
      frozen: true,
      fence: expect.stringMatching(/^bigint\d+$/),
      key: true,
      schedule: { name: "nightly", firedFor: "2026-01-01T00:00:00.000Z", lateBy: 7 },
      revision: 3,
      aborted: false,
    });
    expect(result.left).toBeGreaterThan(50_000);
    expect(result.left).toBeLessThanOrEqual(60_000);
  });

  test("sends the first and the last progress of many, clamped and storable", async () => {
    const bench = openWorkbench({
      "steps.ts": `export default async (payload, ctx) => {
        for (let percent = -5; percent <= 200; percent++) await ctx.progress(percent, "at\\u0000" + percent);
        await ctx.progress(NaN);
      };`,
    });
    const seen: [number, string | null][] = [];
    await bench.run("steps.ts", { isolation, onProgress: (percent, message) => seen.push([percent, message]) });
    expect(seen).toEqual([
      [0, "at\ufffd-5"],
      [100, "at\ufffd200"],
    ]);
  });

  test("writes log lines with the job they belong to", async () => {
    const bench = openWorkbench({
      "logs.ts": `export default (payload, ctx) => {
        ctx.log.warn("half way", { lote: 7, big: undefined });
        ctx.log.error("odd", { cycle: ctx, big: 1n });
        console.log("printed");
      };`,
    });
    await bench.run("logs.ts", { isolation });
    expect(bench.logs).toContainEqual({
      level: "warn",
      message: "half way",
      fields: { lote: 7, jobId: expect.stringMatching(/^0199a000-/), type: "logs" },
    });
    expect(bench.logs).toContainEqual({
      level: "error",
      message: "odd",
      fields: { fields: expect.stringMatching(/cannot be stored/), jobId: expect.any(String), type: "logs" },
    });
    if (isolation !== "inline") expect((await bench.logged("printed")).fields).toMatchObject({ stream: "stdout" });
  });

  test("keeps the worker alive whatever is returned or thrown", async () => {
    const bench = openWorkbench({
      "odd.ts": `const hostile = () => new Proxy({}, { get() { throw new Error("trapped"); }, ownKeys() { throw new Error("trapped"); } });
        const cases = {
          nul: () => ({ t: "a\\u0000b" }),
          bigint: () => ({ d: 1n }),
          proxy: () => hostile(),
          later: async () => hostile(),
          throwsText: () => { throw "text"; },
          throwsUndefined: () => { throw undefined; },
          throwsProxy: () => { throw hostile(); },
          throwsCyclic: () => { const e = new Error("c\\u0000"); e.cause = e; throw e; },
          rejects: () => Promise.reject(null),
        };
        export default (payload) => cases[payload]();`,
    });
    const run = (payload: string) => bench.run("odd.ts", { isolation, payload });
    expect(await run("nul")).toEqual({ kind: "returned", result: '{"t":"a\ufffdb"}', resultError: null });
    expect(await run("bigint")).toMatchObject({
      kind: "returned",
      result: null,
      resultError: expect.stringMatching(/BigInt/),
    });
    expect(await run("proxy")).toMatchObject({ kind: "threw", error: { message: "trapped" } });
    expect(await run("later")).toMatchObject({ kind: "threw", error: { message: "trapped" } });
    expect(await run("throwsText")).toMatchObject({ kind: "threw", error: { message: "text", stack: null } });
    expect(await run("throwsUndefined")).toMatchObject({
      kind: "threw",
      error: { message: "the handler threw undefined" },
    });
    expect(await run("throwsProxy")).toMatchObject({ kind: "threw" });
    expect(await run("throwsCyclic")).toMatchObject({ kind: "threw", error: { message: "c\ufffd" } });
    expect(await run("rejects")).toMatchObject({ kind: "threw", error: { message: "the handler threw null" } });
  });
});

describe("immediate retry", () => {
  const FLAKY = `import { TransientError } from "turno";
    let calls = 0;
    export default async (payload, ctx) => {
      calls++;
      payload.touched = (payload.touched ?? 0) + 1;
      if (calls <= payload.failures) throw payload.permanent ? new Error("bug " + calls) : new TransientError("again " + calls);
      return { calls, touched: payload.touched };
    };`;

  test("calls again inside the attempt, with a payload that no earlier call has touched", async () => {
    const bench = openWorkbench({ "flaky.ts": FLAKY });
    const outcome = await bench.run("flaky.ts", {
      payload: { failures: 2 },
      immediateRetry: { attempts: 2, initialMs: 1 },
    });
    expect(outcome).toMatchObject({ kind: "returned", result: '{"calls":3,"touched":1}' });
  });

  test("gives up with the last error after its tries", async () => {
    const bench = openWorkbench({ "flaky.ts": FLAKY });
    const outcome = await bench.run("flaky.ts", {
      payload: { failures: 9 },
      immediateRetry: { attempts: 2, initialMs: 1 },
    });
    expect(outcome).toMatchObject({ kind: "threw", error: { name: "TransientError", message: "again 3" } });
  });

  test("leaves other errors to the policy", async () => {
    const bench = openWorkbench({ "flaky.ts": FLAKY });
    const payload = { failures: 9, permanent: true };
    const outcome = await bench.run("flaky.ts", { payload, immediateRetry: { attempts: 2, initialMs: 1 } });
    expect(outcome).toMatchObject({ kind: "threw", error: { message: "bug 1" } });
  });

  test("an abort ends its wait at once", async () => {
    const bench = openWorkbench({
      "flaky.ts": `import { TransientError } from "turno";
        export default async (payload, ctx) => { await ctx.progress(1); throw new TransientError("again"); };`,
    });
    const run = await bench.startAndWait("flaky.ts", { immediateRetry: { attempts: 5, initialMs: 60_000 } });
    run.abort("shutdown");
    expect(await run.outcome).toMatchObject({ kind: "threw", error: { message: "again" } });
  });
});
