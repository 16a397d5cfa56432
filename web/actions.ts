import { type JobId, NAME_PATTERN } from "../runtime/core/ids.ts";
import { jobNotFound } from "./listing.ts";
import type { WebPorts } from "./ports.ts";
import { ProblemError } from "./problem.ts";

/** What operators do, the same for the API and the panel's buttons; refusals are problems. */
export interface Actions {
  /** `cancelled` at once, or `requested` of a running job. */
  cancel(id: JobId): Promise<"cancelled" | "requested">;
  /** Gives back the state that it has then: Scheduled while another job has its concurrency key. */
  requeue(id: JobId): Promise<"Enqueued" | "Scheduled">;
  remove(id: JobId): Promise<void>;
  /** Fires a schedule by hand; gives back the job's id. */
  trigger(schedule: string): Promise<JobId>;
}

export function createActions({ jobs, schedules, ids }: Pick<WebPorts, "jobs" | "schedules" | "ids">): Actions {
  return {
    async cancel(id) {
      const outcome = await jobs.cancelJob(id);
      if (outcome.kind === "not-found") throw jobNotFound();
      if (outcome.kind === "finished") throw wrongState(`It is ${outcome.state} already and cannot be cancelled.`);
      return outcome.kind;
    },
    async requeue(id) {
      const outcome = await jobs.requeueJob(id);
      if (outcome.kind === "not-found") throw jobNotFound();
      if (outcome.kind === "refused")
        throw wrongState(`It is ${outcome.state}; only a finished job can be queued again.`);
      return outcome.held === true ? "Scheduled" : "Enqueued";
    },
    async remove(id) {
      const outcome = await jobs.deleteJob(id);
      if (outcome.kind === "not-found") throw jobNotFound();
      if (outcome.kind === "refused") throw wrongState(`It is ${outcome.state}; only a finished job can be deleted.`);
    },
    async trigger(schedule) {
      const id = NAME_PATTERN.test(schedule) ? await schedules.triggerSchedule(schedule, ids.jobId()) : null;
      if (id === null) {
        throw new ProblemError(404, "There is no schedule with this name.", { code: "TURNO_SCHEDULE_NOT_FOUND" });
      }
      return id;
    },
  };
}

function wrongState(detail: string): ProblemError {
  return new ProblemError(409, detail, { code: "TURNO_JOB_STATE" });
}
