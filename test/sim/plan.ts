/** How one run of a handler goes. */
export interface HandlerStep {
  readonly takesMs: number;
  readonly ends:
    | "returns"
    | "unstorable"
    | "throws"
    | "permanent"
    | "retry-after"
    | "hangs"
    | "ignores-abort"
    | "thread-dies"
    | "kills-process"
    | "snoozes";
  readonly progress: boolean;
  /** Jobs that it enqueues before it returns. */
  readonly children?: number;
}

/** At most one job counts for each of these keys, and until when one does. */
export const UNIQUE_KEYS = { "until finished": "finished", "until started": "started" } as const;
export type UniqueKey = keyof typeof UNIQUE_KEYS;

/** What people and programs want of the installation; `id` names it on the command line. */
export type Work = { readonly id: string } & (
  | {
      readonly kind: "job";
      readonly atMs: number;
      readonly type: string;
      readonly delayMs: number;
      readonly priority: number;
      /** Concurrency key. */
      readonly key: string | null;
      readonly maxAttempts: number | null;
      readonly timeoutMs: number | null;
      /** Of the first, second, … execution; the last one stands for all that follow. */
      readonly steps: readonly HandlerStep[];
      readonly unique?: UniqueKey;
      /** Asked for again, with its key of idempotency, until an answer has come. */
      readonly once?: boolean;
    }
  /** Of the n-th job that was sent before. */
  | { readonly kind: "cancel" | "requeue"; readonly atMs: number; readonly job: string }
  | {
      readonly kind: "schedule";
      readonly type: string;
      readonly intervalMs: number;
      readonly from: "epoch" | "finish";
      readonly misfirePolicy: "latest" | "none";
      readonly concurrencyPolicy: "Forbid" | "Allow";
      readonly runOnStart: boolean;
    }
  | { readonly kind: "trigger"; readonly atMs: number; readonly schedule: string }
  /** Other code comes into force for every type. */
  | { readonly kind: "revision"; readonly atMs: number }
);

/** The slot of the client, among those of the worker processes. */
export const CLIENT = -1;

/** What a process runs after a restart: `broken` cannot load one of the bundles. */
export type Code = "good" | "broken";

/** What goes wrong; data, so that it can be left out one by one. */
export type Fault = { readonly id: string } & (
  | {
      /** The n-th call of a method by a slot. */
      readonly kind: "call";
      readonly slot: number;
      readonly method: string;
      readonly nth: number;
      /**
       * `late`: the caller has given up when the statement is carried out. `slow`: it takes its time both ways.
       * `last-words`: as slow on its way back, and nothing else gets through for more than a lease.
       */
      readonly effect: "rejected" | "serialization" | "lost-request" | "lost-reply" | "late" | "slow" | "last-words";
      readonly delayMs: number;
    }
  | {
      readonly kind: "outage";
      readonly atMs: number;
      readonly forMs: number;
      /** Null: for everybody. */
      readonly slot: number | null;
      readonly mode: "refused" | "black-hole";
    }
  /** The database forgets what it committed in the last moments: failover to an asynchronous replica. */
  | { readonly kind: "rollback"; readonly atMs: number; readonly windowMs: number }
  | { readonly kind: "clock-step"; readonly atMs: number; readonly stepMs: number }
  | {
      /** Around the n-th call of a method by a slot: not sent, sent and not yet there, carried out and unanswered. */
      readonly kind: "crash";
      readonly slot: number;
      readonly method: string;
      readonly nth: number;
      readonly when: "before" | "sent" | "applied";
      readonly restartMs: number;
      readonly code: Code;
    }
  | {
      readonly kind: "kill";
      readonly slot: number;
      readonly atMs: number;
      readonly restartMs: number;
      readonly code: Code;
    }
  | { readonly kind: "pause" | "block"; readonly slot: number; readonly atMs: number; readonly forMs: number }
  | {
      readonly kind: "stop";
      readonly slot: number;
      readonly atMs: number;
      /** Asked twice. */
      readonly twice: boolean;
      readonly restartMs: number;
      readonly code: Code;
    }
  /** Rings are lost; at its end the listener is told of the gap, or not. */
  | {
      readonly kind: "deaf";
      readonly slot: number;
      readonly atMs: number;
      readonly forMs: number;
      readonly gapTold: boolean;
    }
  | TransportFault
);

/** What goes wrong between the outbox and the workers. */
export type TransportFault =
  /** For a while, each message may meet it: probabilities, and how long each of its ways may take. */
  | {
      readonly kind: "broker-messages";
      readonly atMs: number;
      readonly forMs: number;
      readonly effect: "drop" | "duplicate" | "reorder" | "loseConfirm" | "delayMs";
      readonly strength: number;
    }
  | { readonly kind: "broker-state"; readonly atMs: number; readonly forMs: number; readonly state: "blocked" | "away" }
  | { readonly kind: "queue-lost"; readonly atMs: number; readonly queue: string; readonly how: "removed" | "purged" }
  | { readonly kind: "malformed"; readonly atMs: number; readonly queue: string }
  | { readonly kind: "broker-cut"; readonly atMs: number; readonly slot: number }
  | {
      readonly kind: "broker-network";
      readonly atMs: number;
      readonly forMs: number;
      readonly slot: number;
      readonly mode: "silent" | "away";
    }
  | {
      readonly kind: "locks";
      readonly atMs: number;
      /** `forget` takes no time. */
      readonly forMs: number;
      readonly mode: "unavailable" | "hang" | "grant-twice" | "forget";
    }
  /** Somebody starts the installation with the other transport. */
  | { readonly kind: "transport"; readonly atMs: number; readonly to: SimulatedTransportName };

export type SimulatedTransportName = "postgres" | "rabbitmq";

export interface Settings {
  readonly slots: number;
  readonly concurrency: number;
  readonly leaseMs: number;
  readonly renewalMs: number;
  readonly recoveryMs: number;
  readonly shutdownTimeoutMs: number;
  /** One way between a process and the database. */
  readonly latencyMs: { readonly least: number; readonly most: number };
  /** Largest share by which a process's clock runs fast or slow. */
  readonly drift: number;
  /** Faults happen before, then everything is healed. */
  readonly chaosMs: number;
  /** Jobs of the queue "narrow" that the fleet may run at once. */
  readonly narrow: number;
  /** Jobs of the type "other" run in processes of their own. */
  readonly processes: boolean;
  /** What the installation begins with, where the processes have a broker and locks; null: they have none. */
  readonly transport: SimulatedTransportName | null;
}

/** Without the id that its place in the plan gives it. */
export type Draft<Item> = Item extends { readonly id: string } ? Omit<Item, "id"> : never;

/** Everything a seed decides beforehand. */
export interface Plan {
  readonly seed: number;
  readonly settings: Settings;
  readonly work: readonly Work[];
  readonly faults: readonly Fault[];
}

/** Job types; `narrow` has a queue of its own with a limit of the fleet. */
export const TYPES = ["work", "other", "narrow"] as const;
