import type { JobDefinition } from "../../config/objects.ts";
import { unreachable } from "../../core/assert.ts";
import type { JobId } from "../../core/ids.ts";
import type { ScheduleStep, ScheduleStore, StepOutcome } from "../../protocol/ports/schedules.ts";
import type { Doorbell } from "../../protocol/ports/transport.ts";
import type { FireRow, JobRow, MemoryDatabase, ScheduleRow } from "./database.ts";
import { createJobStore } from "./job-store.ts";

export function createScheduleStore(database: MemoryDatabase, doorbell: Pick<Doorbell, "ring">): ScheduleStore {
  const jobs = createJobStore(database, doorbell);
  const ring = (queues: Iterable<string>): void => {
    for (const queue of new Set(queues)) doorbell.ring({ kind: "queue", queue });
  };

  /** Records an instant that fires and makes its job; null when the instant was decided before. */
  function fire(
    schedule: ScheduleRow,
    at: {
      readonly atMs: number;
      readonly outcome: FireRow["outcome"];
      readonly jobId: JobId;
      readonly delayMs?: number;
      /** The run that it waits for. */
      readonly after?: JobId | null;
    },
  ): JobRow | null {
    const type = database.types.get(schedule.spec.job);
    if (isDecided(database, schedule.name, at.atMs) || type === undefined) return null;
    const { atMs, outcome, jobId, delayMs = 0, after = null } = at;
    database.fires.push({ schedule: schedule.name, blockedBy: after, olderSkips: 0, atMs, outcome, jobId });
    schedule.lastJobId = jobId;
    const runAtMs = delayMs > 0 ? Math.max(database.nowMs(), atMs + delayMs) : database.nowMs();
    const row = database.create({
      id: at.jobId,
      type: schedule.spec.job,
      queue: type.definition.queue,
      payload: schedule.spec.payload,
      priority: 0,
      maxAttempts: null,
      timeoutMs: null,
      concurrencyKey: schedule.spec.concurrencyKey ?? null,
      schedule: { name: schedule.name, firedFor: new Date(at.atMs), lateByMs: Math.max(0, database.nowMs() - at.atMs) },
      // What waits for another run is not due before that has ended.
      runAtMs: after === null ? runAtMs : Number.POSITIVE_INFINITY,
    });
    if (after !== null) Object.assign(row, { hold: "overlap", runAtMs, sortAtMs: runAtMs });
    return row;
  }

  /** What the overlap policy does with a fire: the run that is in the way, and whether it waits for that or is skipped. */
  function judge(
    schedule: ScheduleRow,
    { isNewest, newest }: { readonly isNewest: boolean; readonly newest: JobId },
  ): { readonly verdict: "run" | "wait" | "skip"; readonly blocker: JobId | null } {
    const live = [...database.jobs.values()].filter(
      (row) => row.schedule?.name === schedule.name && row.finishedAtMs === null,
    );
    const blocker = live[0]?.id ?? null;
    switch (schedule.spec.concurrencyPolicy) {
      case "Allow":
        return { verdict: "run", blocker: null };
      case "Forbid":
        if (!isNewest) return { verdict: "skip", blocker: blocker ?? newest };
        return { verdict: blocker === null ? "run" : "skip", blocker };
      case "Queue": {
        if (blocker === null) return { verdict: "run", blocker };
        const waiting = live.find((row) => row.hold === "overlap");
        return waiting === undefined ? { verdict: "wait", blocker } : { verdict: "skip", blocker: waiting.id };
      }
      case "Replace":
        if (!isNewest) return { verdict: "skip", blocker: newest };
        return { verdict: blocker === null ? "run" : "wait", blocker };
      default:
        return unreachable(schedule.spec.concurrencyPolicy);
    }
  }

  function applyStep(step: ScheduleStep): StepOutcome {
    const schedule = database.schedules.get(step.name);
    if (schedule === undefined || !stands(database, schedule, step))
      return { name: step.name, kind: "stale", fired: 0, overlapped: [] };
    for (const [index, { at, reason }] of step.skips.entries()) {
      const atMs = at.getTime();
      if (isDecided(database, step.name, atMs)) continue;
      const olderSkips = index === 0 ? step.olderSkips : 0;
      database.fires.push({ schedule: step.name, atMs, outcome: reason, jobId: null, blockedBy: null, olderSkips });
    }
    const fired: JobRow[] = [];
    const overlapped: { at: Date; blockedBy: JobId }[] = [];
    const ordered = [...step.fires].sort((left, right) => left.at.getTime() - right.at.getTime());
    const newest = ordered.at(-1);
    for (const { at, jobId, delayMs = 0 } of ordered) {
      const atMs = at.getTime();
      if (newest === undefined || isDecided(database, step.name, atMs)) continue;
      const { verdict, blocker } = judge(schedule, { isNewest: jobId === newest.jobId, newest: newest.jobId });
      if (verdict !== "skip") {
        const after = verdict === "wait" ? blocker : null;
        const row = fire(schedule, { atMs, outcome: "fired", jobId, delayMs, after });
        if (row !== null) fired.push(row);
      } else if (blocker !== null) {
        const skipped = { schedule: step.name, atMs, outcome: "overlapped", jobId: null, olderSkips: 0 } as const;
        database.fires.push({ ...skipped, blockedBy: blocker });
        overlapped.push({ at, blockedBy: blocker });
        if (fired.length === 0 && schedule.spec.concurrencyPolicy === "Forbid") schedule.lastJobId = blocker;
      }
    }
    schedule.decidedUntilMs = database.nowMs();
    schedule.nextFireAtMs = step.nextFireAt?.getTime() ?? null;
    schedule.awaitsFinish = step.nextFireAt === null && step.fires.length > 0 && countsFromFinish(schedule);
    ring(fired.filter((row) => row.state === "Enqueued").map((row) => row.queue));
    return { name: step.name, kind: "applied", fired: fired.length, overlapped };
  }

  return {
    async loadDueSchedules(limit) {
      const nowMs = database.nowMs();
      const due = [...database.schedules.values()]
        .flatMap((schedule) => {
          const { name, spec, timingHash, nextFireAtMs, decidedUntilMs } = schedule;
          if (database.isSuspended(schedule) || nextFireAtMs === null || nextFireAtMs > nowMs) return [];
          const decidedUntil = decidedUntilMs === undefined ? null : new Date(decidedUntilMs);
          return [{ name, spec, timingHash, nextFireAt: new Date(nextFireAtMs), decidedUntil }];
        })
        .sort((left, right) => left.nextFireAt.getTime() - right.nextFireAt.getTime());
      return { now: new Date(nowMs), schedules: due.slice(0, limit) };
    },

    async applySteps(steps) {
      return steps.map(applyStep);
    },

    async wakeFinishedSchedules() {
      let woken = 0;
      for (const schedule of database.schedules.values()) {
        if (!schedule.awaitsFinish || database.runOf(schedule.name) !== null) continue;
        const { timing } = schedule.spec;
        const last = schedule.lastJobId === null ? undefined : database.jobs.get(schedule.lastJobId);
        schedule.awaitsFinish = false;
        schedule.nextFireAtMs =
          (last?.finishedAtMs ?? database.nowMs()) + (timing.kind === "every" ? timing.intervalMs : 0);
        woken += 1;
      }
      return woken;
    },

    async fireOnStart(makeJobId, mayFire = () => true) {
      const made: JobRow[] = [];
      for (const schedule of database.schedules.values()) {
        if (
          !schedule.spec.runOnStart ||
          database.isSuspended(schedule) ||
          schedule.firedColdStart >= database.coldStarts
        )
          continue;
        schedule.firedColdStart = database.coldStarts;
        if (!mayFire(schedule.spec, new Date(database.nowMs()))) continue;
        if (schedule.spec.concurrencyPolicy !== "Allow" && database.runOf(schedule.name) !== null) continue;
        const row = fire(schedule, { atMs: database.nowMs(), outcome: "on-start", jobId: makeJobId() });
        if (row !== null) made.push(row);
      }
      ring(made.map((row) => row.queue));
      return made.length;
    },

    async triggerSchedule(name, jobId) {
      const schedule = database.schedules.get(name);
      if (schedule === undefined) return null;
      const row = fire(schedule, { atMs: database.nowMs(), outcome: "manual", jobId });
      if (row === null) return null;
      ring([row.queue]);
      return row.id;
    },

    async promoteDue(limit) {
      const nowMs = database.nowMs();
      const due = [...database.scheduled].filter((row) => row.hold === null && row.runAtMs <= nowMs);
      const promoted = due.sort((left, right) => left.runAtMs - right.runAtMs).slice(0, limit);
      for (const row of promoted) database.enqueue(row, "due");
      const released = [...database.scheduled]
        .filter((row) => row.hold === "no-handler" && isLoadable(database, row))
        .slice(0, limit);
      for (const row of released) database.enqueue(row, "hold released");
      const runnable = [...promoted, ...released].filter((row) => row.state === "Enqueued");
      const queues = [...new Set(runnable.map((row) => row.queue))];
      ring(queues);
      return { promoted: promoted.length + released.length, queues };
    },

    async settleOverlaps(limit) {
      const earlierRuns = (held: JobRow): readonly JobRow[] => {
        const live = [...database.jobs.values()].filter(
          (row) => row.schedule?.name === held.schedule?.name && row.finishedAtMs === null,
        );
        return live.slice(0, live.indexOf(held));
      };
      let cancelled = 0;
      for (const held of [...database.scheduled].filter((row) => row.hold === "overlap").reverse()) {
        const { spec } = database.schedules.get(held.schedule?.name ?? "") ?? {};
        if (spec?.concurrencyPolicy !== "Replace" || held.state !== "Scheduled") continue;
        for (const row of earlierRuns(held).filter(({ cancelRequested }) => !cancelRequested)) {
          await jobs.cancelJob(row.id);
          cancelled += 1;
        }
      }
      const free = [...database.scheduled].filter((row) => row.hold === "overlap" && earlierRuns(row).length === 0);
      const released = free.slice(0, limit);
      for (const row of released) {
        if (row.runAtMs > database.nowMs()) row.hold = null;
        else database.enqueue(row, "hold released");
      }
      const started = released.filter((row) => row.state === "Enqueued");
      ring(started.map((row) => row.queue));
      return { cancelled, released: started.length };
    },

    async nextDueInMs() {
      let nextMs = Number.POSITIVE_INFINITY;
      for (const row of database.scheduled) if (row.hold === null) nextMs = Math.min(nextMs, row.runAtMs);
      for (const schedule of database.schedules.values()) {
        const { nextFireAtMs } = schedule;
        if (!database.isSuspended(schedule) && nextFireAtMs !== null) nextMs = Math.min(nextMs, nextFireAtMs);
      }
      return nextMs === Number.POSITIVE_INFINITY ? null : nextMs - database.nowMs();
    },
  };
}

function stands(database: MemoryDatabase, schedule: ScheduleRow, { expected }: ScheduleStep): boolean {
  return (
    !database.isSuspended(schedule) &&
    schedule.timingHash === expected.timingHash &&
    schedule.nextFireAtMs === (expected.nextFireAt?.getTime() ?? null)
  );
}

function isDecided(database: MemoryDatabase, schedule: string, atMs: number): boolean {
  return database.fires.some((fire) => fire.schedule === schedule && fire.atMs === atMs);
}

function countsFromFinish({ spec }: ScheduleRow): boolean {
  return spec.timing.kind === "every" && spec.timing.from === "finish";
}

/** Some worker that is there takes its queue and can load the bundle in force. */
function isLoadable(database: MemoryDatabase, row: JobRow): boolean {
  const definition: JobDefinition | undefined = database.types.get(row.type)?.definition;
  if (definition === undefined) return false;
  return [...database.workers.values()].some(
    (worker) =>
      database.isAlive(worker) &&
      !worker.draining &&
      worker.info.queues.some(({ name }) => name === row.queue) &&
      !(definition.bundleHash !== null && worker.unloadableBundles.includes(definition.bundleHash)),
  );
}
