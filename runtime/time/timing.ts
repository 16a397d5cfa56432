/** When a schedule fires, as its document declares it. */
export type Timing =
  | { readonly kind: "cron"; readonly expression: string; readonly timeZone: string }
  /** Anchored at the epoch: fires at every multiple of the interval. */
  | { readonly kind: "every"; readonly intervalMs: number; readonly from: "epoch" }
  /** Counts from the end of the previous run. */
  | { readonly kind: "every"; readonly intervalMs: number; readonly from: "finish" }
  /** One instant, RFC 3339 in UTC. */
  | { readonly kind: "at"; readonly at: string };
