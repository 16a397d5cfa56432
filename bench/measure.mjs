import { setTimeout as wait } from "node:timers/promises";

/** Between the answer to one probe and the next, at random: about ten a second when idle, a hundred and fifty in a stream. */
export const IDLE_GAP_MS = { least: 50, most: 150 };
export const STREAM_GAP_MS = { least: 3, most: 7 };
/** Not counted: they load the handler. */
const FIRST_PROBES = 3;

/**
 * Puts jobs where the running, warm worker cannot see them, lets it see all at once, and waits until the database says
 * that the last one is finished. The wake-up is part of the time.
 */
export async function measureDrain(contender, worker, jobs) {
  const fillingMs = performance.now();
  const release = await contender.hold(worker, jobs);
  const filledMs = performance.now();
  await wait(200);
  const startedMs = performance.now();
  await release();
  await contender.drained(worker);
  const ms = performance.now() - startedMs;
  return { ms, jobsPerSecond: (jobs * 1000) / ms, insertedPerSecond: (jobs * 1000) / (filledMs - fillingMs) };
}

/** One job after another on a worker without other work: from the call that enqueues it to the first line of its handler. */
export async function measureLatency(contender, worker, { probes, gapMs }) {
  const sentNs = [];
  for (let probe = -FIRST_PROBES; probe < probes; probe++) {
    await wait(gapMs.least + Math.random() * (gapMs.most - gapMs.least));
    if (probe >= 0) sentNs.push(process.hrtime.bigint());
    await contender.probe();
  }
  const startedNs = await contender.probeStarts(worker, probes);
  const latencies = sentNs.map((sent, index) => Number(startedNs[index] - sent) / 1e6).sort((a, b) => a - b);
  return { p50Ms: quantile(latencies, 0.5), p99Ms: quantile(latencies, 0.99), maxMs: latencies.at(-1) };
}

/** Nearest rank, of sorted numbers. */
export function quantile(sorted, share) {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)];
}

/** Asks until `remaining` answers 0: seldom at first, every 2 ms when the pace so far says that the end is near. */
export async function pollRemaining(remaining) {
  const startedMs = performance.now();
  const atStart = await remaining();
  for (let left = atStart; left > 0; left = await remaining()) {
    const msPerJob = (performance.now() - startedMs) / Math.max(1, atStart - left);
    await wait(Math.min(100, Math.max(2, (left * msPerJob) / 2)));
  }
}
