import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  createTestProject,
  eventually,
  getJson,
  postJson,
  type RunningCommand,
  startUp,
  type TestProject,
} from "../support/up.ts";

interface Link {
  readonly id: string;
  readonly type: string;
  readonly state: string;
}

interface Job extends Link {
  readonly attempt: number;
  readonly result: unknown;
  readonly parent: Link | null;
  readonly children: readonly Link[];
  readonly attempts: readonly { readonly outcome: string }[];
  readonly timeline: readonly { readonly reason: string | null }[];
}

const job = (name: string, spec: string): string =>
  `apiVersion: turno/v1\nkind: Job\nmetadata: { name: ${name} }\nspec: ${spec}\n`;
const SCHEMA = "{ type: object, required: [n], properties: { n: { type: integer } } }";
const COMMAND = "sleep 300 & echo $$ $! > pids.part; mv pids.part pids; trap '' TERM; wait; sleep 300";

let project: TestProject;
let up: RunningCommand & { readonly url: string };

beforeAll(async () => {
  project = await createTestProject({
    "turno.yaml":
      "apiVersion: turno/v1\nkind: Project\nmetadata: { name: asking }\nspec:\n  timeZone: UTC\n  runtime: { worker: { heartbeat: 200ms } }\n",
    "turno.d/jobs.yaml": [
      job("parent", "{ handler: parent.ts }"),
      job("child", `{ handler: child.ts, payload: ${SCHEMA} }`),
      job("wrong", "{ handler: wrong.ts, policy: once }"),
      job("sleeps", `{ handler: builtin/command, settings: { command: [/bin/sh, -c, "${COMMAND}"] } }`),
      "apiVersion: turno/v1\nkind: Policy\nmetadata: { name: once }\nspec: { retry: { maxAttempts: 1 } }\n",
    ].join("---\n"),
    "handlers/parent.ts": `import { defineHandler } from "turno";
      export default defineHandler(async (_payload, ctx) => {
        if (ctx.execution === 1) return ctx.snooze("1s");
        const { id } = await ctx.enqueue("child", { n: 1 });
        await ctx.enqueue("child", { n: 2 }, { priority: 5, delay: 1 });
        return { first: id };
      });`,
    "handlers/child.ts": `import { defineHandler } from "turno";
      export default defineHandler<{ n: number }>(({ n }) => n * 10);`,
    "handlers/wrong.ts": `import { defineHandler } from "turno";
      export default defineHandler(async (_payload, ctx) => {
        await ctx.enqueue("child", { n: "one" });
      });`,
  });
  up = await startUp(project);
});
afterAll(() => project?.remove());

const enqueue = async (type: string): Promise<string> =>
  (await postJson<Job>(`${up.url}/api/jobs`, { type, payload: {} })).id;
const finished = (id: string): Promise<Job> =>
  eventually(`the end of job ${id}`, async () => {
    const found = await getJson<Job>(`${up.url}/api/jobs/${id}`);
    return ["Succeeded", "Failed", "Cancelled"].includes(found.state) && found;
  });

test("a job snoozes, enqueues two others with its success, and each names the other", async () => {
  const parent = await finished(await enqueue("parent"));
  expect(parent).toMatchObject({ state: "Succeeded", attempt: 1, parent: null });
  expect(parent.attempts.map(({ outcome }) => outcome)).toEqual(["succeeded", "snoozed"]);
  expect(parent.timeline.map(({ reason }) => reason)).toContain("snoozed");
  expect(parent.children.map(({ type }) => type)).toEqual(["child", "child"]);
  expect(parent.result).toEqual({ first: parent.children[0]?.id });
  const children = await Promise.all(parent.children.map(({ id }) => finished(id)));
  expect(children.map(({ result }) => result)).toEqual([10, 20]);
  for (const { parent: named } of children) expect(named).toMatchObject({ id: parent.id, type: "parent" });
});

test("a payload that does not fit the child's schema fails the attempt, with the place", async () => {
  const wrong = await finished(await enqueue("wrong"));
  expect(wrong).toMatchObject({ state: "Failed", children: [] });
  expect(wrong).toHaveProperty("error", expect.stringMatching(/^EnqueueError: "child" is not enqueued: \/payload\/n/));
});

test("workers tell by how much their clock is off", async () => {
  const skew = await eventually("a measured clock", async () => {
    const { items } = await getJson<{ items: { clockSkewMs: number | null }[] }>(`${up.url}/api/workers`);
    return items[0]?.clockSkewMs ?? false;
  });
  expect(Math.abs(skew)).toBeLessThan(1_000);
});

test("a command ends with the worker that ran it when that one is killed", async () => {
  await enqueue("sleeps");
  const file = join(project.root, "pids");
  await eventually("the command", async () => existsSync(file));
  const pids = readFileSync(file, "utf8").trim().split(" ").map(Number);
  const { items } = await getJson<{ items: { pid: number }[] }>(`${up.url}/api/workers`);
  process.kill(items[0]?.pid ?? 0, "SIGKILL");
  await eventually("the end of the command", async () => !pids.some(isAlive));
});

/** A zombie, dead and not yet collected by init, counts as gone. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !existsSync(`/proc/${pid}/stat`) || !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}
