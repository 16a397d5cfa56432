import type { WorkQueue } from "./work-queue.ts";

/** Where a worker's jobs come from: claims of its queues, or a broker's deliveries. */
export interface Supply {
  /** Takes whatever is wanted and allowed now. Cheap when that is nothing. */
  pump(): void;
  /** Once a second: looks again everywhere, and tries again after a failure. */
  poll(): void;
  /** Something was put in this queue. */
  ring(queue: WorkQueue): void;
  /** A final write landed; under a limit of the fleet there is room for another job now. */
  landed(queue: WorkQueue): void;
  /** Takes no more; resolves when nothing is under way. */
  stop(): Promise<void>;
}
