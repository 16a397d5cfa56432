import { describeError } from "../core/errors.ts";
import type { DueSla, SlaStore } from "../protocol/ports/slas.ts";
import type { Ids } from "../protocol/ports/surroundings.ts";
import { judgeSla, type SlaJudgement } from "../time/sla.ts";
import { type Loop, type LoopSurroundings, startLoop } from "./supervised-loop.ts";

export interface SlaWatchOptions extends LoopSurroundings {
  readonly store: SlaStore;
  readonly ids: Pick<Ids, "jobId">;
}

const INTERVAL_MS = 5_000;
const BATCH = 200;
/** A schedule whose expectations cannot be judged is looked at again after this long. */
const BROKEN_RETRY_MS = 3_600_000;

/** Notices runs that were expected and did not come: an event, a record and, where declared, a job, once each. */
export function startSlaWatch(options: SlaWatchOptions): Loop {
  const { store, ids, observer } = options;

  async function judgeOne(due: DueSla, now: Date): Promise<void> {
    const { misses, nextDueAt, lastSuccessAt } = judge(due, now);
    const recorded = await store.recordSla({
      name: due.name,
      expectedDueAt: due.dueAt,
      misses: misses.map((miss) => ({ ...miss, jobId: ids.jobId() })),
      nextDueAt,
      lastSuccessAt,
    });
    for (const { expectation, dueAt, jobId } of recorded) {
      observer.observe({ kind: "sla-missed", schedule: due.name, expectation, dueAt, notifiedBy: jobId });
    }
  }

  function judge(due: DueSla, now: Date): SlaJudgement {
    const { sla, timing, timeZone } = due.spec;
    try {
      return judgeSla({ ...due, sla: sla ?? { finishBy: null, maxAgeMs: null }, timing, timeZone }, now);
    } catch (error) {
      observer.observe({ kind: "schedule-broken", schedule: due.name, message: describeError(error) });
      const nextDueAt = new Date(now.getTime() + BROKEN_RETRY_MS);
      return { misses: [], nextDueAt, lastSuccessAt: due.lastSuccessAt };
    }
  }

  return startLoop({
    ...options,
    name: "sla watch",
    cycle: async (signal) => {
      for (let more = true; more && !signal.aborted; ) {
        const { now, schedules } = await store.loadDueSlas(BATCH);
        for (const due of schedules) await judgeOne(due, now);
        more = schedules.length === BATCH;
      }
      return INTERVAL_MS;
    },
  });
}
