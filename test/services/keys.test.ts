import { afterEach, beforeEach, expect, it } from "vitest";
import type { Script } from "../../runtime/adapters/memory/handler-host.ts";
import type { JobId } from "../../runtime/core/ids.ts";
import { Engine, takes } from "./engine.ts";

let engine: Engine;
beforeEach(() => {
  engine = new Engine();
});
afterEach(() => engine.close());

/** A handler that notes how many of it run at once; every third run fails. */
function counted(ms: number): {
  readonly script: Script;
  readonly seen: { running: number; most: number; runs: number };
} {
  const seen = { running: 0, most: 0, runs: 0 };
  const script: Script = async (payload, context) => {
    seen.running += 1;
    seen.runs += 1;
    seen.most = Math.max(seen.most, seen.running);
    const fails = seen.runs % 3 === 0;
    try {
      await takes(engine.clock, ms)(payload, context);
    } finally {
      seen.running -= 1;
    }
    if (fails) throw new Error("every third");
    return null;
  };
  return { script, seen };
}

it("jobs of one concurrency key run one after another on all workers, at once when the one before has ended", async () => {
  engine.declare({ type: "plain" });
  const { script, seen } = counted(5_000);
  const plain = counted(5_000);
  const scripts = { work: script, plain: plain.script };
  for (let machine = 0; machine < 2; machine += 1) await engine.role({ scripts, concurrency: 4 });
  const keyed = await engine.enqueueMany(6, { concurrencyKey: "customer-7" });
  const free = await engine.enqueueMany(6, { type: "plain" });
  await engine.clock.advance(5_500);
  expect(free.filter((id) => engine.job(id).state === "Enqueued")).toEqual([]);
  await engine.clock.advance(14_700);
  // Four runs of 5 s, one of which failed and waits without the key.
  expect(seen).toMatchObject({ most: 1, runs: 5 });
  await engine.clock.advance(120_000);
  for (const id of [...keyed, ...free]) expect(engine.job(id).state).toBe("Succeeded");
  expect(seen).toMatchObject({ most: 1, running: 0 });
  expect(plain.seen.most).toBeGreaterThan(1);
  expect([...engine.database.keys]).toEqual([]);
});

it("a worker that is lost keeps its job's key until the job was taken from it", async () => {
  const { script, seen } = counted(5_000);
  const lost = await engine.role({ scripts: { work: takes(engine.clock, 600_000) }, concurrency: 1 });
  const first = await engine.enqueue({ concurrencyKey: "k" });
  await engine.clock.advance(1_000);
  const second = await engine.enqueue({ concurrencyKey: "k" });
  await engine.role({ scripts: { work: script }, concurrency: 4 });
  lost.connection.weather = "hanging";
  await engine.clock.advance(55_000);
  expect(engine.job(first)).toMatchObject({ state: "Processing" });
  expect(engine.job(second)).toMatchObject({ state: "Scheduled", hold: "key" });
  await engine.clock.advance(120_000);
  for (const id of [first, second]) expect(engine.job(id).state).toBe("Succeeded");
  expect(seen).toMatchObject({ most: 1, runs: 2 });
  lost.connection.weather = "up";
});

it("a worker that stops gives its jobs back with their place in the line", async () => {
  const { script } = counted(1_000);
  const stopping = await engine.role({ scripts: { work: takes(engine.clock, 600_000) }, shutdownTimeoutMs: 1_000 });
  const [first, second] = await engine.enqueueMany(2, { concurrencyKey: "k" });
  await engine.clock.advance(1_000);
  expect(engine.job(first as JobId).state).toBe("Processing");
  const stopped = stopping.role.stop();
  await engine.clock.advance(10_000);
  await stopped;
  expect(engine.job(first as JobId)).toMatchObject({ state: "Enqueued", returns: 1 });
  expect(engine.job(second as JobId)).toMatchObject({ state: "Scheduled", hold: "key" });
  await engine.role({ scripts: { work: script } });
  await engine.clock.advance(60_000);
  expect([first, second].map((id) => engine.job(id as JobId).state)).toEqual(["Succeeded", "Succeeded"]);
});
