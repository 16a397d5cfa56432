import type { JobDetail, JobView } from "../../runtime/protocol/ports/panel.ts";

/** A job as the API gives it; the members and their order are the contract's. */
export function jobJson(job: JobView): Readonly<Record<string, unknown>> {
  return {
    id: job.id,
    type: job.type,
    queue: job.queue,
    state: job.state,
    hold: job.hold,
    priority: job.priority,
    payload: job.payload,
    result: job.result,
    // A job that succeeded has one when its result could not be kept.
    error: job.error ?? job.resultError,
    progress: job.progress,
    progressMessage: job.progressMessage,
    attempt: job.attempt,
    maxAttempts: job.maxAttempts,
    execution: job.execution,
    lost: job.lost,
    generation: job.generation,
    concurrencyKey: job.concurrencyKey,
    runAt: job.runAt,
    createdAt: job.createdAt,
    startedAt: job.startedAt,
    finishedAt: job.finishedAt,
    cancelRequested: job.cancelRequested,
    worker: job.worker,
    schedule: job.schedule,
    source: job.source,
  };
}

export function jobDetailJson(job: JobDetail): Readonly<Record<string, unknown>> {
  const { attempts, timeline, parent, children, hasMoreChildren, runsAlone } = job;
  return { ...jobJson(job), attempts, timeline, parent, children, hasMoreChildren, runsAlone };
}
