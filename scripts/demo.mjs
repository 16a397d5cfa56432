#!/usr/bin/env node
// `npm run demo -- 60`: enqueues a mixed load of sample jobs over HTTP and shows it until the last one has ended.
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const USAGE = "usage: npm run demo -- [number of jobs, 1 to 100000; 60 when absent]";
const BATCH = 1000;
const PAGE = 200;
const POLL_MS = 300;
const REQUEST_MS = 10_000;
/** Turno may restart under a demo; it is given up after this long without an answer. */
const PATIENCE_MS = 60_000;
const FINAL = new Set(["Succeeded", "Failed", "Cancelled"]);
const WIDTH = 30;

/** @type {readonly ((n: number) => { type: string, payload: unknown })[]} */
const MIX = [
  () => ({ type: "file.process", payload: { folder: "handlers" } }),
  (n) => ({
    type: "notification.send",
    payload: { to: `team-${n}@example.com`, subject: `Demo ${n}`, text: `This is job ${n} of the demo.` },
  }),
  () => ({ type: "file.process", payload: { folder: "turno.d" } }),
  () => ({ type: "integration.sync", payload: { maxPages: 2, pageSize: 50 } }),
  (n) => ({
    type: "notification.send",
    payload: { to: `ops-${n}@example.com`, subject: `Demo ${n}`, text: "Another one." },
  }),
  () => ({ type: "report.generate", payload: { hours: 1 } }),
];

class DemoError extends Error {}

/** @param {string | undefined} text */
function readCount(text) {
  if (text === undefined) return 60;
  const count = Number(text);
  if (!/^\d+$/.test(text) || count < 1 || count > 100_000) throw new DemoError(USAGE);
  return count;
}

/** TURNO_URL, or the address that a running `turno up` of this folder has left. */
async function findServer() {
  if (process.env.TURNO_URL) return process.env.TURNO_URL;
  const root = join(dirname(fileURLToPath(import.meta.url)), "..");
  const file = process.env.TURNO_UP_FILE ?? join(root, ".turno", "run", "up.json");
  try {
    const { url, pid } = JSON.parse(await readFile(file, "utf8"));
    if (typeof pid === "number") process.kill(pid, 0);
    if (typeof url === "string") return url;
  } catch {
    // No file, or one that a killed Turno left behind.
  }
  throw new DemoError("Turno is not running here: start it with npm start in another terminal, or name its address in TURNO_URL.");
}

/**
 * @param {string} base
 * @param {string} path
 * @param {unknown} [body]
 */
async function call(base, path, body) {
  const key = process.env.TURNO_API_KEY;
  const response = await fetch(new URL(path, base), {
    method: body === undefined ? "GET" : "POST",
    headers: {
      accept: "application/json",
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...(key === undefined ? {} : { "x-turno-key": key }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(REQUEST_MS),
  });
  if (response.ok) return response.json();
  const text = await response.text();
  throw new DemoError(`${base} answered ${response.status}: ${readProblem(text)}`);
}

/** @param {string} text */
function readProblem(text) {
  try {
    const { detail, title, errors = [] } = JSON.parse(text);
    const first = errors[0] === undefined ? "" : ` (${errors[0].pointer}: ${errors[0].detail})`;
    return `${detail ?? title}${first}`;
  } catch {
    return text.slice(0, 300);
  }
}

/**
 * @param {string} base
 * @param {number} count
 * @returns {Promise<string[]>}
 */
async function enqueue(base, count) {
  const jobs = Array.from({ length: count }, (_, n) => MIX[n % MIX.length]?.(n + 1));
  const ids = [];
  for (let from = 0; from < count; from += BATCH) {
    const { items } = await call(base, "/api/jobs/batch", { jobs: jobs.slice(from, from + BATCH) });
    ids.push(...items.map((/** @type {{ id: string }} */ { id }) => id));
  }
  return ids;
}

/**
 * Looks at the newest jobs, page after page, down to the oldest of ours: ids sort by creation.
 * @param {string} base
 * @param {Set<string>} waiting
 * @param {Map<string, string>} ended
 */
async function lookAt(base, waiting, ended) {
  const oldest = [...waiting].sort()[0] ?? "";
  let cursor = null;
  do {
    const query = new URLSearchParams({ limit: String(PAGE), ...(cursor === null ? {} : { cursor }) });
    const page = await call(base, `/api/jobs?${query}`);
    for (const { id, state } of page.items) {
      if (waiting.has(id) && FINAL.has(state)) {
        waiting.delete(id);
        ended.set(id, state);
      }
    }
    const last = page.items.at(-1)?.id;
    cursor = last === undefined || last < oldest ? null : page.nextCursor;
  } while (cursor !== null && waiting.size > 0);
}

/** One line that is written over on a terminal; a line per change elsewhere. */
function createDisplay() {
  const rewrites = process.stdout.isTTY === true;
  let last = "";
  return {
    /** @param {number} done @param {number} count @param {string} note */
    show(done, count, note = "") {
      const bar = "█".repeat(Math.floor((done / count) * WIDTH)).padEnd(WIDTH, "░");
      const line = rewrites ? `${bar} ${done} of ${count}${note}` : `${done} of ${count}${note}`;
      if (line === last) return;
      last = line;
      process.stdout.write(rewrites ? `\r\u001b[2K${line}` : `${line}\n`);
    },
    end() {
      if (rewrites) process.stdout.write("\n");
    },
  };
}

async function main() {
  const count = readCount(process.argv[2]);
  const base = await findServer();
  const ids = await enqueue(base, count).catch((error) => {
    if (error instanceof DemoError) throw error;
    throw new DemoError(`Turno does not answer at ${base}: ${error.cause?.message ?? error.message}. Is it running?`);
  });
  const waiting = new Set(ids);
  /** @type {Map<string, string>} */
  const ended = new Map();
  const display = createDisplay();
  let answeredAt = performance.now();
  display.show(0, count);
  while (waiting.size > 0) {
    await wait(POLL_MS);
    try {
      await lookAt(base, waiting, ended);
      answeredAt = performance.now();
      display.show(ended.size, count);
    } catch (error) {
      if (performance.now() - answeredAt > PATIENCE_MS) {
        display.end();
        throw new DemoError(`Turno has not answered at ${base} for a minute: ${error instanceof Error ? error.message : error}`);
      }
      display.show(ended.size, count, " (Turno does not answer, trying again)");
    }
  }
  display.end();
  const unfinished = [...ended].filter(([, state]) => state !== "Succeeded");
  if (unfinished.length === 0) return 0;
  for (const [id, state] of unfinished.slice(0, 20)) console.error(`${state}: ${new URL(`/jobs/${id}`, base)}`);
  console.error(`${unfinished.length} of ${count} did not succeed.`);
  return 1;
}

try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof DemoError)) throw error;
  console.error(error.message);
  process.exitCode = error.message === USAGE ? 64 : 1;
}
