import type { CreatedJob, NewJob } from "./jobs.ts";

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

/** The one door by which jobs come in from people and programs: all of the requests or none. */
export interface JobIntake {
  submit(requests: readonly JobRequest[]): Promise<IntakeOutcome>;
}
