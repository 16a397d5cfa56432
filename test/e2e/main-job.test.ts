import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  createTestProject,
  eventually,
  getJson,
  postJson,
  type RunningCommand,
  startUp,
  type TestProject,
} from "../support/up.ts";

interface Job {
  readonly id: string;
  readonly state: string;
  readonly result: unknown;
  readonly schedule: string | null;
  readonly source: { readonly file: string; readonly line: number; readonly revision: number };
  readonly attempts: readonly { readonly bundle: string | null; readonly revision: number }[];
}

interface Schedule {
  readonly name: string;
  readonly nextFireAt: string | null;
}

const PROJECT = `apiVersion: turno/v1
kind: Project
metadata: { name: e2e }
spec:
  include: [turno.d/*.yaml]
  timeZone: UTC
  runtime:
    scheduler: { interval: 500ms }
`;

const job = (name: string, handler: string): string =>
  `apiVersion: turno/v1\nkind: Job\nmetadata: { name: ${name} }\nspec: { handler: ${handler} }\n`;
const schedule = (cron: string): string =>
  `apiVersion: turno/v1\nkind: Schedule\nmetadata: { name: often }\nspec: { job: greet, cron: "${cron}" }\n`;
const greet = (word: string): string =>
  `import { defineHandler } from "turno";\nexport default defineHandler(() => ({ word: "${word}" }));\n`;
const SLOW = await readFile(new URL("../support/handlers/slow.ts", import.meta.url), "utf8");
const slow = (word: string): string => SLOW.replace('"first"', `"${word}"`);

let project: TestProject;
let up: RunningCommand & { readonly url: string };

beforeAll(async () => {
  project = await createTestProject({
    "turno.yaml": PROJECT,
    "turno.d/jobs.yaml": `${job("greet", "greet.ts")}---\n${job("slow", "slow.ts")}`,
    "turno.d/often.yaml": schedule("* * * * * *"),
    "handlers/greet.ts": greet("first"),
    "handlers/slow.ts": slow("first"),
  });
  up = await startUp(project);
});
afterAll(() => project?.remove());

const api = <Body>(path: string): Promise<Body> => getJson(`${up.url}${path}`);
const finished = (id: string): Promise<Job> =>
  eventually(`the end of job ${id}`, async () => {
    const found = await api<Job>(`/api/jobs/${id}`);
    return ["Succeeded", "Failed", "Cancelled"].includes(found.state) && found;
  });

describe("turno up", () => {
  test("runs what the files declare, and each run leads back to its file and line", async () => {
    const [run] = await eventually("a scheduled job that succeeded", async () => {
      const { items } = await api<{ items: Job[] }>("/api/jobs?state=Succeeded&schedule=often");
      return items.length > 0 && items;
    });
    expect(run).toMatchObject({
      result: { word: "first" },
      schedule: "often",
      source: { file: "turno.d/often.yaml", line: 2 },
    });
  });

  test("refuses a second supervisor in the same folder", async () => {
    const second = await project.run("up", "--port", "0");
    expect(second.code).toBe(1);
    expect(second.err).toMatch(/TURNO_ALREADY_RUNNING/);
  });

  test("brings a changed cron into force within moments, without a restart", async () => {
    const next = async (): Promise<string | null | undefined> =>
      (await api<{ items: Schedule[] }>("/api/recurring-jobs")).items.find(({ name }) => name === "often")?.nextFireAt;
    await project.write("turno.d/often.yaml", schedule("30 2 29 2 *"));
    const at = await eventually(
      "the next fire of the new cron",
      async () => {
        const found = await next();
        return found?.includes("-02-29T02:30:00") === true && found;
      },
      5_000,
    );
    expect(new Date(at).getUTCHours()).toBe(2);
  });

  test("a broken edit changes nothing and says where", async () => {
    await project.write("turno.d/often.yaml", schedule("30 25 * * *"));
    await up.waitFor(/turno\.d\/often\.yaml:4:\d+/);
    const { items } = await api<{ items: Schedule[] }>("/api/recurring-jobs");
    expect(items.find(({ name }) => name === "often")?.nextFireAt).toContain("-02-29T02:30:00");
    await project.write("turno.d/often.yaml", schedule("30 2 29 2 *"));
  });

  test("an edited handler changes the next run, and a running one finishes on its old code", async () => {
    const until = `${project.root}/go`;
    const { id: old } = await postJson<Job>(`${up.url}/api/jobs`, { type: "slow", payload: { until } });
    await eventually(
      "the start of the old run",
      async () => (await api<Job>(`/api/jobs/${old}`)).state === "Processing",
    );
    await project.write("handlers/slow.ts", slow("second"));
    const types = () => api<{ items: { name: string; bundle: string }[] }>("/api/job-types");
    const before = (await types()).items.find(({ name }) => name === "slow")?.bundle;
    await eventually(
      "the new bundle in force",
      async () => (await types()).items.find(({ name }) => name === "slow")?.bundle !== before,
    );
    const { id: fresh } = await postJson<Job>(`${up.url}/api/jobs`, { type: "slow", payload: { until } });
    await project.write("go", "");
    const [first, second] = [await finished(old), await finished(fresh)];
    expect([first.result, second.result]).toEqual([{ word: "first" }, { word: "second" }]);
    expect(first.attempts[0]?.bundle).not.toBe(second.attempts[0]?.bundle);
    expect(second.attempts[0]?.revision).toBeGreaterThan(first.attempts[0]?.revision ?? 0);
  });

  test("the commands of the folder see the same state", async () => {
    const listed = await project.run("schedules", "--json");
    expect(JSON.parse(listed.out)).toEqual([expect.objectContaining({ name: "often" })]);
    const done = await project.run("enqueue", "greet", "--wait", "--json");
    expect(done.code).toBe(0);
    expect(JSON.parse(done.out)).toMatchObject({ state: "Succeeded", result: { word: "first" } });
    const unknown = await project.run("enqueue", "nobody");
    expect(unknown.code).toBe(1);
    expect(unknown.err).toMatch(/nobody/);
    const planned = await project.run("plan");
    expect(planned).toMatchObject({ code: 0 });
  });

  test("ends cleanly on Ctrl-C and starts again where it was", async () => {
    expect(await up.end("SIGINT")).toBe(0);
    up = await startUp(project);
    expect(up.output()).toMatch(/is in force, nothing changed/);
    expect((await api<{ items: Job[] }>("/api/jobs?state=Succeeded")).items.length).toBeGreaterThan(0);
  });
});
