import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Script } from "../../runtime/adapters/memory/handler-host.ts";
import type { DispatchToken, JobId } from "../../runtime/core/ids.ts";
import { writeBrokerMessage } from "../../runtime/protocol/ports/broker-text.ts";
import type { BrokerMessage } from "../../runtime/protocol/ports/transport.ts";
import { Engine, kinds, takes } from "./engine.ts";

let engine: Engine;
beforeEach(async () => {
  engine = new Engine();
  await engine.store.setTransport("rabbitmq");
});
afterEach(() => engine.close());

const worker = (options: Parameters<Engine["role"]>[0] = {}) => engine.role({ transport: "rabbitmq", ...options });
const states = (ids: readonly JobId[]): string[] => ids.map((id) => engine.job(id).state);

/** Counts runs by job and how many run at once. */
function counted(ms: number) {
  const seen = { runs: new Map<JobId, number>(), running: 0, most: 0 };
  const script: Script = async (payload, context) => {
    const { id } = context.request.job;
    seen.runs.set(id, (seen.runs.get(id) ?? 0) + 1);
    seen.running += 1;
    seen.most = Math.max(seen.most, seen.running);
    try {
      return await takes(engine.clock, ms)(payload, context);
    } finally {
      seen.running -= 1;
    }
  };
  return { seen, script };
}

async function publish(...messages: BrokerMessage[]): Promise<void> {
  const connection = engine.broker.connect();
  await connection.publish(messages);
  await connection.close();
}

describe("a worker on a broker", () => {
  it("runs a job whose message the relay has brought, and leaves neither message nor lock behind", async () => {
    const { connection, events } = await worker();
    const id = await engine.enqueue();
    await engine.clock.advance(2_000);
    expect(engine.job(id)).toMatchObject({ state: "Succeeded", execution: 1, attempts: ["succeeded"] });
    expect(connection.calls).toContain("claimDelivery");
    expect(engine.broker.waiting("default")).toBe(0);
    expect((await engine.store.readOutbox()).messages).toBe(0);
    expect(engine.locks.held.size).toBe(0);
    expect(kinds(events)).toContain("relayed");
  });

  it("shares jobs with others, each of which runs once, while the broker doubles and mixes messages", async () => {
    const { seen, script } = counted(500);
    Object.assign(engine.broker.faults, { duplicate: 0.5, reorder: 0.5, delayMs: 200 });
    const machines = await Promise.all([1, 2, 3].map(() => worker({ scripts: { work: script } })));
    const ids = await engine.enqueueMany(60);
    await engine.clock.advance(30_000);
    expect(new Set(states(ids))).toEqual(new Set(["Succeeded"]));
    expect([...seen.runs.values()]).toEqual(ids.map(() => 1));
    for (const { host } of machines) expect(host.runs.length).toBeGreaterThan(5);
    expect(engine.broker.waiting("default")).toBe(0);
  });

  it("drops messages of earlier dispatches, and those of jobs that are not there", async () => {
    const { host } = await worker();
    const id = await engine.enqueue();
    await engine.clock.advance(2_000);
    const token = engine.database.lastToken as DispatchToken;
    await publish(
      { kind: "dispatch", jobId: id, token, queue: "default" },
      { kind: "dispatch", jobId: engine.ids.jobId(), token, queue: "default" },
    );
    await engine.clock.advance(1_000);
    expect(host.runs).toHaveLength(1);
    expect(engine.broker.waiting("default")).toBe(0);
  });

  it("holds no more messages than it has slots while jobs are long", async () => {
    await worker({ scripts: { work: takes(engine.clock, 60_000) } });
    await engine.enqueueMany(20);
    await engine.clock.advance(5_000);
    expect(engine.database.processing.size).toBe(2);
    expect(engine.broker.waiting("default")).toBe(18);
  });

  it("claims short jobs ahead of its slots", async () => {
    const { host } = await worker({ scripts: { work: () => null } });
    await engine.enqueueMany(5);
    await engine.clock.advance(2_000);
    const ids = await engine.enqueueMany(300);
    await engine.clock.advance(2_000);
    expect(new Set(states(ids))).toEqual(new Set(["Succeeded"]));
    expect(host.runs).toHaveLength(305);
  });

  it("claims no more while thousands of final writes do not land", async () => {
    const { connection } = await worker({ concurrency: 100, scripts: { work: () => null } });
    connection.next.set(
      "finishJob",
      Array.from({ length: 4_500 }, () => "hanging"),
    );
    const ids = await engine.enqueueMany(4_500);
    await engine.clock.advance(1_000);
    const claimed = ids.filter((id) => engine.job(id).execution > 0).length;
    expect(claimed).toBeGreaterThan(3_500);
    expect(claimed).toBeLessThan(4_300);
    connection.next.clear();
    connection.weather = "up";
    await engine.clock.advance(5_000);
    expect(new Set(states(ids))).toEqual(new Set(["Succeeded"]));
  });

  it("gives back what it claimed ahead and cannot start, and what it was delivered, when jobs turn out to be long", async () => {
    let quick = true;
    const other = counted(100);
    await worker({
      scripts: { work: (payload, context) => (quick ? null : takes(engine.clock, 120_000)(payload, context)) },
    });
    await engine.enqueueMany(20);
    await engine.clock.advance(2_000);
    quick = false;
    const ids = await engine.enqueueMany(60);
    await engine.clock.advance(1_000);
    const second = await worker({ scripts: { work: other.script } });
    await engine.clock.advance(15_000);
    expect(engine.database.processing.size).toBe(2);
    expect(ids.filter((id) => engine.job(id).state === "Succeeded")).toHaveLength(58);
    expect(second.host.runs.length).toBe(58);
    for (const id of ids) expect(engine.job(id)).toMatchObject({ failures: 0, lost: 0 });
  });

  it("keeps deliveries while the database is away, asks about once a second, and goes on", async () => {
    const machine = await worker({ concurrency: 4 });
    machine.connection.weather = "away";
    const ids = await engine.enqueueMany(4);
    const token = (id: JobId) => engine.database.jobs.get(id)?.token as DispatchToken;
    await publish(...ids.map((jobId) => ({ kind: "dispatch" as const, jobId, token: token(jobId), queue: "default" })));
    machine.connection.calls.length = 0;
    await engine.clock.advance(10_000);
    const asked = machine.connection.calls.filter((call) => call === "claimDelivery").length;
    expect(asked).toBeGreaterThan(5);
    expect(asked).toBeLessThan(60);
    expect(machine.host.runs).toHaveLength(0);
    machine.connection.weather = "up";
    await engine.clock.advance(7_000);
    expect(states(ids)).toEqual(ids.map(() => "Succeeded"));
    expect(kinds(machine.events).filter((kind) => kind === "database-away").length).toBeGreaterThan(0);
  });

  it("hands deliveries to others when the database stays away for it alone", async () => {
    const alone = await worker();
    alone.connection.weather = "away";
    const other = await worker({ concurrency: 1 });
    const ids = await engine.enqueueMany(8);
    await engine.clock.advance(120_000);
    expect(states(ids)).toEqual(ids.map(() => "Succeeded"));
    expect(other.host.runs).toHaveLength(8);
  });

  it("never runs a job on a guess: a claim whose answer is lost goes back first (F9)", async () => {
    const { connection, host } = await worker();
    connection.next.set("claimDelivery", ["lost-reply"]);
    const id = await engine.enqueue();
    await engine.clock.advance(200);
    expect(host.runs).toHaveLength(0);
    expect(engine.job(id).state).toBe("Processing");
    await engine.clock.advance(10_000);
    expect(connection.calls).toContain("findOwned");
    expect(engine.job(id)).toMatchObject({ state: "Succeeded", lost: 0, failures: 0, execution: 2 });
    expect(host.runs).toHaveLength(1);
  });

  it("keeps the fleet's limit of a queue, whatever the messages say", async () => {
    engine.database.queues.set("default", { concurrency: 1, suspended: false });
    const { seen, script } = counted(100);
    await Promise.all([1, 2].map(() => worker({ scripts: { work: script } })));
    const ids = await engine.enqueueMany(20);
    await engine.clock.advance(30_000);
    expect(new Set(states(ids))).toEqual(new Set(["Succeeded"]));
    expect(seen.most).toBe(1);
    expect([...seen.runs.values()]).toEqual(ids.map(() => 1));
  });

  it("takes nothing from a suspended queue, and goes on when it is lifted, although the messages are gone", async () => {
    engine.database.queues.set("default", { concurrency: null, suspended: true });
    const { host, connection } = await worker();
    const ids = await engine.enqueueMany(20);
    await engine.clock.advance(10_000);
    expect(host.runs).toHaveLength(0);
    expect(engine.broker.waiting("default")).toBe(0);
    engine.database.queues.set("default", { concurrency: null, suspended: false });
    await engine.clock.advance(5_000);
    expect(new Set(states(ids))).toEqual(new Set(["Succeeded"]));
    // And back to messages.
    await engine.clock.advance(2_000);
    connection.calls.length = 0;
    const more = await engine.enqueueMany(3);
    await engine.clock.advance(2_000);
    expect(states(more)).toEqual(more.map(() => "Succeeded"));
    expect(connection.calls).toContain("claimDelivery");
    // A look that asks for no job.
    expect(connection.calls.filter((call) => call === "claimJobs").length).toBeLessThan(2);
  });

  it("notices a limit that no message of its own has told it of", async () => {
    const { host } = await worker();
    engine.database.queues.set("default", { concurrency: null, suspended: true });
    const ids = await engine.enqueueMany(3);
    // Another worker has taken the messages, and is gone.
    engine.broker.purge("default");
    await engine.clock.advance(6_000);
    expect(host.runs).toHaveLength(0);
    engine.database.queues.set("default", { concurrency: null, suspended: false });
    await engine.clock.advance(6_000);
    expect(states(ids)).toEqual(ids.map(() => "Succeeded"));
  });

  it("leaves a job that it cannot load to a worker that can", async () => {
    engine.declare({ type: "native", bundleHash: "sha256-native" });
    const cannot = await worker();
    cannot.host.unloadable.add("sha256-native");
    const id = await engine.enqueue({ type: "native" });
    await engine.clock.advance(30_000);
    expect(engine.job(id)).toMatchObject({ state: "Scheduled", hold: "no-handler", failures: 0 });
    expect(cannot.host.runs.length).toBeLessThan(10);
    const can = await worker();
    await engine.clock.advance(60_000);
    expect(engine.job(id)).toMatchObject({ state: "Succeeded", failures: 0 });
    expect(can.host.runs).toHaveLength(1);
  });

  it("puts off a job whose lock somebody else has, and runs it when the lock is free (F3)", async () => {
    const { host } = await worker();
    const id = engine.ids.jobId();
    const other = await engine.locks.acquire(`job:${id}`);
    await engine.enqueueMany(1, { id });
    await engine.clock.advance(3_000);
    expect(engine.job(id)).toMatchObject({ state: "Scheduled", execution: 0 });
    if (other.kind === "acquired") await other.release();
    await engine.clock.advance(15_000);
    expect(engine.job(id).state).toBe("Succeeded");
    expect(host.runs).toHaveLength(1);
  });

  it("drops a message that somebody has moved to it from another queue, and leaves the job alone", async () => {
    const { host } = await worker();
    const id = await engine.enqueue({ queue: "elsewhere" });
    const token = engine.database.lastToken as DispatchToken;
    engine.broker.putText("default", writeBrokerMessage({ kind: "dispatch", jobId: id, token, queue: "elsewhere" }));
    await engine.clock.advance(5_000);
    expect(engine.job(id)).toMatchObject({ state: "Enqueued", execution: 0 });
    expect(engine.broker.waiting("default")).toBe(0);
    expect(host.runs).toHaveLength(0);
  });

  it("retries what was taken from a worker that reaches the locks and not the database", async () => {
    const cutOff = await worker({ scripts: { work: takes(engine.clock, 1_000) } });
    const id = await engine.enqueue();
    await engine.clock.advance(900);
    cutOff.connection.weather = "away";
    let fails = true;
    await worker({
      scripts: {
        work: async () => {
          if (!fails) return null;
          fails = false;
          throw new Error("the first time");
        },
      },
    });
    await engine.clock.advance(300_000);
    expect(engine.job(id)).toMatchObject({ state: "Succeeded", lost: 1, failures: 1 });
  });

  it("goes on without locks while the lock service is away (F1)", async () => {
    engine.locks.away = true;
    await worker();
    const ids = await engine.enqueueMany(5);
    await engine.clock.advance(3_000);
    expect(states(ids)).toEqual(ids.map(() => "Succeeded"));
  });

  it("gives everything back when it stops, so that another runs it, and nothing is charged", async () => {
    const { script } = counted(60_000);
    const first = await worker({ scripts: { work: script }, shutdownTimeoutMs: 1_000 });
    const ids = await engine.enqueueMany(10);
    await engine.clock.advance(1_000);
    expect(engine.database.processing.size).toBe(2);
    const stopping = first.role.stop();
    await engine.clock.advance(3_000);
    await stopping;
    expect(engine.database.processing.size).toBe(0);
    expect(engine.locks.held.size).toBe(0);
    const second = await worker();
    await engine.clock.advance(30_000);
    expect(states(ids)).toEqual(ids.map(() => "Succeeded"));
    expect(second.host.runs).toHaveLength(10);
    for (const id of ids) expect(engine.job(id)).toMatchObject({ failures: 0, lost: 0 });
  });

  it("runs again what a killed worker had, without waiting for a message of it", async () => {
    const dead = await worker({ scripts: { work: () => new Promise(() => {}) } });
    const ids = await engine.enqueueMany(2);
    await engine.clock.advance(2_000);
    expect(engine.database.processing.size).toBe(2);
    dead.connection.weather = "away";
    dead.asleep = true;
    dead.broker.kill();
    const { host } = await worker();
    await engine.clock.advance(120_000);
    expect(states(ids)).toEqual(["Succeeded", "Succeeded"]);
    expect(host.runs.every(({ alone }) => alone)).toBe(true);
  });

  it("hears again of jobs whose messages the broker has lost", async () => {
    const ids = await engine.enqueueMany(5);
    const relaying = await worker({ concurrency: 1, scripts: { work: takes(engine.clock, 100_000) } });
    await engine.clock.advance(2_000);
    engine.broker.purge("default");
    const stopping = relaying.role.stop();
    await engine.clock.advance(60_000);
    await stopping;
    const { events, host } = await worker();
    await engine.clock.advance(300_000);
    expect(states(ids)).toEqual(ids.map(() => "Succeeded"));
    expect(kinds(events)).toContain("redispatched");
    expect(host.runs.length).toBeGreaterThanOrEqual(4);
  });

  it("hears again of lost messages while one without a broker leads", async () => {
    const leader = await engine.role({ concurrency: 1, scripts: { work: takes(engine.clock, 1_000_000) } });
    const [long] = await engine.enqueueMany(1);
    await engine.clock.advance(2_000);
    const ids = await engine.enqueueMany(5);
    const { broker, host } = await worker({ concurrency: 1, scripts: { work: takes(engine.clock, 20_000) } });
    await engine.clock.advance(2_000);
    engine.broker.purge("default");
    await engine.clock.advance(400_000);
    expect(states(ids)).toEqual(ids.map(() => "Succeeded"));
    expect(host.runs).toHaveLength(5);
    expect(broker.condition().state).toBe("connected");
    expect(kinds(leader.events)).toContain("redispatched");
    expect(engine.job(long as JobId).state).toBe("Processing");
  });

  it("goes on when the broker is there again, and nothing is lost", async () => {
    const { seen, script } = counted(200);
    await worker({ scripts: { work: script } });
    const before = await engine.enqueueMany(10);
    await engine.clock.advance(300);
    engine.broker.setState("away");
    const during = await engine.enqueueMany(10);
    await engine.clock.advance(20_000);
    engine.broker.setState("up");
    await engine.clock.advance(20_000);
    const ids = [...before, ...during];
    expect(new Set(states(ids))).toEqual(new Set(["Succeeded"]));
    expect([...seen.runs.values()]).toEqual(ids.map(() => 1));
  });
});

describe("a change of the transport", () => {
  it("claims no more than before by messages that are left of the broker", async () => {
    await engine.store.setTransport("postgres");
    const ids = await engine.enqueueMany(2_000);
    const token = (id: JobId) => engine.database.jobs.get(id)?.token as DispatchToken;
    await publish(...ids.map((jobId) => ({ kind: "dispatch" as const, jobId, token: token(jobId), queue: "default" })));
    await worker({ scripts: { work: takes(engine.clock, 20) } });
    let most = 0;
    for (let step = 0; step < 50; step += 1) {
      await engine.clock.advance(20);
      most = Math.max(most, engine.database.processing.size);
    }
    // Two slots, and what they start within a tenth of a second.
    expect(most).toBeLessThan(30);
    await engine.clock.advance(60_000);
    expect(new Set(states(ids))).toEqual(new Set(["Succeeded"]));
    expect(engine.broker.waiting("default")).toBe(0);
  });

  it("loses no job on the way to a broker and back, and everybody says what differs", async () => {
    await engine.store.setTransport("postgres");
    const { seen, script } = counted(2_000);
    const old = await engine.role({ scripts: { work: script } });
    const early = await worker({ scripts: { work: script } });
    const ids = await engine.enqueueMany(8);
    await engine.clock.advance(3_000);
    expect(early.events).toContainEqual({ kind: "transport-differs", configured: "rabbitmq", recorded: "postgres" });
    expect(early.host.runs.length).toBeGreaterThan(0);

    await engine.store.setTransport("rabbitmq");
    ids.push(...(await engine.enqueueMany(8)));
    await engine.clock.advance(15_000);
    expect(early.events).toContainEqual({ kind: "transport-agrees", transport: "rabbitmq" });
    expect(old.events).toContainEqual({ kind: "transport-differs", configured: "postgres", recorded: "rabbitmq" });
    ids.push(...(await engine.enqueueMany(20)));
    await engine.clock.advance(1_000);

    await engine.store.setTransport("postgres");
    await engine.clock.advance(40_000);
    expect(new Set(states(ids))).toEqual(new Set(["Succeeded"]));
    expect([...seen.runs.values()]).toEqual(ids.map(() => 1));
  });
});
