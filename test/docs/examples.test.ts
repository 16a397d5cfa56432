import { symlinkSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { typeCheckHandlers } from "../../runtime/adapters/handlers/type-check.ts";
import { loadProject } from "../../runtime/config/load-project.ts";
import { checkTeamRules } from "../../runtime/config/team-rules.ts";
import { loadTimeTests } from "../../runtime/config/time-tests.ts";
import { makeFolder, openWorkbench } from "../handlers/support.ts";
import { createTestDatabase } from "../support/database.ts";
import { ROOT, readDocument, readDocuments } from "./documents.ts";

const documents = readDocuments();
const MODULES = join(ROOT, "node_modules");

const PROJECT = "apiVersion: turno/v1\nkind: Project\nmetadata: { name: docs }\nspec: { timeZone: UTC }\n";
const QUEUE = "apiVersion: turno/v1\nkind: Queue\nmetadata: { name: default }\nspec: {}\n";

/** Blocks of documents of Turno; parts of one are prose. */
const wholeDocuments = documents.flatMap(({ path, blocks }) =>
  blocks
    .filter(({ language, text }) => language === "yaml" && /^apiVersion: turno\/v1$/m.test(text))
    .map(({ text, line }) => ({ place: `${path}:${line}`, text })),
);

test("there are whole YAML documents to check", () => {
  expect(wholeDocuments.length).toBeGreaterThan(6);
});

test.each(wholeDocuments)("the YAML at $place is valid", ({ text }) => {
  if (/^kind: TimeTests$/m.test(text)) {
    expect(loadTimeTests("turno.tests.yaml", text).problems).toEqual([]);
    return;
  }
  if (/^kind: Rules$/m.test(text)) {
    expect(checkTeamRules(text, [])).toEqual([]);
    return;
  }
  const files = /^kind: Project$/m.test(text)
    ? { "turno.yaml": text, "turno.d/queue.yaml": QUEUE }
    : { "turno.yaml": PROJECT, "turno.d/example.yaml": text };
  const { problems } = loadProject(new Map(Object.entries(files)));
  // An example may name what another one declares.
  const own = problems.filter(
    ({ code }) => !["TURNO_CONFIG_UNKNOWN_OBJECT", "TURNO_CONFIG_UNSERVED_QUEUE"].includes(code),
  );
  expect(own).toEqual([]);
});

/** TypeScript blocks that begin with the path of a handler. */
function readHandlers(path: string): Readonly<Record<string, string>> {
  const found = readDocument(path).blocks.flatMap(({ language, text }) => {
    const name = language === "ts" ? /^\/\/ handlers\/(\S+)\n/.exec(text)?.[1] : undefined;
    return name === undefined ? [] : [[name, text] as const];
  });
  return Object.fromEntries(found);
}

test("the handlers of the README and of the guarantees type-check", async () => {
  const handlers = { ...readHandlers("README.md"), ...readHandlers("docs/guarantees.md") };
  expect(Object.keys(handlers).sort()).toEqual(["charge.ts", "hello.ts", "set-stock.ts"]);
  const root = makeFolder(
    Object.fromEntries(Object.entries(handlers).map(([name, text]) => [`handlers/${name}`, text])),
  );
  symlinkSync(MODULES, join(root, "node_modules"));
  const entries = Object.keys(handlers).map((name) => `handlers/${name}`);
  expect(await typeCheckHandlers(root, entries)).toEqual([]);
});

function openExamples(threadEnv: Readonly<Record<string, string>>) {
  const workbench = openWorkbench(readHandlers("docs/guarantees.md"), { threadEnv });
  symlinkSync(MODULES, join(workbench.root, "node_modules"));
  return workbench;
}

test("the example of the fencing token refuses an execution with a smaller one", async () => {
  const database = await createTestDatabase({ migrated: false });
  onTestFinished(() => database.drop());
  const client = new pg.Client(database.address);
  await client.connect();
  onTestFinished(() => client.end());
  const [table] = readDocument("docs/guarantees.md").blocks.filter(({ language }) => language === "sql");
  await client.query(table?.text ?? "");
  const { run } = openExamples({ SHOP_DATABASE_URL: database.address.connectionString });
  const set = (count: number) => run("set-stock.ts", { payload: { item: "pen", count } });
  expect(await set(5)).toMatchObject({ kind: "returned", result: '{"written":true}' });
  expect(await set(6)).toMatchObject({ kind: "returned", result: '{"written":true}' });
  // As if a later execution had written meanwhile.
  await client.query("update stock set count = 9, fence = 9007199254740993");
  expect(await set(7)).toMatchObject({ kind: "returned", result: '{"written":false}' });
  expect((await client.query("select count from stock")).rows).toEqual([{ count: 9 }]);
});

test("the example of the idempotency key sends it, and tells refusals from what passes", async () => {
  const keys: unknown[] = [];
  const answers = [503, 200, 402];
  const server = createServer((request, response) => {
    keys.push(request.headers["idempotency-key"]);
    response.writeHead(answers.shift() ?? 500, { "content-type": "application/json", "retry-after": "7" });
    response.end('{"id":"ch_1"}');
  });
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const { run } = openExamples({ PAYMENTS_URL: `http://127.0.0.1:${port}` });
  const charge = () => run("charge.ts", { payload: { customer: "c", cents: 100 } });
  expect(await charge()).toMatchObject({ kind: "threw", error: { permanent: false, retryAfterMs: 7_000 } });
  expect(await charge()).toMatchObject({ kind: "returned", result: '{"chargeId":"ch_1"}' });
  expect(await charge()).toMatchObject({ kind: "threw", error: { permanent: true } });
  expect(keys).toEqual([expect.stringMatching(/^turno-/), expect.any(String), expect.any(String)]);
});

test("the statement for restored databases raises the fencing token", async () => {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  const client = new pg.Client(database.address);
  await client.connect();
  onTestFinished(() => client.end());
  const draw = async () => BigInt((await client.query("select nextval('turno.dispatch_seq') as token")).rows[0].token);
  const [statement] = readDocument("docs/operations.md").blocks.filter(({ language }) => language === "sql");
  const before = await draw();
  await client.query(statement?.text ?? "");
  const raised = await draw();
  expect(raised >> 40n).toBe((before >> 40n) + 1n);
  await client.query(statement?.text ?? "");
  expect((await draw()) >> 40n).toBe((raised >> 40n) + 1n);
});
