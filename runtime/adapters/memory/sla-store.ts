import type { SlaStore } from "../../protocol/ports/slas.ts";
import type { Doorbell } from "../../protocol/ports/transport.ts";
import type { MemoryDatabase, ScheduleRow } from "./database.ts";

const LOOKED_AT = 50;

export function createSlaStore(database: MemoryDatabase, doorbell: Pick<Doorbell, "ring">): SlaStore {
  const successesOf = ({ name }: ScheduleRow) =>
    database.fires
      .filter((fire) => fire.schedule === name && fire.jobId !== null)
      .sort((left, right) => right.atMs - left.atMs)
      .slice(0, LOOKED_AT)
      .flatMap(({ atMs, jobId }) => {
        const job = jobId === null ? undefined : database.jobs.get(jobId);
        if (job?.state !== "Succeeded") return [];
        return [{ finishedAt: new Date(job.finishedAtMs ?? 0), firedFor: new Date(atMs) }];
      });

  return {
    async loadDueSlas(limit) {
      const nowMs = database.nowMs();
      const schedules = [...database.schedules.values()].flatMap((schedule) => {
        const { sla } = schedule;
        if (sla === undefined || sla.dueAtMs > nowMs || database.isSuspended(schedule)) return [];
        return [
          {
            name: schedule.name,
            spec: schedule.spec,
            dueAt: new Date(sla.dueAtMs),
            judgedUntil: new Date(sla.judgedAtMs ?? sla.dueAtMs),
            since: new Date(sla.sinceMs),
            lastSuccessAt: sla.successAtMs === null ? null : new Date(sla.successAtMs),
            successes: successesOf(schedule),
          },
        ];
      });
      return { now: new Date(nowMs), schedules: schedules.slice(0, limit) };
    },

    async recordSla({ name, expectedDueAt, misses, nextDueAt, lastSuccessAt }) {
      const schedule = database.schedules.get(name);
      if (schedule?.sla?.dueAtMs !== expectedDueAt.getTime()) return [];
      const successAtMs = lastSuccessAt?.getTime() ?? null;
      const { sinceMs } = schedule.sla;
      schedule.sla = { dueAtMs: nextDueAt.getTime(), sinceMs, judgedAtMs: database.nowMs(), successAtMs };
      const notify = schedule.spec.sla?.notify ?? null;
      const type = notify === null ? undefined : database.types.get(notify);
      const known = (expectation: string, dueAt: Date): boolean =>
        database.slaMisses.some(
          (miss) => miss.schedule === name && miss.expectation === expectation && miss.dueAtMs === dueAt.getTime(),
        );
      return misses
        .filter(({ expectation, dueAt }) => !known(expectation, dueAt))
        .map(({ expectation, dueAt, jobId }) => {
          database.slaMisses.push({ schedule: name, expectation, dueAtMs: dueAt.getTime() });
          if (notify === null || type === undefined) return { expectation, dueAt, jobId: null };
          const { queue } = type.definition;
          database.create({
            id: jobId,
            type: notify,
            queue,
            payload: {
              schedule: name,
              expectation,
              dueAt: dueAt.toISOString(),
              lastSuccessAt: lastSuccessAt?.toISOString() ?? null,
            },
            priority: 0,
            maxAttempts: null,
            timeoutMs: null,
            schedule: null,
            runAtMs: database.nowMs(),
          });
          doorbell.ring({ kind: "queue", queue });
          return { expectation, dueAt, jobId };
        });
    },
  };
}
