// npm run evidence: the losses a fleet must survive, with the default leases, on real processes. About seven minutes.
import "./check-node.mjs";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { ROOT } from "./project.mjs";

const OUTAGE_MS = 90_000;
const FROZEN_MS = 150_000;
const RECOVERY_LIMIT_MS = 120_000;

const FILES = {
  "turno.yaml": `apiVersion: turno/v1
kind: Project
metadata: { name: evidence }
spec:
  timeZone: UTC
  runtime: { worker: { queues: [{ name: default, concurrency: 8 }] } }
`,
  "turno.d/jobs.yaml": `apiVersion: turno/v1
kind: Job
metadata: { name: work }
spec: { handler: work.ts }
---
apiVersion: turno/v1
kind: Job
metadata: { name: gate }
spec: { handler: gate.ts, timeout: 30m }
`,
  "handlers/work.ts": `import { setTimeout as wait } from "node:timers/promises";
import { defineHandler } from "turno";
export default defineHandler<{ ms: number }>(async (payload) => {
  await wait(payload.ms);
  return null;
});
`,
  "handlers/gate.ts": `import { existsSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import { defineHandler } from "turno";
export default defineHandler<{ until: string }>(async (payload) => {
  while (!existsSync(payload.until)) await wait(50);
  return null;
});
`,
};

const root = await mkdtemp(join(tmpdir(), "turno-evidence-"));
await chmod(root, 0o755);
const children = new Set();
/** Names of the parts to show; none: all. */
const wanted = process.argv.slice(2);
let failures = 0;
try {
  for (const [path, text] of Object.entries(FILES)) {
    await mkdir(join(root, path, ".."), { recursive: true });
    await writeFile(join(root, path), text);
  }
  const up = start(["up", "--port", "0", "--workers", "0"]);
  const url = (await up.saw(/Turno is ready: (http:\S+)/))[1];
  for (const [name, show] of Object.entries({ outage, kill, freeze })) {
    if (wanted.length === 0 || wanted.includes(name)) await show(url, up);
  }
  await stop(up, "SIGTERM");
} finally {
  for (const child of children) child.kill("SIGTERM");
  await Promise.all([...children].map((child) => once(child, "exit")));
  await rm(root, { recursive: true, force: true, maxRetries: 20, retryDelay: 200 });
}
console.log(failures === 0 ? "every claim held" : `${failures} claims did not hold`);
process.exitCode = failures === 0 ? 0 : 1;

/** The database is stopped for 90 s while jobs run and wait, and started again. */
async function outage(url, up) {
  console.log("\nThe database is stopped for 90 s under load.");
  const worker = await startWorker();
  const count = 600;
  await enqueue(url, Array.from({ length: count }, (_, index) => ({ type: "work", payload: { ms: 200 + (index % 5) * 400 } })));
  await until("some results", async () => (await jobs(url, "type=work&state=Succeeded")).length > 20);
  const pid = await postmaster();
  const stopped = performance.now();
  // Its supervisor would start it again at once, so that is stopped for the time as well.
  up.child.kill("SIGSTOP");
  process.kill(pid, "SIGQUIT");
  await delay(OUTAGE_MS);
  up.child.kill("SIGCONT");
  await until("another database server", async () => (await postmaster()) !== pid, 60_000);
  const back = performance.now();
  const done = await until("all results", async () => {
    const found = await jobs(url, "type=work");
    return found.length === count && found.every((job) => job.state === "Succeeded") && found;
  }, 300_000);
  const charged = done.filter((job) => job.attempt !== 1).length;
  const lost = done.filter((job) => job.lost > 0).length;
  check(`${done.length} of ${count} jobs succeeded; away for ${seconds(back - stopped)}, all done ${seconds(performance.now() - back)} later`, done.length === count);
  check(`failures charged: ${charged}; losses charged: ${lost}`, charged === 0 && lost === 0);
  await stop(worker, "SIGTERM");
}

/** kill -9 of one of two workers. */
async function kill(url) {
  console.log("\nOne of two workers is killed with its jobs.");
  const [one, two] = [await startWorker(), await startWorker()];
  const gate = join(root, "kill-go");
  const ids = await enqueue(url, Array.from({ length: 10 }, () => ({ type: "gate", payload: { until: gate } })));
  await until("ten running jobs", async () => (await jobs(url, "type=gate&state=Processing")).length === 10);
  const doomed = (await workers(url)).find((worker) => worker.pid === one.child.pid);
  const orphans = doomed.running.length;
  await stop(one, "SIGKILL");
  const killed = performance.now();
  await until("every orphan's recovery", async () => {
    const details = await Promise.all(ids.map((id) => get(`${url}/api/jobs/${id}`)));
    return details.filter((job) => job.attempts.some((attempt) => attempt.outcome === "lost")).length === orphans;
  }, RECOVERY_LIMIT_MS + 30_000);
  const took = performance.now() - killed;
  check(`${orphans} orphaned jobs claimable again, the last ${seconds(took)} after the kill, limit 120 s`, orphans > 0 && took <= RECOVERY_LIMIT_MS);
  await writeFile(gate, "");
  const done = await until("ten results", async () => {
    const found = await Promise.all(ids.map((id) => get(`${url}/api/jobs/${id}`)));
    return found.every((job) => job.state === "Succeeded") && found;
  }, 60_000);
  const accepted = done.map((job) => job.attempts.filter((attempt) => attempt.outcome === "succeeded").length);
  check(`accepted results a job: ${accepted.join(" ")}; failures charged: ${done.filter((job) => job.attempt !== 1).length}`, accepted.every((n) => n === 1));
  await stop(two, "SIGTERM");
}

/** SIGSTOP for 150 s, then SIGCONT: the late result is refused. */
async function freeze(url) {
  console.log("\nA worker is stopped for 150 s and goes on.");
  const frozen = await startWorker();
  const gate = join(root, "freeze-go");
  const [id] = await enqueue(url, [{ type: "gate", payload: { until: gate } }]);
  await until("the running job", async () => (await get(`${url}/api/jobs/${id}`)).state === "Processing");
  frozen.child.kill("SIGSTOP");
  const stopped = performance.now();
  const heir = await startWorker();
  await writeFile(gate, "");
  const before = await until("the heir's result", async () => {
    const job = await get(`${url}/api/jobs/${id}`);
    return job.state === "Succeeded" && job;
  }, FROZEN_MS);
  console.log(`  the heir's result was accepted ${seconds(performance.now() - stopped)} after the stop`);
  await delay(Math.max(0, FROZEN_MS - (performance.now() - stopped)));
  frozen.child.kill("SIGCONT");
  const refusal = await frozen.saw(/.*(a result came too late|a lease was lost).*/);
  const after = await get(`${url}/api/jobs/${id}`);
  check(`the refusal is in the log: ${refusal[0].slice(0, 160)}`, true);
  check("the job is as the heir left it", JSON.stringify(before) === JSON.stringify(after));
  await stop(frozen, "SIGTERM");
  await stop(heir, "SIGTERM");
}

function start(args) {
  const child = spawn(process.execPath, [join(ROOT, "bin", "turno.js"), ...args], {
    cwd: root,
    env: { ...process.env, TURNO_LOG_FORMAT: "json", TURNO_LOG_LEVEL: "warn" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  children.add(child);
  child.once("exit", () => children.delete(child));
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text) => (output += text));
  return { child, saw: (pattern) => until(String(pattern), async () => pattern.exec(output), 60_000).catch((error) => { throw new Error(`${error.message}\n${output}`); }) };
}

async function startWorker() {
  const worker = start(["worker"]);
  await worker.saw(/the worker serves/);
  return worker;
}

async function stop(command, signal) {
  if (command.child.exitCode !== null || command.child.signalCode !== null) return;
  const exited = once(command.child, "exit");
  command.child.kill(signal);
  await exited;
}

async function until(what, look, limitMs = 60_000) {
  const deadline = performance.now() + limitMs;
  for (;;) {
    const found = await look().catch(() => null);
    if (found) return found;
    if (performance.now() > deadline) throw new Error(`it did not happen within ${seconds(limitMs)}: ${what}`);
    await delay(200);
  }
}

async function get(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url} answered ${response.status}`);
  return response.json();
}

async function jobs(url, query) {
  const items = [];
  for (let cursor = ""; cursor !== null; ) {
    const page = await get(`${url}/api/jobs?${query}&limit=200${cursor === "" ? "" : `&cursor=${cursor}`}`);
    items.push(...page.items);
    cursor = page.nextCursor;
  }
  return items;
}

async function workers(url) {
  return (await get(`${url}/api/workers`)).items;
}

async function enqueue(url, list) {
  const response = await fetch(`${url}/api/jobs/batch`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ jobs: list }),
  });
  if (!response.ok) throw new Error(`the batch was refused: ${await response.text()}`);
  const { items } = await response.json();
  return items.map((job) => job.id);
}

async function postmaster() {
  const text = await readFile(join(root, ".turno", "postgres", "postmaster.pid"), "utf8");
  return Number(text.split("\n")[0]);
}

function check(text, holds) {
  console.log(`  ${holds ? "held" : "FAILED"}: ${text}`);
  if (!holds) failures += 1;
}

function seconds(ms) {
  return `${(ms / 1000).toFixed(1)} s`;
}
