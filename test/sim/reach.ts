/** Situations that a run of many seeds must have met, or it has shown nothing about them. */
export const SITUATIONS = [
  "write of a zombie refused",
  "unknown claim that was carried out",
  "unknown claim that was not carried out",
  "unknown finish that was carried out",
  "unknown finish that was not carried out",
  "finish offered again and read back",
  "statement carried out after its caller gave up",
  "statement carried out after its caller died",
  "strays of an unknown claim given back",
  "lease lost after the handler had succeeded",
  "lease in doubt while the handler ran",
  "worker lost after its start",
  "claim lost before its start",
  "lost too often, ended as Failed",
  "recovery that came too late",
  "job run alone",
  "graceful return by shutdown",
  "graceful return that lost to another write",
  "claim given back unstarted",
  "cancel that was a request",
  "cancel that lost to a success",
  "cancel that turned another end into Cancelled",
  "cancel of a running job that was lost",
  "handler timed out",
  "handler cut off",
  "neighbour ended with it",
  "result that could not be stored",
  "retry after a failure",
  "attempts exhausted",
  "hold for want of a handler",
  "hold released",
  "requeue of a finished job",
  "two leaders of one duty",
  "step of a schedule that came too late",
  "fire skipped for overlap",
  "fire superseded or missed",
  "handler still running beside its successor",
  "process killed by a job",
  "crash with executions open",
  "pause beyond the lease",
  "process of a job ended by its own deadline",
  "stop asked for twice",
  "accepted job forgotten by the database",
  "claim ahead of the slots",
  "wait for a concurrency key",
  "snoozed",
  "child born with the success of its parent",
  "children of an end that was refused",
  "answered with the job that counts already",
  "answered a second time with what was made the first time",
] as const;
export type Situation = (typeof SITUATIONS)[number];

/** How often each situation was met. */
export class Reach {
  readonly counts: Partial<Record<Situation, number>> = {};

  met(situation: Situation): void {
    this.counts[situation] = (this.counts[situation] ?? 0) + 1;
  }
}
