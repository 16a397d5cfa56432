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
  | {
      readonly kind: "created";
      readonly jobs: readonly CreatedJob[];
      /** It is what was answered to the same request before. */
      readonly replayed: boolean;
    }
  /** The key belongs to another request, or to the same one which is not over. */
  | { readonly kind: "conflict"; readonly reason: "other-request" | "in-progress" }
  | { readonly kind: "refused"; readonly problems: readonly RequestProblem[] };

/** A handler's wish for a job, checked as requests are; `problem` says why it is refused. */
export type ChildOutcome = { readonly child: NewJob } | { readonly problem: string };

/** Checks what a running job enqueues, and inserts nothing: the job's final write does. Rejects when the database is away. */
export type PrepareChild = (parent: Pick<ClaimedJob, "id">, request: JobRequest) => Promise<ChildOutcome>;

/** An idempotency key: the same requests with it are carried out once and get one answer. */
export interface RequestKey {
  /** The client's name; empty: nobody's in particular. */
  readonly scope: string;
  readonly key: string;
}

/** The one door by which jobs come in from people and programs: all of the requests or none. */
export interface JobIntake {
  submit(requests: readonly JobRequest[], once?: RequestKey | null): Promise<IntakeOutcome>;
}
