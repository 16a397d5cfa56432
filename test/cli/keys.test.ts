import { afterAll, beforeAll, expect, test } from "vitest";
import { EXIT } from "../../runtime/cli/io.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type CommandProject, createCommandProject } from "./run.ts";

/** As it stands in YAML. */
const expression = (text: string): string => `$\u007b{ ${text} }}`;

let database: TestDatabase;
let project: CommandProject;

beforeAll(async () => {
  database = await createTestDatabase();
  project = await createCommandProject({ TURNO_DATABASE_URL: database.address.connectionString });
  await project.write(
    "turno.d/keyed.yaml",
    `apiVersion: turno/v1
kind: Job
metadata: { name: keyed }
spec:
  handler: greet.ts
  concurrencyKey: "customer-${expression("payload.customer")}"
---
apiVersion: turno/v1
kind: Job
metadata: { name: single }
spec:
  handler: greet.ts
  unique: { key: "${expression("payload.batch")}", for: 1h, until: finished }
---
apiVersion: turno/v1
kind: Schedule
metadata: { name: nightly }
spec: { job: keyed, cron: 0 3 * * *, payload: { customer: 9 } }
`,
  );
  expect(await project.run("apply", "--yes")).toMatchObject({ code: EXIT.done });
});
afterAll(async () => {
  await project?.remove();
  await database?.drop();
});

async function enqueue(...args: string[]) {
  const { code, out, err } = await project.run("enqueue", ...args);
  return { code, err, out, id: out.slice(0, 36), rest: out.slice(38).trimEnd() };
}

async function show(id: string): Promise<{ hold: string | null; concurrencyKey: string | null; state: string }> {
  return JSON.parse((await project.run("job", id, "--json")).out);
}

test("a job waits for the one that has its concurrency key, and gets it by the other's end", async () => {
  const first = await enqueue("keyed", "--payload", '{"customer":7}');
  const second = await enqueue("keyed", "--payload", '{"customer":7}');
  const own = await enqueue("keyed", "--payload", '{"customer":7}', "--concurrency-key", "another");
  expect([first.rest, second.rest, own.rest]).toEqual([
    "Enqueued in default",
    "Scheduled in default",
    "Enqueued in default",
  ]);
  expect(await show(second.id)).toMatchObject({ state: "Scheduled", hold: "key", concurrencyKey: "customer-7" });
  expect((await project.run("job", second.id)).out).toMatch(/state +Scheduled \(key\)\n(?:.*\n)*key +customer-7\n/);
  await project.run("cancel", first.id);
  expect(await show(second.id)).toMatchObject({ state: "Enqueued", hold: null });
});

test("a payload that gives no key is refused with what is missing", async () => {
  const { code, err, out } = await enqueue("keyed", "--payload", '{"client":7}');
  expect(err).toMatch(/\/payload: gives no concurrency key \(customer-.*\): No such key: customer/);
  expect({ code, out }).toEqual({ code: EXIT.failed, out: "" });
});

test("the runs of a schedule have the key of their payload", async () => {
  await project.run("trigger", "nightly");
  const { out } = await project.run("jobs", "--schedule", "nightly", "--json");
  expect(JSON.parse(out).items).toMatchObject([{ concurrencyKey: "customer-9", state: "Enqueued" }]);
});

test("the same command with the same idempotency key creates one job, another command none", async () => {
  const args = ["greet", "--payload", '{"name":"Ana"}', "--idempotency-key", "daily-1"];
  const first = await enqueue(...args);
  expect(await enqueue(...args)).toEqual(first);
  const other = await enqueue("greet", "--payload", '{"name":"Bia"}', "--idempotency-key", "daily-1");
  expect(other.err).toContain("[TURNO_API_KEY_REUSED]");
  expect(other.code).toBe(EXIT.failed);
});

test("a duplicate of a unique job names the job that is there", async () => {
  const first = await enqueue("single", "--payload", '{"batch":3}');
  const second = await enqueue("single", "--payload", '{"batch":3}');
  expect(second).toMatchObject({ code: EXIT.done, id: first.id });
  expect(second.rest).toBe("Enqueued in default (it was there before: its job type is unique)");
  await project.run("cancel", first.id);
  expect((await enqueue("single", "--payload", '{"batch":3}')).id).not.toBe(first.id);
});

test("applying the same files again changes nothing", async () => {
  expect(await project.run("plan")).toMatchObject({ code: EXIT.done });
});
