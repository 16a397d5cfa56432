import type { FireRow, JobRow, ProductFacts, SinkFacts } from "./facts.ts";
import { groupBy } from "./group-by.ts";
import { Disturbances, type HandlerRun, type Histories, readHistories } from "./histories.ts";
import type { ClientLine, ExecutionLine, NemesisLine } from "./ledger.ts";
import { type ExpectedSchedule, judgeSchedule } from "./schedule-check.ts";

export const WRONGS = ["lost", "phantom", "duplicated", "overlapping", "stale"] as const;
export type WrongKind = (typeof WRONGS)[number];

/** One promise that was not kept, about one job where it has one. */
export interface Wrong {
  readonly kind: WrongKind;
  readonly job: string | null;
  readonly text: string;
}

/** Everything the oracle knows. Nothing of it comes from Turno's own code. */
export interface Evidence {
  readonly client: readonly ClientLine[];
  readonly executions: Iterable<ExecutionLine>;
  readonly nemesis: readonly NemesisLine[];
  readonly product: ProductFacts;
  readonly sink: SinkFacts;
  readonly schedules: readonly ExpectedSchedule[];
  readonly leaseMs: number;
}

export interface Verdict {
  readonly counts: Readonly<Record<string, number>>;
  readonly recoveryMs: { readonly p50: number | null; readonly max: number | null };
  readonly wrongs: readonly Wrong[];
}

/** After a pause the handler hears of its abort within a sweep, and is cut off five seconds later. */
const WAKING_US = 7_500_000;
/** A renewal is that old at most when a window begins. */
const WINDOW_SHARE = 0.7;

type Submission = ClientLine & { readonly e: "request"; readonly kind: "job" | "batch" };
type AnswerLine = ClientLine & { readonly e: "answer" };

/** Compares what was asked, what ran, what had effects and what the database says. */
export function judge(evidence: Evidence): Verdict {
  const histories = readHistories(evidence.executions);
  const disturbances = new Disturbances(evidence.nemesis);
  const client = readClient(evidence.client);
  const jobs = new Map(evidence.product.jobs.map((job) => [job.id, job]));
  const physical = judgeOverlaps(histories, disturbances, evidence.leaseMs);
  const wrongs = [
    ...judgeSubmissions(client, evidence.product.jobs, histories),
    ...judgeCancels(client, jobs, histories),
    ...judgeExecutions(evidence.product, jobs, histories),
    ...judgeEffects(evidence.sink, jobs, histories),
    ...physical.wrongs,
    ...evidence.schedules.flatMap((schedule) => judgeSchedule(schedule, evidence.product.fires, jobs)),
    ...judgeScheduledJobs(evidence.product.jobs, evidence.product.fires),
  ];
  const recovery = measureRecovery(histories, disturbances);
  const naive = evidence.sink.offers.length;
  return {
    counts: {
      ...client.counts,
      completed: evidence.product.jobs.filter(isFinal).length,
      executions: [...histories.values()].reduce((sum, runs) => sum + runs.length, 0),
      ...Object.fromEntries(WRONGS.map((kind) => [kind, wrongs.filter((wrong) => wrong.kind === kind).length])),
      excused: physical.excused,
      recovered: recovery.length,
      fires: evidence.product.fires.filter(({ outcome }) => outcome === "fired").length,
      "effects without a token, beyond one a job": naive - new Set(evidence.sink.offers.map(({ job }) => job)).size,
      "effects refused by token": evidence.sink.offers.filter(({ accepted }) => !accepted).length,
    },
    recoveryMs: { p50: recovery[Math.floor(recovery.length / 2)] ?? null, max: recovery.at(-1) ?? null },
    wrongs,
  };
}

interface ClientHistory {
  readonly submissions: readonly Submission[];
  readonly answers: ReadonlyMap<number, AnswerLine>;
  readonly cancels: readonly (ClientLine & { readonly e: "request"; readonly kind: "cancel" })[];
  readonly counts: Readonly<Record<"attempted" | "accepted" | "refused" | "unknown", number>>;
}

function readClient(lines: readonly ClientLine[]): ClientHistory {
  const submissions: Submission[] = [];
  const cancels: ClientHistory["cancels"][number][] = [];
  const answers = new Map<number, AnswerLine>();
  for (const line of lines) {
    if (line.e === "answer") answers.set(line.request, line);
    else if (line.kind === "cancel") cancels.push(line);
    else submissions.push(line);
  }
  const count = (outcome: "ok" | "fail" | "unknown"): number =>
    submissions
      .filter(({ request }) => (answers.get(request)?.outcome ?? "unknown") === outcome)
      .reduce((sum, { tags }) => sum + tags.length, 0);
  const [accepted, refused, unknown] = [count("ok"), count("fail"), count("unknown")];
  return {
    submissions,
    cancels,
    answers,
    counts: { attempted: accepted + refused + unknown, accepted, refused, unknown },
  };
}

/** Each accepted job exists once and came to its end; a refused one does not exist; of an unknown batch all or nothing. */
function judgeSubmissions(client: ClientHistory, rows: readonly JobRow[], histories: Histories): Wrong[] {
  const wrongs: Wrong[] = [];
  const byTag = groupBy(
    rows.filter(({ tag }) => tag !== null),
    ({ tag }) => String(tag),
  );
  const cancelled = new Set(client.cancels.map(({ job }) => job));
  const known = new Set<string>();
  for (const { request, tags, expect } of client.submissions) {
    const answer = client.answers.get(request);
    const outcome = answer?.outcome ?? "unknown";
    const found = tags.filter((tag) => byTag.has(tag)).length;
    if (outcome === "unknown" && found > 0 && found < tags.length) {
      wrongs.push({
        kind: "lost",
        job: null,
        text: `request ${request}: ${found} of a batch of ${tags.length} jobs exist`,
      });
    }
    if (answer?.again !== undefined && String(answer.again) !== String(answer.jobs)) {
      wrongs.push({
        kind: "duplicated",
        job: null,
        text: `request ${request} sent again with its key: ${answer.again}, before: ${answer.jobs}`,
      });
    }
    for (const [index, tag] of tags.entries()) {
      known.add(tag);
      const jobs = byTag.get(tag) ?? [];
      const [job] = jobs;
      if (jobs.length > 1) {
        const ids = jobs.map(({ id }) => id).join(", ");
        wrongs.push({
          kind: "duplicated",
          job: job?.id ?? null,
          text: `${tag} was asked for once and is ${jobs.length} jobs: ${ids}`,
        });
      }
      if (outcome === "fail" && job !== undefined) {
        wrongs.push({
          kind: "phantom",
          job: job.id,
          text: `${tag} was refused with status ${answer?.status} and exists`,
        });
      }
      const id = answer?.jobs?.[index] ?? job?.id ?? null;
      if (outcome === "ok" && (job === undefined || !jobs.some((row) => row.id === id))) {
        wrongs.push({ kind: "lost", job: id, text: `${tag} was accepted as ${id} and is not in the database` });
      }
      for (const row of jobs) wrongs.push(...judgeEnd(row, expect, cancelled.has(row.id), histories));
    }
  }
  for (const [tag, jobs] of byTag) {
    if (!known.has(tag)) wrongs.push({ kind: "phantom", job: jobs[0]?.id ?? null, text: `${tag} was never asked for` });
  }
  return wrongs;
}

/** The job ended as its request meant it, and a success has a whole run of its handler. */
function judgeEnd(job: JobRow, expect: string, wasCancelled: boolean, histories: Histories): Wrong[] {
  const lost = (text: string): Wrong[] => [{ kind: "lost", job: job.id, text: `${job.tag ?? job.schedule} ${text}` }];
  if (!isFinal(job)) return lost(`has not ended: ${job.state}${job.hold === null ? "" : ` (${job.hold})`}`);
  if (job.state === "Cancelled") return wasCancelled ? [] : lost("is Cancelled, and nobody asked for that");
  if (job.state !== expect) return lost(`ended as ${job.state}, expected ${expect}: ${job.error}`);
  if (job.state !== "Succeeded") return [];
  const runs = histories.get(job.id) ?? [];
  if (!runs.some(({ ended, fence }) => ended && String(fence) === job.token)) {
    return lost(`is Succeeded with token ${job.token}, and no run with that token came to its end`);
  }
  return [];
}

/** An immediate cancel is final: the job never begins after it. */
function judgeCancels(client: ClientHistory, jobs: ReadonlyMap<string, JobRow>, histories: Histories): Wrong[] {
  return client.cancels.flatMap(({ request, job }): Wrong[] => {
    const answer = client.answers.get(request);
    if (answer?.status !== 200) return [];
    const { state } = jobs.get(job) ?? { state: "not in the database" };
    if (state !== "Cancelled") return [{ kind: "lost", job, text: `was cancelled at once, and is ${state}` }];
    const late = (histories.get(job) ?? []).find(({ first }) => first > answer.at);
    if (late === undefined) return [];
    return [{ kind: "phantom", job, text: `was cancelled at once, and began ${ms(late.first - answer.at)} later` }];
  });
}

/** Every run is one the database knows, with a token of its own; one success a job; newer runs have larger tokens. */
function judgeExecutions(product: ProductFacts, jobs: ReadonlyMap<string, JobRow>, histories: Histories): Wrong[] {
  const wrongs: Wrong[] = [];
  const recorded = groupBy(product.executions, ({ job }) => job);
  for (const [id, runs] of histories) {
    const rows = recorded.get(id) ?? [];
    if (!jobs.has(id)) {
      wrongs.push({ kind: "phantom", job: id, text: "ran, and is not in the database" });
      continue;
    }
    for (const [index, run] of runs.entries()) {
      const row = rows.find(({ token }) => token === String(run.fence));
      if (row === undefined)
        wrongs.push({
          kind: "phantom",
          job: id,
          text: `ran with token ${run.fence}, of which the database has no execution`,
        });
      if (run.repeats > 0)
        wrongs.push({ kind: "duplicated", job: id, text: `began ${run.repeats + 1} times with token ${run.fence}` });
      const newer = runs[index + 1];
      if (newer !== undefined && newer.execution <= run.execution) {
        wrongs.push({
          kind: "stale",
          job: id,
          text: `execution ${newer.execution} has the larger token than execution ${run.execution}: ${newer.fence} over ${run.fence}`,
        });
      }
    }
  }
  for (const [id, rows] of recorded) {
    const successes = groupBy(
      rows.filter(({ outcome }) => outcome === "succeeded"),
      ({ generation }) => generation,
    );
    for (const accepted of successes.values()) {
      if (accepted.length > 1) {
        const tokens = accepted.map(({ token }) => token).join(", ");
        wrongs.push({
          kind: "duplicated",
          job: id,
          text: `has ${accepted.length} accepted successes, with tokens ${tokens}`,
        });
      }
    }
  }
  return wrongs;
}

/** The accepted result and the last accepted effect come from the same run, the newest one. */
function judgeEffects(sink: SinkFacts, jobs: ReadonlyMap<string, JobRow>, histories: Histories): Wrong[] {
  const wrongs: Wrong[] = [];
  const fenced = new Map(sink.fenced.map(({ job, fence }) => [job, fence]));
  for (const job of jobs.values()) {
    if (job.state !== "Succeeded") continue;
    const newest = (histories.get(job.id) ?? []).at(-1);
    if (job.result_fence !== job.token) {
      wrongs.push({
        kind: "stale",
        job: job.id,
        text: `its result came from token ${job.result_fence}, and token ${job.token} owned it`,
      });
    }
    if (newest !== undefined && String(newest.fence) !== job.result_fence) {
      wrongs.push({
        kind: "stale",
        job: job.id,
        text: `its result came from token ${job.result_fence}, and token ${newest.fence} ran after it`,
      });
    }
    const effect = fenced.get(job.id);
    if (effect === undefined) wrongs.push({ kind: "lost", job: job.id, text: "is Succeeded without an effect" });
    else if (effect !== job.token) {
      wrongs.push({
        kind: "stale",
        job: job.id,
        text: `its effect carries token ${effect}, its result token ${job.token}`,
      });
    }
  }
  for (const [id, offers] of groupBy(
    sink.offers.filter(({ accepted }) => accepted),
    ({ job }) => job,
  )) {
    for (const [index, { fence }] of offers.entries()) {
      const before = offers[index - 1]?.fence;
      if (before === undefined) continue;
      if (BigInt(before) === BigInt(fence))
        wrongs.push({ kind: "duplicated", job: id, text: `had two effects with token ${fence}` });
      if (BigInt(before) > BigInt(fence))
        wrongs.push({
          kind: "stale",
          job: id,
          text: `an effect of token ${fence} was accepted after one of token ${before}`,
        });
    }
  }
  return wrongs;
}

interface PhysicalVerdict {
  readonly wrongs: readonly Wrong[];
  /** Overlaps of a run whose worker was paused or cut off for longer than its lease. */
  readonly excused: number;
}

/**
 * Two runs of one job, or of one concurrency key, at one time. In a process of its own a run is never excused but by a
 * freeze of that very process; in a thread also by a stop or a cut-off of its worker longer than the lease.
 */
function judgeOverlaps(histories: Histories, disturbances: Disturbances, leaseMs: number): PhysicalVerdict {
  const wrongs: Wrong[] = [];
  let excused = 0;
  const consider = (older: HandlerRun, newer: HandlerRun, what: string): void => {
    if (older.last <= newer.first || newer.last <= older.first) return;
    if (isExcused(older, newer, disturbances, leaseMs)) {
      excused += 1;
      return;
    }
    const where = disturbances.isThread(older) ? "thread" : "process";
    const text = `${what}: token ${older.fence} (${where} ${older.pid}) went on ${ms(older.last - newer.first)} after token ${newer.fence} (process ${newer.pid}) began`;
    wrongs.push({ kind: "overlapping", job: older.job, text });
    if (older.job === newer.job && older.effectAt !== null && older.effectAt > newer.first) {
      wrongs.push({
        kind: "stale",
        job: older.job,
        text: `an effect of token ${older.fence} came ${ms(older.effectAt - newer.first)} after token ${newer.fence} began`,
      });
    }
  };
  for (const runs of histories.values()) {
    for (const [index, older] of runs.entries()) {
      for (const newer of runs.slice(index + 1)) consider(older, newer, "two runs of one job");
    }
  }
  for (const [key, runs] of groupBy([...histories.values()].flat(), (run) => run.key)) {
    if (key === null) continue;
    const inOrder = runs.toSorted((left, right) => left.first - right.first);
    for (const [index, older] of inOrder.entries()) {
      for (const newer of inOrder.slice(index + 1)) {
        if (older.job !== newer.job) consider(older, newer, `two jobs with the concurrency key ${key}`);
      }
    }
  }
  return { wrongs, excused };
}

function isExcused(older: HandlerRun, newer: HandlerRun, disturbances: Disturbances, leaseMs: number): boolean {
  const kinds = disturbances.isThread(older) ? ["stop", "freeze", "cut-off"] : ["freeze"];
  return disturbances
    .windowsOf(older)
    .some(
      ({ kind, from, to }) =>
        kinds.includes(kind) &&
        to - from >= leaseMs * 1_000 * WINDOW_SHARE &&
        newer.first >= from &&
        older.last <= to + WAKING_US,
    );
}

/** Every job with a schedule was made by one of its fires. */
function judgeScheduledJobs(rows: readonly JobRow[], fires: readonly FireRow[]): Wrong[] {
  const wrongs: Wrong[] = [];
  const made = new Set(fires.filter(({ outcome }) => outcome === "fired").map(({ job }) => job));
  const instants = new Map<string, string>();
  for (const job of rows) {
    if (job.tag !== null) continue;
    if (job.schedule === null || !made.has(job.id)) {
      wrongs.push({
        kind: "phantom",
        job: job.id,
        text: `has neither a tag nor a fire; its schedule is ${job.schedule}`,
      });
      continue;
    }
    const instant = `${job.schedule} at ${job.fire_at}`;
    const other = instants.get(instant);
    if (other !== undefined) wrongs.push({ kind: "duplicated", job: job.id, text: `${instant} made ${other} as well` });
    instants.set(instant, job.id);
  }
  return wrongs;
}

/** From the death of a run's process to the begin of the next run, in milliseconds, shortest first. */
function measureRecovery(histories: Histories, disturbances: Disturbances): number[] {
  const times: number[] = [];
  for (const runs of histories.values()) {
    for (const [index, run] of runs.entries()) {
      const next = runs[index + 1];
      const death = disturbances.deathOf(run);
      if (run.closed || next === undefined || death === null || death > next.first) continue;
      times.push((next.first - Math.max(death, run.last)) / 1_000);
    }
  }
  return times.sort((left, right) => left - right);
}

function isFinal(job: JobRow): boolean {
  return job.state === "Succeeded" || job.state === "Failed" || job.state === "Cancelled";
}

function ms(us: number): string {
  return `${(us / 1_000).toFixed(1)} ms`;
}
