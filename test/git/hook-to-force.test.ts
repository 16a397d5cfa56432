import { createHmac } from "node:crypto";
import { once } from "node:events";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type GitServer, startGitServer } from "../support/git-server.ts";
import { createTestProject, eventually, getJson, type TestProject } from "../support/up.ts";

const PROJECT = "apiVersion: turno/v1\nkind: Project\nmetadata: { name: test }\nspec: { timeZone: UTC }\n";
const JOB = "apiVersion: turno/v1\nkind: Job\nmetadata: { name: greet }\nspec: { handler: greet.ts }\n";
const handler = (greeting: string) =>
  `import { defineHandler } from "turno";\nexport default defineHandler(() => ({ greeting: "${greeting}" }));\n`;
const SECRET = "a secret of the test";

let server: GitServer;
let database: TestDatabase;
let project: TestProject;
beforeEach(async () => {
  server = await startGitServer();
  database = await createTestDatabase();
  const source = `{ git: { url: "${server.url}", interval: 1h, webhook: { secretFrom: env:HOOK_SECRET } } }`;
  project = await createTestProject({
    "turno.yaml": PROJECT.replace("timeZone: UTC", `timeZone: UTC, include: [], source: ${source}`),
  });
});
afterEach(async () => {
  await project.remove();
  await database.drop();
  await server.close();
});

interface Job {
  readonly state: string;
  readonly result: unknown;
  readonly attempts: readonly { readonly revision: number }[];
  readonly source: { readonly commit: string; readonly file: string };
}

test("what is pushed runs on a worker at once after the host's call: three roles, none with the repository's files", async () => {
  const env = { TURNO_DATABASE_URL: database.address.connectionString, HOOK_SECRET: SECRET };
  const push = (greeting: string) =>
    server.commit({ "turno.yaml": PROJECT, "turno.d/greet.yaml": JOB, "handlers/greet.ts": handler(greeting) });
  const declared = push("hello");
  const web = project.start(["server", "--port", "0"], env);
  const [url = ""] = await web.waitFor(/http:\/\/localhost:\d+/);
  const reconciler = project.start(["reconciler"], env);
  await reconciler.waitFor(/following main of http/);
  await reconciler.waitFor(/revision 1 is in force/);
  project.start(["worker"], env);
  const greet = async (): Promise<Job> => {
    const headers = { "content-type": "application/json" };
    const created = await fetch(`${url}/api/jobs`, { method: "POST", headers, body: '{"type":"greet"}' });
    const { id } = (await created.json()) as { readonly id: string };
    return eventually("the job to succeed", async () => {
      const job = await getJson<Job>(`${url}/api/jobs/${id}`);
      return job.state === "Succeeded" ? job : null;
    });
  };
  expect(await greet()).toMatchObject({ result: { greeting: "hello" } });

  push("good evening");
  const body = '{"ref":"refs/heads/main"}';
  const signature = `sha256=${createHmac("sha256", SECRET).update(body).digest("hex")}`;
  const called = await fetch(`${url}/hooks/git`, {
    method: "POST",
    headers: { "x-hub-signature-256": signature },
    body,
  });
  expect(called.status).toBe(202);
  await reconciler.waitFor(/revision 2 is in force/);
  expect(await greet()).toMatchObject({
    result: { greeting: "good evening" },
    // The code is another one, its declaration is still that of the first commit.
    attempts: [{ revision: 2 }],
    source: { commit: declared, file: "turno.d/greet.yaml" },
  });

  // Workers and the server never need the remote.
  await server.down();
  expect(await greet()).toMatchObject({ result: { greeting: "good evening" } });
  const ended = once(reconciler.child, "exit");
  reconciler.child.kill("SIGTERM");
  expect((await ended)[0]).toBe(0);
}, 120_000);
