import { arch, availableParallelism, cpus, platform, release, totalmem } from "node:os";
import { REFERENCE } from "./contenders.mjs";

/** Medians over the rounds, and the median of the ratios to the reference within each round. */
export function summarize(measured) {
  const reference = measured.find(({ name }) => name === REFERENCE);
  return measured.map(({ name, set, rounds }) => ({
    name,
    set,
    jobsPerSecond: Math.round(median(rounds.map(({ jobsPerSecond }) => jobsPerSecond))),
    ratio:
      reference === undefined
        ? null
        : round(median(rounds.map((one, index) => one.jobsPerSecond / reference.rounds[index].jobsPerSecond))),
    idle: medianLatency(rounds.map(({ idle }) => idle)),
    stream: medianLatency(rounds.map(({ stream }) => stream)),
    insertedPerSecond: Math.round(median(rounds.map(({ insertedPerSecond }) => insertedPerSecond))),
    rounds: rounds.map(roundAll),
  }));
}

function medianLatency(latencies) {
  return {
    p50Ms: round(median(latencies.map(({ p50Ms }) => p50Ms))),
    p99Ms: round(median(latencies.map(({ p99Ms }) => p99Ms))),
  };
}

function roundAll(figures) {
  return Object.fromEntries(
    Object.entries(figures).map(([key, value]) => [key, typeof value === "number" ? round(value) : roundAll(value)]),
  );
}

export function renderTable(summary, { jobs, rounds, probes }) {
  const header = ["", "jobs/s", `× ${REFERENCE}`, "idle p50", "p99", "stream p50", "p99", "inserted/s", "set to"];
  const rows = summary.map((one) => [
    one.name,
    String(one.jobsPerSecond),
    one.ratio === null ? "" : one.ratio.toFixed(2),
    ...[one.idle, one.stream].flatMap(({ p50Ms, p99Ms }) => [`${p50Ms.toFixed(2)} ms`, `${p99Ms.toFixed(2)} ms`]),
    String(one.insertedPerSecond),
    one.set,
  ]);
  const widths = header.map((_, column) => Math.max(...[header, ...rows].map((row) => row[column].length)));
  const lines = [header, ...rows].map((row) =>
    row
      .map((cell, column) => (isNumeric(column) ? cell.padStart(widths[column]) : cell.padEnd(widths[column])))
      .join("  ")
      .trimEnd(),
  );
  return `\n${jobs} no-op jobs, one worker process each, ${rounds} ${rounds === 1 ? "round" : "rounds"}; from enqueueing to start: ${probes} jobs one by one, about 10 a second when idle, 150 in a stream\n\n${lines.join("\n")}`;
}

export async function describeMachine(servers) {
  return {
    cpu: cpus()[0]?.model ?? "unknown",
    cores: availableParallelism(),
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    system: `${platform()} ${arch()} ${release()}`,
    node: process.versions.node,
    postgres: await servers.settings(),
  };
}

function isNumeric(column) {
  return column > 0 && column < 8;
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

function round(value) {
  return Math.round(value * 100) / 100;
}
