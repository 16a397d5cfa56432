import { readFile } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ServiceBusServer, startServiceBusServer } from "../support/servicebus-server.ts";
import { createTestProject, eventually, getJson, postJson, startUp, type TestProject } from "../support/up.ts";

const PROJECT = `apiVersion: turno/v1
kind: Project
metadata: { name: azure }
spec:
  timeZone: UTC
  runtime:
    worker: { queues: [{ name: default, concurrency: 4 }] }
`;
const JOB = "apiVersion: turno/v1\nkind: Job\nmetadata: { name: note }\nspec: { handler: note.ts }\n";
const COUNT = 20;

let bus: ServiceBusServer;
let project: TestProject;

beforeAll(async () => {
  bus = await startServiceBusServer();
  project = await createTestProject({
    "turno.yaml": PROJECT,
    "turno.d/jobs.yaml": JOB,
    "handlers/note.ts": await readFile(new URL("../support/handlers/note.ts", import.meta.url), "utf8"),
  });
});
afterAll(async () => {
  await project?.remove();
  await bus?.close();
}, 60_000);

test(`a server and a worker on Service Bus run ${COUNT} jobs once each, and show no key`, {
  timeout: 120_000,
}, async () => {
  const env = {
    TURNO_RUNTIME_BROKER_TRANSPORT: "servicebus",
    TURNO_SERVICEBUS_CONNECTION_STRING: bus.connectionString(),
    TURNO_LOG_LEVEL: "info",
  };
  bus.createQueue("turno-dead-letter");
  const up = await startUp(project, { args: ["--workers", "0"], env });
  const run = JSON.parse(await readFile(join(project.root, ".turno", "run", "up.json"), "utf8")) as {
    databaseUrl: string;
  };
  const client = new pg.Client({ connectionString: run.databaseUrl });
  await client.connect();
  try {
    const installations = await client.query<{ short_id: string }>("select short_id from turno.installation");
    const queue = `turno-${installations.rows[0]?.short_id}-default`;
    const worker = project.start(["worker"], env);
    // As somebody learns it who has made no queue yet.
    await worker.waitFor(new RegExp(`the queue ${queue} does not exist`));
    bus.createQueue(queue);
    const ledger = join(project.root, "ledger");
    const jobs = Array.from({ length: COUNT }, () => ({ type: "note", payload: { ledger } }));
    const { items } = await postJson<{ items: { id: string }[] }>(`${up.url}/api/jobs/batch`, { jobs });
    const ids = items.map(({ id }) => id);
    await eventually(`the end of ${COUNT} jobs`, async () => {
      const { rows } = await client.query<{ state: string; lost: number; jobs: number }>(
        "select state, lost, count(*)::int as jobs from turno.jobs where id = any ($1::uuid[]) group by state, lost",
        [ids],
      );
      return rows.length === 1 && rows[0]?.state === "Succeeded" && rows[0].lost === 0 && rows[0].jobs === COUNT;
    });
    const lines = (await readFile(ledger, "utf8")).trim().split("\n");
    for (const word of ["start", "end"]) {
      const found = lines.filter((line) => line.startsWith(word)).map((line) => line.split(" ")[1]);
      expect(found.sort()).toEqual([...ids].sort());
    }
    expect(bus.batches.reduce((sum, count) => sum + count, 0)).toBeGreaterThanOrEqual(COUNT);
    await eventually("an empty queue", async () => bus.messages(queue).length + bus.locked(queue) === 0);
    expect(await getJson(`${up.url}/health/ready`)).toMatchObject({ checks: { broker: { status: "up" } } });
    expect(await worker.end("SIGTERM")).toBe(0);
    expect(worker.output()).not.toContain(bus.key);
  } finally {
    await client.end();
    await up.end("SIGTERM");
  }
});
