import { describe, expect, test } from "vitest";
import type { JobId } from "../../runtime/core/ids.ts";
import type { PrepareChild } from "../../runtime/protocol/ports/intake.ts";
import type { NewJob } from "../../runtime/protocol/ports/jobs.ts";
import { openWorkbench } from "./support.ts";

/** Takes the type "known" only, and numbers what it takes. */
function intake() {
  const asked: string[] = [];
  const prepareChild: PrepareChild = async (parent, request) => {
    asked.push(request.type);
    if (request.type === "away") throw new Error("the database is away");
    if (request.type !== "known") return { problem: `no job of type "${request.type}" is declared` };
    return { child: { ...request, id: `child-${asked.length}` as JobId, parentId: parent.id } };
  };
  return { asked, prepareChild };
}

function childrenOf(outcome: unknown): readonly NewJob[] {
  return (outcome as { readonly children?: readonly NewJob[] }).children ?? [];
}

describe.each(["thread", "process", "inline"] as const)("ctx.enqueue (%s)", (isolation) => {
  test("hands over what was enqueued together with the success, in order and with its options", async () => {
    const { prepareChild } = intake();
    const bench = openWorkbench(
      {
        "parent.ts": `import { defineHandler } from "turno";
          export default defineHandler(async (payload, ctx) => {
            const { enqueue } = ctx;
            const first = await enqueue("known", { n: 1 });
            await enqueue("known");
            await enqueue("known", [2], {
              queue: "reports", priority: 5, delay: "10m", maxAttempts: 2, timeout: 1500, concurrencyKey: "k",
            });
            await enqueue("known", null, { runAt: "2026-10-01T18:20:00Z" });
            return first.id;
          });`,
      },
      { prepareChild },
    );
    const outcome = await bench.run("parent.ts", { isolation });
    expect(outcome).toMatchObject({ kind: "returned", result: '"child-1"' });
    expect(childrenOf(outcome)).toMatchObject([
      { id: "child-1", payload: { n: 1 }, queue: null, priority: 0, due: null, maxAttempts: null, timeoutMs: null },
      { payload: {} },
      {
        payload: [2],
        queue: "reports",
        priority: 5,
        due: { afterMs: 600_000 },
        maxAttempts: 2,
        timeoutMs: 1500,
        concurrencyKey: "k",
      },
      { payload: null, due: { at: new Date("2026-10-01T18:20:00Z") } },
    ]);
    expect(childrenOf(outcome).every(({ parentId }) => typeof parentId === "string")).toBe(true);
  });

  test("rejects what is refused, and leaves what becomes of it to a handler that looks", async () => {
    const bench = openWorkbench(
      {
        "parent.ts": `export default async (payload, ctx) => {
          try { await ctx.enqueue("unknown", {}); } catch (error) { return error.name + ": " + error.message; }
        };`,
        "lets.ts": `export default async (payload, ctx) => { await ctx.enqueue("unknown", {}); };`,
      },
      intake(),
    );
    expect(await bench.run("parent.ts", { isolation })).toEqual({
      kind: "returned",
      result: '"EnqueueError: no job of type \\"unknown\\" is declared"',
      resultError: null,
    });
    expect(await bench.run("lets.ts", { isolation })).toMatchObject({
      kind: "threw",
      error: { name: "EnqueueError", permanent: false },
    });
  });

  test("fails the attempt for a refusal that the handler did not wait for", async () => {
    const bench = openWorkbench(
      {
        "hasty.ts": `export default (payload, ctx) => {
          ctx.enqueue("known", {});
          ctx.enqueue("unknown", {});
          return "done";
        };`,
        "late.ts": `export default async (payload, ctx) => {
          ctx.enqueue("unknown", {});
          await ctx.enqueue("known", {});
          return "done";
        };`,
      },
      intake(),
    );
    for (const handler of ["hasty.ts", "late.ts"]) {
      expect(await bench.run(handler, { isolation })).toMatchObject({
        kind: "threw",
        error: { name: "EnqueueError", message: 'no job of type "unknown" is declared' },
      });
    }
  });

  test("waits with the success for what the handler did not wait for", async () => {
    const bench = openWorkbench(
      { "hasty.ts": `export default (payload, ctx) => { ctx.enqueue("known", 1); ctx.enqueue("known", 2); };` },
      intake(),
    );
    expect(childrenOf(await bench.run("hasty.ts", { isolation })).map(({ payload }) => payload)).toEqual([1, 2]);
  });
});

describe("ctx.enqueue", () => {
  test("keeps nothing of an attempt that throws or snoozes", async () => {
    const bench = openWorkbench(
      {
        "throws.ts": `export default async (payload, ctx) => { await ctx.enqueue("known"); throw new Error("no"); };`,
        "snoozes.ts": `export default async (payload, ctx) => { await ctx.enqueue("known"); return ctx.snooze(1000); };`,
      },
      intake(),
    );
    expect(await bench.run("throws.ts")).toMatchObject({ kind: "threw" });
    expect(await bench.run("snoozes.ts")).toEqual({ kind: "snoozed", forMs: 1000 });
  });

  test("keeps only what the last call enqueued when the handler is tried again at once", async () => {
    const bench = openWorkbench(
      {
        "again.ts": `import { TransientError } from "turno";
          let calls = 0;
          export default async (payload, ctx) => {
            calls += 1;
            await ctx.enqueue("known", { calls });
            if (calls < 3) throw new TransientError("a moment");
          };`,
      },
      intake(),
    );
    const outcome = await bench.run("again.ts", { immediateRetry: { attempts: 3, initialMs: 1 } });
    expect(childrenOf(outcome).map(({ payload }) => payload)).toEqual([{ calls: 3 }]);
  });

  test("names what is wrong with a call before anybody else is asked", async () => {
    const { asked, prepareChild } = intake();
    const bench = openWorkbench(
      {
        "wrong.ts": `export default async (payload, ctx) => {
          const cycle = {}; cycle.self = cycle;
          const calls = [
            [7], ["known", 1n], ["known", cycle], ["known", () => 1], ["known", {}, { later: 1 }],
            ["known", {}, { delay: "soon" }], ["known", {}, { delay: 1, runAt: "2026-10-01T18:20:00Z" }],
            ["known", {}, { runAt: "tomorrow" }], ["known", {}, { priority: "high" }], ["known", {}, { timeout: 0 }],
          ];
          const said = [];
          for (const call of calls) await ctx.enqueue(...call).catch((error) => said.push(error.message));
          return said;
        };`,
      },
      { prepareChild },
    );
    const outcome = await bench.run("wrong.ts");
    const said: string[] = JSON.parse(outcome.kind === "returned" ? (outcome.result ?? "[]") : JSON.stringify(outcome));
    expect(said).toHaveLength(10);
    expect(said[0]).toContain("expected the name of a job type, found 7");
    for (const index of [1, 2, 3]) expect(said[index]).toContain('"known" is not enqueued: the payload is not JSON');
    expect(said[4]).toContain('unknown option "later"');
    expect(said[5]).toContain('found "soon"');
    expect(said[6]).toContain("expected runAt or delay, found both");
    expect(said[7]).toContain("an instant with its offset");
    expect(said[8]).toContain("expected priority as a number");
    expect(said[9]).toContain("from 1 ms to 400d, found 0");
    expect(asked).toEqual([]);
  });

  test("takes a thousand jobs of one execution, and eight mebibytes of payloads", async () => {
    const bench = openWorkbench(
      {
        "many.ts": `export default async (payload, ctx) => {
          for (let n = 0; n < 1000; n++) await ctx.enqueue("known", n);
          return ctx.enqueue("known", 1000).catch((error) => error.message);
        };`,
        "large.ts": `export default async (payload, ctx) => {
          const text = "x".repeat(250_000);
          for (let n = 0; ; n++) {
            const problem = await ctx.enqueue("known", text).then(() => null, (error) => error.message);
            if (problem !== null) return { n, problem };
          }
        };`,
      },
      intake(),
    );
    const many = await bench.run("many.ts");
    expect(many).toMatchObject({ result: expect.stringContaining("1000 jobs at most") });
    expect(childrenOf(many)).toHaveLength(1000);
    expect(await bench.run("large.ts")).toMatchObject({ result: expect.stringMatching(/^\{"n":33,.*8388608 bytes/) });
  });

  test("says why when the check itself fails, and what comes after the end", async () => {
    const bench = openWorkbench(
      {
        "away.ts": `export default async (payload, ctx) => { await ctx.enqueue("away"); };`,
        "leak.ts": `let leaked = null;
          export default async (payload, ctx) => {
            if (leaked !== null) return leaked.enqueue("known").catch((error) => error.message);
            leaked = ctx;
          };`,
      },
      { ...intake(), threads: 1 },
    );
    expect(await bench.run("away.ts")).toMatchObject({
      kind: "threw",
      error: { message: '"away" is not enqueued: the database is away' },
    });
    await bench.run("leak.ts");
    expect(await bench.run("leak.ts")).toMatchObject({ result: expect.stringContaining("the handler has ended") });
  });
});

describe("ctx.snooze", () => {
  test.each(["thread", "process", "inline"] as const)(
    "puts the job off when it is returned (%s)",
    async (isolation) => {
      const bench = openWorkbench({
        "later.ts": `import { defineHandler } from "turno";
        export default defineHandler<{ duration: number | string }>(({ duration }, { snooze }) => snooze(duration));`,
      });
      expect(await bench.run("later.ts", { isolation, payload: { duration: "10m" } })).toEqual({
        kind: "snoozed",
        forMs: 600_000,
      });
      expect(await bench.run("later.ts", { isolation, payload: { duration: 1.5 } })).toMatchObject({ forMs: 2 });
      expect(await bench.run("later.ts", { isolation, payload: { duration: "366d" } })).toMatchObject({
        forMs: 366 * 86_400_000,
      });
    },
  );

  test("throws at once for what is no duration from 1 ms to 366 d", async () => {
    const bench = openWorkbench({
      "later.ts": `export default ({ durations }, ctx) => durations.map((duration) => {
        try { return ctx.snooze(duration).forMs; } catch (error) { return error.name + ": " + error.message; }
      });`,
    });
    const durations = [0, -5, null, "soon", "367d", "9999999d", 1e300];
    const outcome = await bench.run("later.ts", { payload: { durations } });
    const said: string[] = JSON.parse(outcome.kind === "returned" ? (outcome.result ?? "[]") : "[]");
    expect(said).toHaveLength(durations.length);
    for (const line of said) expect(line).toMatch(/^RangeError: expected snooze as milliseconds or a duration .* 366d/);
  });

  test("has no effect unless it is returned, and a result of the same shape is a result", async () => {
    const bench = openWorkbench({
      "kept.ts": `export default (payload, ctx) => { ctx.snooze("1h"); return { turnoOutcome: "snooze", forMs: 5 }; };`,
    });
    expect(await bench.run("kept.ts")).toEqual({
      kind: "returned",
      result: '{"turnoOutcome":"snooze","forMs":5}',
      resultError: null,
    });
  });
});
