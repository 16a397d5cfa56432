import type { JobDefinition } from "../../config/objects.ts";
import type { JobId } from "../../core/ids.ts";
import type { ScheduleStep, ScheduleStore, StepOutcome } from "../../protocol/ports/schedules.ts";
import type { Doorbell } from "../../protocol/ports/transport.ts";
import type { FireRow, JobRow, MemoryDatabase, ScheduleRow } from "./database.ts";

export function createScheduleStore(database: MemoryDatabase, doorbell: Pick<Doorbell, "ring">): ScheduleStore {
  const ring = (queues: Iterable<string>): void => {
    for (const queue of new Set(queues)) doorbell.ring({ kind: "queue", queue });
  };

  /** Records an instant that fires and makes its job; null when the instant was decided before. */
  function fire(
    schedule: ScheduleRow,
    at: { readonly atMs: number; readonly outcome: FireRow["outcome"]; readonly jobId: JobId },
  ): JobRow | null {
    const type = database.types.get(schedule.spec.job);
    if (isDecided(database, schedule.name, at.atMs) || type === undefined) return null;
    database.fires.push({ schedule: schedule.name, blockedBy: null, olderSkips: 0, ...at });
    schedule.lastJobId = at.jobId;
    return database.create({
      id: at.jobId,
      type: schedule.spec.job,
      queue: type.definition.queue,
      payload: schedule.spec.payload,
      priority: 0,
      maxAttempts: null,
      timeoutMs: null,
      schedule: { name: schedule.name, firedFor: new Date(at.atMs), lateByMs: Math.max(0, database.nowMs() - at.atMs) },
      runAtMs: database.nowMs(),
    });
  }

  function applyStep(step: ScheduleStep): StepOutcome {
    const schedule = database.schedules.get(step.name);
    if (schedule === undefined || !stands(schedule, step))
      return { name: step.name, kind: "stale", fired: 0, overlapped: [] };
    for (const [index, { at, reason }] of step.skips.entries()) {
      const atMs = at.getTime();
      if (isDecided(database, step.name, atMs)) continue;
      const olderSkips = index === 0 ? step.olderSkips : 0;
      database.fires.push({ schedule: step.name, atMs, outcome: reason, jobId: null, blockedBy: null, olderSkips });
    }
    const fired: JobRow[] = [];
    const overlapped: { at: Date; blockedBy: JobId }[] = [];
    // Newest first: where only one may run, it is the newest.
    for (const { at, jobId } of [...step.fires].sort((left, right) => right.at.getTime() - left.at.getTime())) {
      const blocker = schedule.spec.concurrencyPolicy === "Forbid" ? database.runOf(step.name) : null;
      if (blocker === null) {
        const row = fire(schedule, { atMs: at.getTime(), outcome: "fired", jobId });
        if (row !== null) fired.push(row);
      } else if (!isDecided(database, step.name, at.getTime())) {
        database.fires.push({
          schedule: step.name,
          atMs: at.getTime(),
          outcome: "overlapped",
          jobId: null,
          blockedBy: blocker.id,
          olderSkips: 0,
        });
        overlapped.push({ at, blockedBy: blocker.id });
        if (fired.length === 0) schedule.lastJobId = blocker.id;
      }
    }
    schedule.nextFireAtMs = step.nextFireAt?.getTime() ?? null;
    schedule.awaitsFinish = step.nextFireAt === null && countsFromFinish(schedule);
    ring(fired.map((row) => row.queue));
    return { name: step.name, kind: "applied", fired: fired.length, overlapped };
  }

  return {
    async loadDueSchedules(limit) {
      const nowMs = database.nowMs();
      const due = [...database.schedules.values()]
        .flatMap((schedule) => {
          const { name, spec, timingHash, nextFireAtMs } = schedule;
          if (spec.suspend || nextFireAtMs === null || nextFireAtMs > nowMs) return [];
          return [{ name, spec, timingHash, nextFireAt: new Date(nextFireAtMs) }];
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

    async fireOnStart(makeJobId) {
      const made: JobRow[] = [];
      for (const schedule of database.schedules.values()) {
        if (!schedule.spec.runOnStart || schedule.spec.suspend || schedule.firedColdStart >= database.coldStarts)
          continue;
        schedule.firedColdStart = database.coldStarts;
        if (schedule.spec.concurrencyPolicy === "Forbid" && database.runOf(schedule.name) !== null) continue;
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
      const queues = [...new Set([...promoted, ...released].map((row) => row.queue))];
      ring(queues);
      return { promoted: promoted.length + released.length, queues };
    },

    async nextDueInMs() {
      let nextMs = Number.POSITIVE_INFINITY;
      for (const row of database.scheduled) if (row.hold === null) nextMs = Math.min(nextMs, row.runAtMs);
      for (const { spec, nextFireAtMs } of database.schedules.values()) {
        if (!spec.suspend && nextFireAtMs !== null) nextMs = Math.min(nextMs, nextFireAtMs);
      }
      return nextMs === Number.POSITIVE_INFINITY ? null : nextMs - database.nowMs();
    },
  };
}

function stands(schedule: ScheduleRow, { expected }: ScheduleStep): boolean {
  return (
    !schedule.spec.suspend &&
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
