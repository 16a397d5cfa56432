import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  createTestProject,
  eventually,
  getJson,
  postJson,
  postmasterPid,
  type RunningCommand,
  startUp,
  type TestProject,
} from "../support/up.ts";

interface Attempt {
  readonly execution: number;
  readonly outcome: string;
  readonly worker: string;
}

interface Job {
  readonly id: string;
  readonly state: string;
  readonly attempt: number;
  readonly lost: number;
  readonly attempts: readonly Attempt[];
}

/** Short leases, so that a loss is noticed in seconds; the proportions are those of the defaults. */
const PROJECT = `apiVersion: turno/v1
kind: Project
metadata: { name: losses }
spec:
  timeZone: UTC
  runtime:
    worker:
      queues: [{ name: default, concurrency: 4 }, { name: idle, concurrency: 1 }]
      leaseDuration: 3s
      leaseRenewal: 500ms
      heartbeat: 1s
    recovery: { interval: 500ms }
    scheduler: { interval: 500ms }
`;
const JOBS = `apiVersion: turno/v1
kind: Job
metadata: { name: gate }
spec: { handler: gate.ts }
---
apiVersion: turno/v1
kind: Job
metadata: { name: quick }
spec: { handler: quick.ts }
`;
const handler = (name: string): Promise<string> =>
  readFile(new URL(`../support/handlers/${name}.ts`, import.meta.url), "utf8");

let project: TestProject;
let up: RunningCommand & { readonly url: string };

beforeAll(async () => {
  project = await createTestProject({
    "turno.yaml": PROJECT,
    "turno.d/jobs.yaml": JOBS,
    "handlers/gate.ts": await handler("gate"),
    "handlers/quick.ts": await handler("quick"),
  });
  up = await startUp(project, { args: ["--workers", "0"] });
});
afterAll(() => project?.remove());

const api = <Body>(path: string): Promise<Body> => getJson(`${up.url}${path}`);
const jobOf = (id: string): Promise<Job> => api(`/api/jobs/${id}`);
const enqueue = async (type: string, payload: unknown): Promise<string> =>
  (await postJson<Job>(`${up.url}/api/jobs`, { type, payload })).id;

async function startWorker(): Promise<RunningCommand> {
  const worker = project.start(["worker"], { TURNO_LOG_LEVEL: "warn" });
  await worker.waitFor(/the worker serves/);
  return worker;
}

const isRunning = (id: string) => async (): Promise<boolean> => (await jobOf(id)).state === "Processing";
const isOver = (id: string) => async (): Promise<Job | false> => {
  const job = await jobOf(id);
  return ["Succeeded", "Failed", "Cancelled"].includes(job.state) && job;
};

describe("workers that are lost", () => {
  test("a killed worker's job runs again as its next execution, with the loss recorded and no failure charged", async () => {
    const doomed = await startWorker();
    const until = `${project.root}/go-killed`;
    const id = await enqueue("gate", { until });
    await eventually("the start of the run", isRunning(id));
    await doomed.end("SIGKILL");
    const heir = await startWorker();
    await eventually(
      "the second start",
      async () => (await jobOf(id)).attempts.length === 1 && (await isRunning(id)()),
    );
    await project.write("go-killed", "");
    const job = await eventually("the end of the job", isOver(id));
    expect(job).toMatchObject({ state: "Succeeded", attempt: 1, lost: 1 });
    expect(job.attempts.map(({ execution, outcome }) => [execution, outcome])).toEqual([
      [2, "succeeded"],
      [1, "lost"],
    ]);
    await heir.end("SIGTERM");
  });

  test("a worker that was stopped past its lease has its late result refused, and says so", async () => {
    const frozen = await startWorker();
    const until = `${project.root}/go-frozen`;
    const id = await enqueue("gate", { until });
    await eventually("the start of the run", isRunning(id));
    frozen.child.kill("SIGSTOP");
    const heir = await startWorker();
    await project.write("go-frozen", "");
    const job = await eventually("the end of the job", isOver(id));
    expect(job.attempts.map(({ outcome }) => outcome)).toEqual(["succeeded", "lost"]);
    frozen.child.kill("SIGCONT");
    await frozen.waitFor(/"kind":"(fenced|lease-lost)"|too late|lease was lost/);
    const after = await jobOf(id);
    expect(after).toEqual(job);
    await frozen.end("SIGTERM");
    await heir.end("SIGTERM");
  });

  test("two workers share the load, and the death of one in the middle of it loses nothing and finishes nothing twice", async () => {
    const [one, two] = await Promise.all([startWorker(), startWorker()]);
    const jobs = Array.from({ length: 400 }, () => ({ type: "quick" }));
    await postJson(`${up.url}/api/jobs/batch`, { jobs });
    const succeeded = async (): Promise<number> => {
      let count = 0;
      for (let cursor: string | null = ""; cursor !== null; ) {
        const page: { items: Job[]; nextCursor: string | null } = await api(
          `/api/jobs?type=quick&state=Succeeded&limit=200${cursor === "" ? "" : `&cursor=${cursor}`}`,
        );
        count += page.items.length;
        cursor = page.nextCursor;
      }
      return count;
    };
    await eventually("the first results", async () => (await succeeded()) > 40);
    await one?.end("SIGKILL");
    await eventually("all results", async () => (await succeeded()) === 400, 60_000);
    const { items } = await api<{ items: { running: unknown[] }[] }>("/api/workers");
    expect(items.flatMap((worker) => worker.running)).toEqual([]);
    await two?.end("SIGTERM");
  });

  test("the database killed under load comes back and everything goes on, with nothing charged", async () => {
    const worker = await startWorker();
    const until = `${project.root}/go-database`;
    const ids = [await enqueue("gate", { until }), await enqueue("gate", { until })];
    for (const id of ids) await eventually("the start of the run", isRunning(id));
    const pid = await postmasterPid(project.root);
    if (pid === null) throw new Error("there is no database to kill");
    process.kill(pid, "SIGQUIT");
    await eventually("another server", async () => {
      const now = await postmasterPid(project.root);
      return now !== null && now !== pid;
    });
    await project.write("go-database", "");
    for (const id of ids) {
      const job = await eventually("the end of the job", isOver(id));
      expect(job).toMatchObject({ state: "Succeeded", attempt: 1, lost: 0 });
      expect(job.attempts.map(({ outcome }) => outcome)).toEqual(["succeeded"]);
    }
    await worker.end("SIGTERM");
  });

  test("a worker that is asked to stop gives its job back without a charge, and another one takes it", async () => {
    const leaving = project.start(["worker"], { TURNO_RUNTIME_WORKER_SHUTDOWN_TIMEOUT: "500ms" });
    await leaving.waitFor(/the worker serves/);
    const until = `${project.root}/go-leaving`;
    const id = await enqueue("gate", { until });
    await eventually("the start of the run", isRunning(id));
    expect(await leaving.end("SIGTERM")).toBe(0);
    const heir = await startWorker();
    await project.write("go-leaving", "");
    const job = await eventually("the end of the job", isOver(id));
    expect(job).toMatchObject({ state: "Succeeded", attempt: 1, lost: 0 });
    expect(job.attempts.map(({ outcome }) => outcome)).toEqual(["succeeded", "returned"]);
    await heir.end("SIGTERM");
  });

  test("a supervisor killed with its roles leaves a database that the next one takes over", async () => {
    const id = await enqueue("gate", { until: `${project.root}/turno.yaml` });
    const before = await postmasterPid(project.root);
    await up.end("SIGKILL");
    up = await startUp(project);
    expect(await postmasterPid(project.root)).toBe(before);
    expect(await eventually("the end of the job", isOver(id))).toMatchObject({ state: "Succeeded" });
    await up.end("SIGTERM");
  });
});
