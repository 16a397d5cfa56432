import type { Logger } from "../../core/logger.ts";
import type { EngineEvent, Observer } from "../../protocol/ports/surroundings.ts";

type Line = readonly [level: "debug" | "info" | "warn" | "error", message: string];

/** What went well is debug or info; what an operator should look at is warn or error. */
const LINES: Readonly<Record<EngineEvent["kind"], Line>> = {
  "job-started": ["debug", "a job started"],
  "job-finished": ["debug", "a job finished"],
  "job-alone": ["warn", "a suspected job runs alone in a process of its own"],
  fenced: ["warn", "a result came too late and was refused: the job has another owner"],
  "lease-lost": ["warn", "a lease was lost and the handler is aborted"],
  "lease-doubtful": ["warn", "a lease could not be renewed in time and the handler is aborted"],
  "handler-stuck": ["warn", "a handler did not end in time and is cut off"],
  "handler-runs-on": ["error", "a handler that was ended still runs and keeps its slot"],
  "leases-failing": ["warn", "leases cannot be renewed"],
  "leases-renewed": ["info", "leases are renewed again"],
  "clock-skewed": ["error", "this machine's clock and the database's differ too much; this worker leads nothing"],
  "clock-agrees": ["info", "this machine's clock agrees with the database's again"],
  "worker-lost": ["warn", "a worker was lost with a job"],
  "schedule-fired": ["info", "a schedule fired"],
  "sla-missed": ["error", "a run was expected and did not come"],
  "schedule-broken": ["error", "a schedule cannot be evaluated"],
  "transport-differs": [
    "warn",
    "the settings name another transport than the installation has; jobs are claimed from the database",
  ],
  "transport-agrees": ["info", "the settings name the installation's transport again"],
  relayed: ["debug", "messages of the outbox were published"],
  unroutable: ["error", "the broker has no queue for messages; they are tried again"],
  "publishing-fails": ["warn", "the broker confirms no messages; they stay in the outbox"],
  "publishing-again": ["info", "the broker confirms messages again"],
  redispatched: ["warn", "the broker had lost messages; they are published again"],
  "outbox-behind": ["error", "the oldest message of the outbox waits for more than a minute"],
  "outbox-caught-up": ["info", "the outbox has caught up"],
  "duty-taken": ["info", "this worker took a duty"],
  "duty-lost": ["info", "this worker lost a duty"],
  "database-away": ["warn", "PostgreSQL does not answer"],
  "database-back": ["info", "PostgreSQL answers again"],
  "loop-failed": ["error", "a loop failed and goes on with its next round"],
};

/** An observer that writes every event to the log, its facts as fields. */
export function createEventLog(logger: Logger): Observer {
  return {
    observe(event) {
      const { kind, ...fields } = event;
      const hasFailed = event.kind === "job-finished" && event.error !== null;
      const [level, message] = hasFailed ? (["warn", "a job did not succeed"] as const) : LINES[kind];
      logger[level](message, fields);
    },
  };
}
