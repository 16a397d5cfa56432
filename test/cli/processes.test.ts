import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { access, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { createTestProject, eventually, getJson, startUp, type TestProject } from "../support/up.ts";

const ENTRY = fileURLToPath(new URL("../../bin/turno.js", import.meta.url));
const PROJECT = "apiVersion: turno/v1\nkind: Project\nmetadata: { name: test }\nspec: { timeZone: UTC }\n";
const JOB = "apiVersion: turno/v1\nkind: Job\nmetadata: { name: talk }\nspec: { handler: talk.ts, timeout: 1m }\n";
/** Logs until it is told by a file to end; gives back the API's address that it was given. */
const HANDLER = `import { existsSync } from "node:fs";
import { defineHandler } from "turno";
export default defineHandler<{ until?: string }>(async ({ until }, ctx) => {
  do {
    ctx.log.warn("talking");
    await new Promise((resolve) => setTimeout(resolve, 20));
  } while (until !== undefined && !existsSync(until));
  return { api: process.env.TURNO_API_URL ?? null };
});
`;

interface Job {
  readonly id: string;
  readonly state: string;
  readonly result: unknown;
  readonly attempts: readonly { readonly outcome: string }[];
}

let database: TestDatabase;
let project: TestProject;
let env: Record<string, string>;

beforeAll(async () => {
  database = await createTestDatabase();
  env = { TURNO_DATABASE_URL: database.address.connectionString };
  project = await createTestProject({ "turno.yaml": PROJECT, "turno.d/talk.yaml": JOB, "handlers/talk.ts": HANDLER });
  const apply = project.start(["apply", "--yes"], env);
  await apply.waitFor(/Revision 1 is in force/);
  await once(apply.child, "exit");
});
afterAll(async () => {
  await project?.remove();
  await database?.drop();
});

async function command<Body>(...args: readonly string[]): Promise<Body> {
  const running = project.start([...args, "--json"], env);
  await once(running.child, "close");
  return JSON.parse(running.output()) as Body;
}

/** A role as a supervisor starts it. */
function startRole(...args: readonly string[]): ChildProcess {
  return spawn(process.execPath, [ENTRY, ...args], {
    cwd: project.root,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
}

describe("a worker whose supervisor was killed", () => {
  test("finishes what it runs, though nobody reads its log any more, and ends", async () => {
    const worker = startRole("worker");
    await once(worker, "message");
    const until = join(project.root, "end-of-talk");
    const { id } = await command<Job>("enqueue", "talk", "--payload", JSON.stringify({ until }));
    worker.stderr?.resume();
    await eventually("the start of the job", async () => (await command<Job>("job", id)).state === "Processing");
    const exited = once(worker, "exit");
    // What a kill -9 of the supervisor does to its children.
    worker.stdout?.destroy();
    worker.stderr?.destroy();
    worker.disconnect();
    await eventually("the worker's drain", async () => {
      const workers = await command<{ status: string }[]>("workers");
      return workers.some(({ status }) => status === "draining");
    });
    await project.write("end-of-talk", "");
    expect(await exited).toEqual([0, null]);
    const job = await command<Job>("job", id);
    expect(job).toMatchObject({ state: "Succeeded", attempts: [{ outcome: "succeeded" }] });
  });
});

describe("turno up on a database of the settings", () => {
  test("keeps the address to itself, tells its API to a worker beside it, and stops on the first Ctrl-C", async () => {
    const up = await startUp(project, { env, args: ["--workers", "0"] });
    const facts = JSON.parse(await readFile(join(project.root, ".turno", "run", "up.json"), "utf8")) as object;
    expect(facts).toMatchObject({ url: up.url, databaseUrl: null });
    const blind = await project.run("jobs");
    expect(blind.err).toMatch(/a database of its own environment.*\n.*--server http:/);
    const second = await project.run("up");
    expect(second.err).toMatch(/TURNO_ALREADY_RUNNING/);

    const worker = project.start(["worker"], env);
    await worker.waitFor(/the worker serves default×4/);
    const done = await command<Job>("enqueue", "talk", "--wait");
    expect(done).toMatchObject({ state: "Succeeded", result: { api: up.url } });
    expect(await worker.end("SIGINT")).toBe(0);

    expect(await up.end("SIGINT")).toBe(0);
    await expect(access(join(project.root, ".turno", "run", "up.json"))).rejects.toThrow(/ENOENT/);
  });

  test("gives a role that died the settings it started with, whatever turno.yaml says by then", async () => {
    const up = await startUp(project, { env });
    const [first] = await eventually("a worker", async () => {
      const { items } = await getJson<{ items: { id: string; pid: number }[] }>(`${up.url}/api/workers`);
      return items.length > 0 && items;
    });
    await project.write("turno.yaml", "spec: { runtime: { worker: { queues: [");
    await up.waitFor(/the files were not applied/);
    process.kill(first?.pid ?? 0, "SIGKILL");
    await eventually("the worker's successor", async () => {
      const { items } = await getJson<{ items: { id: string }[] }>(`${up.url}/api/workers`);
      return items.some(({ id }) => id !== first?.id);
    });
    await project.write("turno.yaml", PROJECT);
    expect(await up.end("SIGTERM")).toBe(0);
  });

  test("stops in the middle of its start", async () => {
    const up = project.start(["up", "--port", "0"], env);
    await eventually("the claim of the folder", () =>
      access(join(project.root, ".turno", "run", "up.json")).then(() => true),
    );
    expect(await up.end("SIGINT")).toBe(0);
    await expect(access(join(project.root, ".turno", "run", "up.json"))).rejects.toThrow(/ENOENT/);
  });
});

describe("standard output", () => {
  test("that nobody reads is no error", async () => {
    const child = spawn(process.execPath, [ENTRY, "schema"], { stdio: ["ignore", "pipe", "pipe"] });
    child.stdout.destroy();
    let err = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      err += text;
    });
    expect(await once(child, "close")).toEqual([0, null]);
    expect(err).toBe("");
  });
});
