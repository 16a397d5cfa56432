import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createPayloadValidator } from "../../runtime/config/payload.ts";
import type { JobId } from "../../runtime/core/ids.ts";
import { RejectedError } from "../../runtime/protocol/ports/errors.ts";
import type { JobRequest } from "../../runtime/protocol/ports/intake.ts";
import type { NewJob } from "../../runtime/protocol/ports/jobs.ts";
import { createChildIntake } from "../../runtime/services/child-jobs.ts";
import { Engine, takes } from "./engine.ts";

let engine: Engine;
beforeEach(() => {
  engine = new Engine();
});
afterEach(() => engine.close());

const PARENT = { id: "parent" as JobId };
const request = (options: Partial<JobRequest> = {}): JobRequest => ({
  type: "work",
  queue: null,
  payload: {},
  priority: 0,
  due: null,
  maxAttempts: null,
  timeoutMs: null,
  ...options,
});

describe("what a handler enqueues", () => {
  const ending = new AbortController();
  const intake = (loadJobTypes = engine.store.loadJobTypes) =>
    createChildIntake({
      store: { loadJobTypes },
      ids: engine.ids,
      validatePayload: createPayloadValidator(),
      clock: engine.clock,
      signal: ending.signal,
    });

  it("gets its id and its parent, and is not inserted yet", async () => {
    const prepared = await intake()(PARENT, request({ priority: 3 }));
    expect(prepared).toMatchObject({ child: { type: "work", priority: 3, parentId: "parent" } });
    expect(engine.database.jobs.size).toBe(0);
  });

  it("is refused as the API refuses it: type, payload, options", async () => {
    engine.declare({ type: "strict", payloadSchema: { type: "object", required: ["lote"] } });
    const prepare = intake();
    expect(await prepare(PARENT, request({ type: "unknown" }))).toEqual({
      problem: expect.stringContaining('"unknown" is not enqueued: /type: no job of type "unknown" is declared'),
    });
    expect(await prepare(PARENT, request({ type: "strict" }))).toEqual({
      problem: expect.stringMatching(/^"strict" is not enqueued: \/payload.*lote/),
    });
    expect(await prepare(PARENT, request({ priority: 101 }))).toEqual({
      problem: expect.stringContaining("/priority: expected a whole number from -100 to 100"),
    });
    expect(await prepare(PARENT, request({ payload: "a\u0000" }))).toHaveProperty("problem");
  });

  it("waits for a database that is away, and is told its refusal at once", async () => {
    let tries = 0;
    const away = intake(async (types) => {
      if (++tries < 5) throw new RejectedError("PostgreSQL did not answer");
      return engine.store.loadJobTypes(types);
    });
    const prepared = away(PARENT, request());
    await engine.clock.advance(4_000);
    expect(await prepared).toHaveProperty("child");
    const refused = intake(() => Promise.reject(new RejectedError("no", { sqlState: "42P01" })));
    await expect(refused(PARENT, request())).rejects.toThrow("no");
  });
});

describe("children", () => {
  const child = (options: Partial<NewJob> = {}): NewJob => ({ ...request(), id: engine.ids.jobId(), ...options });

  it("exist with the success of the execution that enqueued them, name it, and run", async () => {
    const children = [child(), child()];
    engine.declare({ type: "parent" });
    await engine.worker({
      scripts: {
        parent: (_, ctx) => children.forEach((one) => void ctx.enqueue({ ...one, parentId: ctx.request.job.id })),
      },
    });
    const id = await engine.enqueue({ type: "parent" });
    await engine.clock.advance(1_500);
    expect(engine.job(id).state).toBe("Succeeded");
    for (const one of children) expect(engine.job(one.id).state).toBe("Succeeded");
  });

  it("do not exist when the execution fails, and exist once when its retry succeeds", async () => {
    engine.declare({ type: "parent" });
    let calls = 0;
    const born: JobId[] = [];
    await engine.role({
      scripts: {
        parent: (_, ctx) => {
          const one = child();
          born.push(one.id);
          ctx.enqueue(one);
          if (++calls === 1) throw new Error("not yet");
        },
      },
    });
    const id = await engine.enqueue({ type: "parent" });
    expect(engine.job(id)).toMatchObject({ state: "Scheduled", failures: 1 });
    expect(engine.database.jobs.size).toBe(1);
    await engine.clock.advance(60_000);
    expect(engine.job(id).state).toBe("Succeeded");
    expect(born.map((one) => engine.database.jobs.has(one))).toEqual([false, true]);
  });

  it("do not exist when the execution has lost its lease", async () => {
    engine.declare({ type: "parent" });
    const { id: workerId } = await engine.worker({
      scripts: {
        parent: async (payload, ctx) => {
          ctx.enqueue(child());
          return takes(engine.clock, 5_000)(payload, ctx);
        },
      },
    });
    const id = await engine.enqueue({ type: "parent" });
    const row = engine.database.jobs.get(id);
    // As recovery does it.
    if (row !== undefined) engine.database.enqueue(row, "worker lost");
    expect(row?.workerId).not.toBe(workerId);
    await engine.clock.advance(5_500);
    expect(engine.database.jobs.size).toBe(1);
  });
});
