import type { Logger } from "../runtime/core/logger.ts";
import type { FireHistory } from "../runtime/protocol/ports/fire-history.ts";
import type { JobIntake } from "../runtime/protocol/ports/intake.ts";
import type { JobStore } from "../runtime/protocol/ports/jobs.ts";
import type { MetricsQueries } from "../runtime/protocol/ports/metrics.ts";
import type { ForecastFires, HealthReport, PanelQueries } from "../runtime/protocol/ports/panel.ts";
import type { Pauses } from "../runtime/protocol/ports/pauses.ts";
import type { RevisionDesk } from "../runtime/protocol/ports/revisions.ts";
import type { ScheduleStore } from "../runtime/protocol/ports/schedules.ts";
import type { Clock, Ids } from "../runtime/protocol/ports/surroundings.ts";
import type { ApiClient, ApiKeys } from "./auth.ts";

/** Everything the API and the panel reach for. */
export interface WebPorts {
  readonly jobs: Pick<JobStore, "cancelJob" | "requeueJob" | "deleteJob">;
  readonly intake: JobIntake;
  readonly schedules: Pick<ScheduleStore, "triggerSchedule">;
  readonly pauses: Pauses;
  readonly revisions: RevisionDesk;
  readonly panel: PanelQueries;
  readonly history: Pick<FireHistory, "loadSchedule" | "listRecords">;
  readonly forecastFires: ForecastFires;
  readonly health: () => Promise<HealthReport>;
  /** Absent: there is no `/metrics`. */
  readonly metrics?: MetricsQueries;
  /** Null: no keys; then only loopback host names are answered. */
  readonly keys: ApiKeys | null;
  /** What a host of repositories signs its calls with; null or absent: none are taken. */
  readonly gitHookSecret?: string | null;
  /** Signs the panel's sessions; 32 random bytes, new with every process. */
  readonly sessionSecret: Uint8Array;
  readonly clock: Clock;
  readonly ids: Pick<Ids, "jobId">;
  readonly logger: Logger;
  readonly settings: {
    readonly version: string;
    /** Origins beside the server's own whose pages may call the API. */
    readonly allowedOrigins: readonly string[];
  };
}

/** What a request carries through its handlers. */
export interface WebEnv {
  Variables: {
    /** Who asks; null without keys. */
    client: ApiClient | null;
  };
}
