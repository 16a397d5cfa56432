import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { DispatchToken, JobId } from "../../runtime/core/ids.ts";
import type { BrokerMessage } from "../../runtime/protocol/ports/transport.ts";
import { eventually, getJson, postmasterPid, type RunningCommand } from "../support/up.ts";
import { type Cluster, startCluster } from "./cluster.ts";

/** `npm run cluster -- --jobs 6000` sets it. */
const COUNT = Number(process.env.TURNO_CLUSTER_JOBS ?? "60");

let cluster: Cluster;
const workers: RunningCommand[] = [];

beforeAll(async () => {
  cluster = await startCluster();
}, 120_000);
afterEach(async () => {
  for (const { child } of workers) child.kill("SIGCONT");
  await Promise.all(workers.splice(0).map((worker) => worker.end("SIGTERM")));
});
afterAll(() => cluster?.remove(), 60_000);

async function startWorkers(count: number): Promise<readonly RunningCommand[]> {
  const started = await Promise.all(Array.from({ length: count }, () => cluster.startWorker()));
  workers.push(...started);
  return started;
}

const notes = (count: number, ledger: string, more: object = {}) =>
  Array.from({ length: count }, () => ({ type: "note", payload: { ledger: cluster.pathOf(ledger), ...more } }));
const dispatch = (jobId: string, token: string | bigint): BrokerMessage => ({
  kind: "dispatch",
  jobId: jobId as JobId,
  token: BigInt(token) as DispatchToken,
  queue: "default",
});

/** Each job has one start and one end in its ledger. */
async function expectOnce(ids: readonly string[], ledger: string): Promise<void> {
  const lines = await cluster.ledger(ledger);
  for (const word of ["start", "end"]) {
    const found = lines.filter((line) => line.startsWith(word)).map((line) => line.split(" ")[1]);
    expect([...found].sort()).toEqual([...ids].sort());
  }
}

describe("a cluster on PostgreSQL, RabbitMQ and three Redis nodes", { timeout: 120_000 }, () => {
  test(`runs ${COUNT} jobs on three workers once each`, { timeout: 60_000 + COUNT * 50 }, async () => {
    await startWorkers(3);
    const ids = await cluster.enqueue(notes(COUNT, "many", { ms: COUNT > 60 ? 0 : 50 }));
    await cluster.ended(ids, 30_000 + COUNT * 50);
    const outcomes = await cluster.query(
      `select state, lost, count(*)::int as jobs, count(distinct worker_id)::int as workers
       from turno.jobs where id = any ($1::uuid[]) group by state, lost`,
      [ids],
    );
    expect(outcomes).toEqual([{ state: "Succeeded", lost: 0, jobs: COUNT, workers: 3 }]);
    await expectOnce(ids, "many");
    expect(await getJson(`${cluster.url()}/health/ready`)).toMatchObject({
      status: "ready",
      checks: { database: { status: "up" }, broker: { status: "up" }, locks: { status: "up" } },
    });
  });

  test("shows an operator the broker with its queues, the locks and the outbox, and no credentials", async () => {
    await startWorkers(1);
    const doctor = cluster.command("doctor");
    await doctor.waitFor(/^ok +database/m);
    const output = doctor.output();
    expect(output).toMatch(/^ok +broker +rabbitmq connected; messages waiting: default 0$/m);
    expect(output).toMatch(/^ok +locks +3 of 3 Redis nodes answer$/m);
    expect(output).toMatch(/^ok +outbox +0 messages to be published$/m);
    expect(output).not.toContain("guest");
  });

  test("ignores messages that come twice, and those of dispatches that are over", async () => {
    await startWorkers(2);
    const ids = await cluster.enqueue(notes(10, "twice"));
    const done = await cluster.ended(ids);
    const old = done.map(({ id, result }) => dispatch(id, result?.fence ?? "0"));
    const [gate = ""] = await cluster.enqueue([{ type: "gate", payload: { until: cluster.pathOf("go-twice") } }]);
    await cluster.running(gate);
    const [row] = await cluster.query<{ dispatch_id: string }>("select dispatch_id from turno.jobs where id = $1", [
      gate,
    ]);
    const again = dispatch(gate, row?.dispatch_id ?? "0");
    await cluster.publish([...old, ...old, again, again, again]);
    // Behind them in the queue: when it has run, they have been looked at.
    const behind = await cluster.enqueue(notes(8, "twice-behind"));
    await cluster.ended(behind);
    await cluster.project.write("go-twice", "");
    expect(await cluster.ended([gate])).toMatchObject([{ state: "Succeeded", execution: 1, lost: 0 }]);
    await expectOnce(ids, "twice");
  });

  test("gives a hanging worker's job to another, and refuses its late result", async () => {
    const [frozen] = await startWorkers(1);
    const [id = ""] = await cluster.enqueue([{ type: "gate", payload: { until: cluster.pathOf("go-frozen") } }]);
    await cluster.running(id);
    frozen?.child.kill("SIGSTOP");
    await startWorkers(1);
    await cluster.project.write("go-frozen", "");
    const [job] = await cluster.ended([id]);
    expect(job).toMatchObject({ state: "Succeeded", lost: 1 });
    expect(job?.attempts.map(({ outcome }) => outcome)).toEqual(["succeeded", "lost"]);
    frozen?.child.kill("SIGCONT");
    await frozen?.waitFor(/too late|lease was lost/);
    expect(await cluster.job(id)).toEqual(job);
  });

  test("never runs two jobs with one concurrency key at once", async () => {
    await startWorkers(3);
    const keyed = notes(24, "keyed", { ms: 20, room: cluster.pathOf("room") });
    const ids = await cluster.enqueue(keyed.map((job) => ({ ...job, concurrencyKey: "customer-7" })));
    await cluster.ended(ids);
    await expectOnce(ids, "keyed");
    expect((await cluster.ledger("keyed")).filter((line) => line.startsWith("overlap"))).toEqual([]);
  });

  test("gives back what a stopping worker has, and charges nothing for it", async () => {
    const leaving = await cluster.startWorker({ TURNO_RUNTIME_WORKER_SHUTDOWN_TIMEOUT: "200ms" });
    const ids = await cluster.enqueue(
      Array.from({ length: 6 }, () => ({ type: "gate", payload: { until: cluster.pathOf("go-leaving") } })),
    );
    await cluster.running(ids[0] ?? "");
    expect(await leaving.end("SIGTERM")).toBe(0);
    await startWorkers(1);
    await cluster.project.write("go-leaving", "");
    const jobs = await cluster.ended(ids);
    for (const job of jobs) expect(job).toMatchObject({ state: "Succeeded", attempt: 1, lost: 0 });
    expect(jobs.some(({ attempts }) => attempts.some(({ outcome }) => outcome === "returned"))).toBe(true);
  });

  test("goes on when a Redis has lost its data, and when all of them are away", async () => {
    await startWorkers(2);
    const slow = await cluster.enqueue(notes(30, "redis", { ms: 100 }));
    await Promise.all(cluster.redis.map((node) => node.restart()));
    const more = await cluster.enqueue(notes(10, "redis", { ms: 10 }));
    await cluster.ended([...slow, ...more]);
    for (const node of cluster.redis) node.freeze();
    const ready = () =>
      getJson<{ status: string; checks: Record<string, { status: string }> }>(`${cluster.url()}/health/ready`);
    const without = await cluster.enqueue(notes(10, "redis", { ms: 10 }));
    await cluster.ended(without);
    const degraded = await eventually("a check that says degraded", async () => {
      const report = await ready();
      return report.status === "degraded" && report;
    });
    expect(degraded.checks).toMatchObject({ broker: { status: "up" }, locks: { status: "degraded" } });
    for (const node of cluster.redis) node.thaw();
    await eventually("a check that says ready", async () => (await ready()).status === "ready");
    await expectOnce([...slow, ...more, ...without], "redis");
  });

  test("loses nothing when the database is killed under load", async () => {
    await startWorkers(2);
    const ids = await cluster.enqueue(notes(60, "database", { ms: 50 }));
    const pid = await postmasterPid(cluster.project.root);
    if (pid === null) throw new Error("there is no database to kill");
    process.kill(pid, "SIGQUIT");
    await eventually("another server", async () => {
      const now = await postmasterPid(cluster.project.root);
      return now !== null && now !== pid;
    });
    const jobs = await cluster.ended(ids);
    expect(jobs.every(({ state }) => state === "Succeeded")).toBe(true);
    expect(jobs.every(({ attempts }) => attempts.filter(({ outcome }) => outcome === "succeeded").length === 1)).toBe(
      true,
    );
  });

  test("loses nothing when the broker is killed under load, and says so while it is away", async () => {
    await startWorkers(2);
    const before = await cluster.enqueue(notes(40, "broker", { ms: 50 }));
    await cluster.rabbit.halt("kill");
    const during = await cluster.enqueue(notes(20, "broker", { ms: 5 }));
    const away = await eventually("a check that fails", async () => {
      const response = await fetch(`${cluster.url()}/health/ready`);
      return response.status === 503 && ((await response.json()) as { checks: Record<string, { status: string }> });
    });
    expect(away.checks).toMatchObject({ database: { status: "up" }, broker: { status: "down" } });
    await cluster.rabbit.start();
    const ids = [...before, ...during];
    const jobs = await cluster.ended(ids);
    expect(jobs.every(({ state, lost }) => state === "Succeeded" && lost === 0)).toBe(true);
    await expectOnce(ids, "broker");
  });

  test("changes the transport with jobs waiting, to PostgreSQL and back, and loses none", async () => {
    const toPostgres = { TURNO_RUNTIME_BROKER_TRANSPORT: "postgres" };
    const ids = [...(await cluster.enqueue(notes(20, "switch", { ms: 10 })))];
    await cluster.restart(toPostgres);
    ids.push(...(await cluster.enqueue(notes(10, "switch", { ms: 10 }))));
    const claiming = await cluster.startWorker(toPostgres);
    workers.push(claiming);
    await cluster.ended(ids);
    await claiming.end("SIGTERM");

    ids.push(...(await cluster.enqueue(notes(20, "switch", { ms: 10 }))));
    await cluster.restart();
    const [consuming] = await startWorkers(1);
    ids.push(...(await cluster.enqueue(notes(10, "switch", { ms: 10 }))));
    await cluster.ended(ids);
    expect(consuming?.output()).not.toContain("another transport");
    await expectOnce(ids, "switch");
    const left = await cluster.query<{ messages: number }>(
      "select count(*)::int as messages from turno.outbox_message",
    );
    expect(left).toEqual([{ messages: 0 }]);
  });
});
