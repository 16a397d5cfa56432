import { mkdir, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { ROOT } from "../scripts/project.mjs";
import { openContenders } from "./contenders.mjs";
import { IDLE_GAP_MS, measureDrain, measureLatency, STREAM_GAP_MS } from "./measure.mjs";
import { describeMachine, renderTable, summarize } from "./report.mjs";
import { startServers } from "./servers.mjs";

const WARM_UP_SHARE = 0.25;
const LEAST_WARM_UP = 2_000;

/**
 * Every contender in every round, one after another, so that whatever else the machine does meets all of them alike.
 * The order turns with the rounds. Prints the table and writes bench/results/<date>.json.
 */
export async function runBench({ jobs, rounds, probes, only, peersDir }) {
  const startedAt = new Date();
  const servers = await startServers();
  const measured = new Map();
  const contenders = [];
  for (const signal of ["SIGINT", "SIGTERM"]) {
    process.once(signal, () => void servers.stop().finally(() => process.exit(1)));
  }
  try {
    await openContenders({ servers, peersDir, only, opened: contenders });
    for (let round = 0; round < rounds; round++) {
      for (let turn = 0; turn < contenders.length; turn++) {
        const contender = contenders[(round + turn) % contenders.length];
        const result = await measure(contender, { jobs, probes, servers });
        console.error(`round ${round + 1} of ${rounds}  ${describeResult(contender.name, result)}`);
        measured.set(contender, [...(measured.get(contender) ?? []), result]);
      }
    }
    const summary = summarize(contenders.map((contender) => ({ ...contender, rounds: measured.get(contender) })));
    console.log(renderTable(summary, { jobs, rounds, probes }));
    const report = {
      startedAt: startedAt.toISOString(),
      machine: await describeMachine(servers),
      jobs,
      probes,
      contenders: summary,
    };
    console.log(`\nwritten to ${relative(ROOT, await write(report))}`);
  } finally {
    for (const contender of contenders) await contender.close();
    await servers.stop();
  }
}

async function measure(contender, { jobs, probes, servers }) {
  await servers.settle();
  const worker = await contender.startWorker();
  try {
    const warmUp = Math.max(LEAST_WARM_UP, Math.round(jobs * WARM_UP_SHARE));
    await measureDrain(contender, worker, warmUp);
    await servers.settle();
    const drain = await measureDrain(contender, worker, jobs);
    const idle = await measureLatency(contender, worker, { probes, gapMs: IDLE_GAP_MS });
    const stream = await measureLatency(contender, worker, { probes, gapMs: STREAM_GAP_MS });
    await contender.verify();
    return { ...drain, idle, stream };
  } finally {
    await worker.stop();
  }
}

function describeResult(name, { jobsPerSecond, idle, stream }) {
  return `${name.padEnd(22)} ${Math.round(jobsPerSecond)} jobs/s, start after ${idle.p50Ms.toFixed(2)} ms when idle, ${stream.p50Ms.toFixed(2)} ms in a stream`;
}

async function write(report) {
  const folder = join(ROOT, "bench", "results");
  await mkdir(folder, { recursive: true });
  const file = join(folder, `${report.startedAt.slice(0, 19).replaceAll(":", "-")}.json`);
  await writeFile(file, `${JSON.stringify(report, null, 2)}\n`);
  return file;
}
