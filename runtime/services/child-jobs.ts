import { isRefusal } from "../protocol/ports/errors.ts";
import type { PrepareChild } from "../protocol/ports/intake.ts";
import type { JobStore } from "../protocol/ports/jobs.ts";
import type { Clock, Ids } from "../protocol/ports/surroundings.ts";
import { prepareRequests, type ValidatePayload } from "./intake.ts";

export interface ChildJobParts {
  readonly store: Pick<JobStore, "loadJobTypes">;
  readonly ids: Pick<Ids, "jobId">;
  readonly validatePayload: ValidatePayload;
  readonly clock: Clock;
  /** Ends the waits for a database that is away. */
  readonly signal: AbortSignal;
}

const RETRY_MS = 1_000;
/** A handler is aborted for a lease in doubt about then: who still waits is given the error. */
const MOST_TRIES = 60;

/**
 * Checks what handlers enqueue, as the API checks what it is sent, and gives it its id; the final write of the job
 * inserts it. While the database is away the check waits, as the handler's other writes do.
 */
export function createChildIntake({ store, ids, validatePayload, clock, signal }: ChildJobParts): PrepareChild {
  return async (parent, request) => {
    const prepared = await persist(() => prepareRequests([request], { store, validatePayload }));
    if ("requests" in prepared) {
      const [checked = request] = prepared.requests;
      return { child: { ...checked, id: ids.jobId(), parentId: parent.id } };
    }
    const [problem = { pointer: "", message: "it is not valid" }] = prepared.problems;
    const where = problem.pointer === "" ? "" : ` ${problem.pointer}:`;
    return { problem: `"${request.type}" is not enqueued:${where} ${problem.message}` };
  };

  async function persist<Value>(ask: () => Promise<Value>): Promise<Value> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await ask();
      } catch (error) {
        if (isRefusal(error) || tries >= MOST_TRIES || signal.aborted) throw error;
      }
      await clock.sleep(RETRY_MS, signal);
    }
  }
}
