import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { makeFolder } from "./support.ts";

const SCRIPT = fileURLToPath(new URL("../../scripts/demo.mjs", import.meta.url));

function runDemo(parameters: readonly string[], env: Readonly<Record<string, string>>) {
  return new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
    const options = { env: { PATH: process.env.PATH, TURNO_UP_FILE: "/nowhere/up.json", ...env } };
    execFile(process.execPath, [SCRIPT, ...parameters], options, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

async function openServer(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** An API whose jobs, 200 to a page, end a third at every look at the first page; `states` gives how. */
async function openApi(states: (index: number) => string) {
  const jobs: { id: string; type: string; state: string }[] = [];
  let looks = 0;
  const url = await openServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "", "http://x");
    let body = "";
    for await (const chunk of request) body += chunk;
    if (pathname === "/api/jobs/batch") {
      const posted = JSON.parse(body).jobs as { type: string }[];
      const made = posted.map(({ type }, index) => ({
        id: `0199-${String(jobs.length + index).padStart(6, "0")}`,
        type,
        state: "Enqueued",
      }));
      jobs.push(...made);
      response.writeHead(201).end(JSON.stringify({ items: made }));
      return;
    }
    const from = Number(searchParams.get("cursor") ?? 0);
    if (from === 0) looks++;
    jobs.forEach((job, index) => {
      if (index < (jobs.length * looks) / 3) job.state = states(index);
    });
    const newest = [...jobs].reverse();
    const next = from + 200 < newest.length ? String(from + 200) : null;
    response.end(JSON.stringify({ items: newest.slice(from, from + 200), nextCursor: next }));
  });
  return { url, jobs };
}

test("enqueues a mixed load and ends with all of them", async () => {
  const { url, jobs } = await openApi(() => "Succeeded");
  const { code, stdout, stderr } = await runDemo(["60"], { TURNO_URL: url });
  expect(stderr).toBe("");
  expect(stdout.trimEnd().split("\n")).toEqual(["0 of 60", "20 of 60", "40 of 60", "60 of 60"]);
  expect(code).toBe(0);
  expect(new Set(jobs.map(({ type }) => type))).toEqual(
    new Set(["file.process", "report.generate", "integration.sync", "notification.send"]),
  );
});

test("goes through batches and pages for more than a thousand", async () => {
  const { url, jobs } = await openApi(() => "Succeeded");
  const { code, stdout } = await runDemo(["1201"], { TURNO_URL: url });
  expect(jobs).toHaveLength(1201);
  expect(stdout.trimEnd().endsWith("1201 of 1201")).toBe(true);
  expect(code).toBe(0);
});

test("exits 1 and names the jobs that did not succeed", async () => {
  const { url } = await openApi((index) => (index === 1 ? "Failed" : "Succeeded"));
  const { code, stdout, stderr } = await runDemo(["6"], { TURNO_URL: url });
  expect(stdout).toContain("6 of 6");
  expect(stderr).toContain("Failed: ");
  expect(stderr).toContain("1 of 6 did not succeed");
  expect(code).toBe(1);
});

test("finds the running Turno through its file", async () => {
  const { url } = await openApi(() => "Succeeded");
  const root = makeFolder({ "up.json": JSON.stringify({ url, pid: process.pid }) });
  const { code, stdout } = await runDemo(["3"], { TURNO_UP_FILE: join(root, "up.json") });
  expect(stdout).toContain("3 of 3");
  expect(code).toBe(0);
});

test.each([
  ["nothing runs", {}, /Turno is not running here: start it with npm start/],
  ["nobody answers", { TURNO_URL: "http://127.0.0.1:9" }, /Turno does not answer at http:\/\/127\.0\.0\.1:9/],
])("exits 1 and says what to do when %s", async (_, env, message) => {
  const { code, stderr } = await runDemo(["3"], env);
  expect(stderr).toMatch(message);
  expect(code).toBe(1);
});

test("passes on what the server says", async () => {
  const url = await openServer((_, response) => {
    response
      .writeHead(422)
      .end(JSON.stringify({ detail: "Not valid.", errors: [{ pointer: "/jobs/0/type", detail: "no such type" }] }));
  });
  const { code, stderr } = await runDemo(["3"], { TURNO_URL: url });
  expect(stderr).toContain("422: Not valid. (/jobs/0/type: no such type)");
  expect(code).toBe(1);
});

test("refuses a count that is none", async () => {
  const { code, stderr } = await runDemo(["many"], {});
  expect(stderr).toContain("usage: npm run demo");
  expect(code).toBe(64);
});
