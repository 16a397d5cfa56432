/** A figure and the values of its metric's labels, in their order. */
export interface Figure {
  readonly labels: readonly string[];
  readonly value: number;
}

/** One look at the installation, by the database's clock. */
export interface InstallationFigures {
  /** By queue and state; live states only. */
  readonly jobs: readonly Figure[];
  /** By queue: how long ago the job was due that a worker would take next. */
  readonly headWaitSeconds: readonly Figure[];
  /** By hold. */
  readonly held: readonly Figure[];
  /** By queue and state, of the last hour. */
  readonly ended: readonly Figure[];
  /** By outcome, of the last hour. */
  readonly fires: readonly Figure[];
  /** Of the fires of the last hour that made a job. */
  readonly largestLatenessSeconds: number;
  /** By expectation, of the last 24 hours. */
  readonly slaMisses: readonly Figure[];
  readonly schedulesPaused: number;
  /** By state: how many sources are in it. */
  readonly sync: readonly Figure[];
  /** Of the source that answered longest ago; 0 without any. */
  readonly syncAgeSeconds: number;
  /** By duty: 1 for each that is led. */
  readonly leaders: readonly Figure[];
  readonly workers: number;
  readonly workersFailingRenewals: number;
  readonly handlersStuck: number;
  readonly outboxMessages: number;
  readonly outboxOldestSeconds: number;
  readonly deadLetters: number;
}

/** What one worker process has done since it started. */
export interface ProcessFigures {
  /** By job type. */
  readonly started: readonly Figure[];
  /** By job type and outcome; `fenced` and `lost-lease` beside the outcomes of executions. */
  readonly executions: readonly Figure[];
  /** Executions of workers that were lost, taken back while this process led recovery. */
  readonly lost: number;
  readonly renewalsFailing: boolean;
}

/** No label takes more values than this, whatever names there are; the others are summed as `other`. */
export const MOST_LABEL_VALUES = 100;

export interface MetricsQueries {
  loadFigures(): Promise<InstallationFigures>;
}
