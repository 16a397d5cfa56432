import type { ScheduleCalendars } from "./calendar.ts";

/** When a schedule fires, as its document declares it. Fields that may be absent don't exist in timings without them. */
export type Timing = CronTiming | IntervalTiming | InstantTiming;

export interface CronTiming extends TimingLimits {
  readonly kind: "cron";
  readonly expression: string;
  /** Further expressions: the schedule fires when any of them does, once where several do. */
  readonly others?: readonly string[];
  readonly timeZone: string;
  /** What `H` in an expression is hashed from: the schedule's name. Only with such an expression. */
  readonly seed?: string;
  readonly dst?: DstRule;
}

export type IntervalTiming = TimingLimits & {
  readonly kind: "every";
  readonly intervalMs: number;
  /** `epoch`: at every multiple of the interval. `finish`: counted from the end of the previous run. */
  readonly from: "epoch" | "finish";
};

export interface InstantTiming extends TimingLimits {
  readonly kind: "at";
  /** RFC 3339 in UTC. */
  readonly at: string;
}

/** What any kind of timing may have besides. */
export interface TimingLimits {
  /** Days on which it fires, or does not. */
  readonly calendars?: ScheduleCalendars;
  /** Starts the job later than its instant. The instant stays what the fire is known by. */
  readonly jitter?: Jitter;
}

export interface Jitter {
  readonly maxMs: number;
  /** `stable`: always the same for one schedule; `random`: another one for every fire. */
  readonly mode: "stable" | "random";
}

/** Stands over the rule of clock changes where a member is given. */
export interface DstRule {
  /** A time that does not exist on a day: at the end of the gap, or not at all. */
  readonly gap?: "shift" | "skip";
  /** A time that occurs twice. */
  readonly fold?: "first" | "second" | "both";
}
