import { readFile } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import { openRabbitBroker } from "../../runtime/adapters/rabbitmq/broker.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import type { BrokerMessage } from "../../runtime/protocol/ports/transport.ts";
import { startRedis, type TestRedis } from "../support/redis.ts";
import { type RabbitServer, startRabbitServer } from "../support/services/rabbitmq-server.ts";
import {
  createTestProject,
  eventually,
  getJson,
  postJson,
  type RunningCommand,
  startUp,
  type TestProject,
} from "../support/up.ts";

export interface JobBody {
  readonly id: string;
  readonly state: string;
  readonly attempt: number;
  readonly lost: number;
  readonly execution: number;
  readonly result: { readonly fence: string } | null;
  readonly attempts: readonly { readonly execution: number; readonly outcome: string; readonly worker: string }[];
}

/** Short leases, so that a loss is noticed in seconds; the proportions are those of the defaults. */
const PROJECT = `apiVersion: turno/v1
kind: Project
metadata: { name: cluster }
spec:
  timeZone: UTC
  runtime:
    worker:
      queues: [{ name: default, concurrency: 4 }]
      leaseDuration: 3s
      leaseRenewal: 500ms
      heartbeat: 1s
      shutdownTimeout: 5s
    recovery: { interval: 500ms }
    scheduler: { interval: 500ms }
`;
const JOBS = `apiVersion: turno/v1
kind: Policy
metadata: { name: impatient }
spec: { retry: { maxAttempts: 5, backoff: { type: fixed, initial: 200ms } } }
---
apiVersion: turno/v1
kind: Job
metadata: { name: gate }
spec: { handler: gate.ts, policy: impatient }
---
apiVersion: turno/v1
kind: Job
metadata: { name: note }
spec: { handler: note.ts, policy: impatient }
`;

/** A server, and workers that are processes of their own, on PostgreSQL, RabbitMQ and three Redis nodes. */
export interface Cluster {
  readonly project: TestProject;
  readonly rabbit: RabbitServer;
  readonly redis: readonly TestRedis[];
  readonly url: () => string;
  /** The server again, with other settings. */
  restart(env?: Readonly<Record<string, string>>): Promise<void>;
  startWorker(env?: Readonly<Record<string, string>>): Promise<RunningCommand>;
  /** A command with the cluster's settings. */
  command(...args: readonly string[]): RunningCommand;
  enqueue(jobs: readonly object[]): Promise<readonly string[]>;
  job(id: string): Promise<JobBody>;
  /** Resolves when each of them has ended. */
  ended(ids: readonly string[], limitMs?: number): Promise<readonly JobBody[]>;
  running(id: string): Promise<void>;
  /** Lines of a ledger, `word job fence` each. */
  ledger(name: string): Promise<readonly string[]>;
  pathOf(name: string): string;
  /** Past the outbox, as a broker does that delivers twice or late. */
  publish(messages: readonly BrokerMessage[]): Promise<void>;
  query<Row extends object>(text: string, values?: readonly unknown[]): Promise<readonly Row[]>;
  remove(): Promise<void>;
}

export async function startCluster(): Promise<Cluster> {
  const [rabbit, ...redis] = await Promise.all([startRabbitServer(), startRedis(), startRedis(), startRedis()]);
  const here = (path: string) => readFile(new URL(path, import.meta.url), "utf8");
  const project = await createTestProject({
    "turno.yaml": PROJECT,
    "turno.d/jobs.yaml": JOBS,
    "handlers/gate.ts": await here("../support/handlers/gate.ts"),
    "handlers/note.ts": await here("../support/handlers/note.ts"),
  });
  const brokered: Record<string, string> = {
    TURNO_RUNTIME_BROKER_TRANSPORT: "rabbitmq",
    TURNO_RABBITMQ_URL: rabbit.url,
    TURNO_RUNTIME_LOCKS_DRIVER: "redlock",
    TURNO_RUNTIME_LOCKS_REDLOCK_EXPIRY: "3s",
  };
  redis.forEach(({ port }, index) => {
    brokered[`TURNO_RUNTIME_LOCKS_REDLOCK_URLS_${index}`] = `redis://127.0.0.1:${port}`;
  });
  let up = await startUp(project, { args: ["--workers", "0"], env: brokered });
  const api = <Body>(path: string): Promise<Body> => getJson(`${up.url}${path}`);
  const job = (id: string): Promise<JobBody> => api(`/api/jobs/${id}`);
  const query: Cluster["query"] = async <Row extends object>(text: string, values: readonly unknown[] = []) => {
    const { databaseUrl } = JSON.parse(await readFile(join(project.root, ".turno", "run", "up.json"), "utf8")) as {
      databaseUrl: string;
    };
    const client = new pg.Client({ connectionString: databaseUrl });
    await client.connect();
    try {
      return (await client.query<Row>(text, [...values])).rows;
    } finally {
      await client.end();
    }
  };

  return {
    project,
    rabbit,
    redis,
    url: () => up.url,
    async restart(env = brokered) {
      await up.end("SIGTERM");
      up = await startUp(project, { args: ["--workers", "0"], env });
    },
    async startWorker(env = {}) {
      const worker = project.start(["worker"], { TURNO_LOG_LEVEL: "info", ...brokered, ...env });
      await worker.waitFor(/the worker serves/);
      return worker;
    },
    command: (...args) => project.start(args, brokered),
    async enqueue(jobs) {
      const ids: string[] = [];
      for (let from = 0; from < jobs.length; from += 1_000) {
        const batch = jobs.slice(from, from + 1_000);
        const { items } = await postJson<{ items: { id: string }[] }>(`${up.url}/api/jobs/batch`, { jobs: batch });
        ids.push(...items.map(({ id }) => id));
      }
      return ids;
    },
    job,
    async ended(ids, limitMs = 60_000) {
      const isOver = async (): Promise<boolean> => {
        const [row] = await query<{ open: number }>(
          "select count(*)::int as open from turno.jobs where id = any ($1::uuid[]) and state not in ('Succeeded', 'Failed', 'Cancelled')",
          [ids],
        );
        return row?.open === 0;
      };
      await eventually(`the end of ${ids.length} jobs`, isOver, limitMs);
      return ids.length > 100 ? [] : Promise.all(ids.map(job));
    },
    async running(id) {
      await eventually("the start of the run", async () => (await job(id)).state === "Processing");
    },
    async ledger(name) {
      const text = await readFile(join(project.root, name), "utf8").catch(() => "");
      return text.split("\n").filter((line) => line !== "");
    },
    pathOf: (name) => join(project.root, name),
    async publish(messages) {
      const [installation] = await query<{ short_id: string }>("select short_id from turno.installation");
      const broker = await openRabbitBroker({
        url: rabbit.url,
        vhost: null,
        tls: { ca: null, cert: null, key: null, serverName: null },
        prefix: "turno",
        installation: installation?.short_id ?? "",
        logger: silentLogger,
      });
      const outcomes = await broker.publish(messages);
      await broker.close();
      const lost = outcomes.filter((outcome) => outcome !== "confirmed");
      if (lost.length > 0) throw new Error(`${lost.length} messages were not confirmed`);
    },
    query,
    async remove() {
      await project.remove();
      await Promise.all([rabbit.remove(), ...redis.map((node) => node.stop())]);
    },
  };
}
