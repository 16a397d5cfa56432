import type { ClaimedJob, CreatedJob, NewJob } from "./jobs.ts";

/** A wish for a job, parsed but not yet checked against what is declared. */
export type JobRequest = Omit<NewJob, "id">;

/** One thing wrong with one of the requests. */
export interface RequestProblem {
  /** Index of the request in the list. */
  readonly request: number;
  /** JSON pointer below the request, such as `/payload/lote`. */
  readonly pointer: string;
  readonly message: string;
}

export type IntakeOutcome =
  | { readonly kind: "created"; readonly jobs: readonly CreatedJob[] }
  | { readonly kind: "refused"; readonly problems: readonly RequestProblem[] };

/** A handler's wish for a job, checked as requests are; `problem` says why it is refused. */
export type ChildOutcome = { readonly child: NewJob } | { readonly problem: string };

/** Checks what a running job enqueues, and inserts nothing: the job's final write does. Rejects when the database is away. */
export type PrepareChild = (parent: Pick<ClaimedJob, "id">, request: JobRequest) => Promise<ChildOutcome>;

/** The one door by which jobs come in from people and programs: all of the requests or none. */
export interface JobIntake {
  submit(requests: readonly JobRequest[]): Promise<IntakeOutcome>;
}
