import { parseDuration } from "../core/duration.ts";
import type { ScheduleCalendars } from "../time/calendar.ts";
import { needsSeed } from "../time/cron.ts";
import { parseInstant } from "../time/next-fire.ts";
import type { ValidDocument } from "./documents.ts";
import type {
  CalendarObject,
  CalendarSpec,
  ConfigObject,
  JobObject,
  ObjectKind,
  PolicyObject,
  PolicySpec,
  ProjectObject,
  QueueObject,
  RetentionSpec,
  ScheduleObject,
  SlaSpec,
  Timing,
  UniqueSpec,
} from "./objects.ts";
import type { PayloadSchema } from "./payload.ts";
import { readRuntime } from "./runtime-document.ts";
import type { JobDocument, PolicySpecDocument, ScheduleDocument } from "./schema.generated.ts";
import { readSource, readSync } from "./source-settings.ts";
import { validateDocument } from "./validate.ts";

/** Name of the policy that is there without being declared. */
export const STANDARD_POLICY = "standard";
/** Handlers that ship with Turno. */
export const BUILTIN_HANDLERS: readonly string[] = ["builtin/command"];

/** The built-in policy: the schema's defaults. */
export function standardPolicy(): PolicySpec {
  const checked = validateDocument("Policy", {
    apiVersion: "turno/v1",
    kind: "Policy",
    metadata: { name: STANDARD_POLICY },
  });
  if (!checked.ok) throw new Error("the schema's own defaults are not valid");
  return deepFreeze(readPolicy(checked.value.spec));
}

export function normalizeProject(source: ValidDocument<"Project">): ProjectObject {
  const { spec } = source.document;
  return finish(source, {
    include: spec.include,
    timeZone: spec.timeZone ?? null,
    handlers: spec.handlers,
    ...(spec.source === undefined ? {} : { source: readSource(spec.source) }),
    ...(spec.sync === undefined ? {} : { sync: readSync(spec.sync) }),
    runtime: readRuntime(spec.runtime),
  });
}

export function normalizeQueue(source: ValidDocument<"Queue">): QueueObject {
  const { spec } = source.document;
  return finish(source, { concurrency: spec.concurrency ?? null, suspend: spec.suspend });
}

export function normalizePolicy(source: ValidDocument<"Policy">): PolicyObject {
  return finish(source, readPolicy(source.document.spec));
}

/** `payloadSchema` with its references resolved; `retention` is the project's, for what the job does not say. */
export function normalizeJob(
  source: ValidDocument<"Job">,
  context: { readonly payloadSchema: PayloadSchema | null; readonly retention: RetentionSpec },
): JobObject {
  const { spec } = source.document;
  const { succeeded, cancelled, failed } = spec.retention;
  return finish(source, {
    handler: spec.handler,
    queue: spec.queue,
    policy: spec.policy,
    timeoutMs: spec.timeout === undefined ? null : parseDuration(spec.timeout),
    settings: spec.settings,
    isolation: spec.isolation,
    payloadSchema: context.payloadSchema,
    ...(spec.concurrencyKey === undefined ? {} : { concurrencyKey: spec.concurrencyKey }),
    ...(spec.unique === undefined ? {} : { unique: readUnique(spec.unique) }),
    retention: {
      succeededMs: succeeded === undefined ? context.retention.succeededMs : parseDuration(succeeded),
      cancelledMs: cancelled === undefined ? context.retention.cancelledMs : parseDuration(cancelled),
      failedMs: failed === undefined ? context.retention.failedMs : parseDuration(failed),
    },
    ...(spec.onRemove === "cancel" ? { onRemove: spec.onRemove } : {}),
  });
}

/**
 * `timeZone`: the one in force, the schedule's own or the project's; `calendars`: those that it names and those that
 * apply to its labels. Throws when `at` is no instant.
 */
export function normalizeSchedule(
  source: ValidDocument<"Schedule">,
  context: {
    readonly timeZone: string;
    readonly calendars: Omit<ScheduleCalendars, "timeZone">;
    /** Of its payload, by its job; null: none. */
    readonly concurrencyKey: string | null;
  },
): ScheduleObject {
  const { spec } = source.document;
  const { timeZone, calendars, concurrencyKey } = context;
  const { jitter, startingDeadline, maxCatchupRuns, sla } = spec;
  const { previousNames } = source.document.metadata;
  const limited = calendars.include.length + calendars.exclude.length > 0;
  const limits = {
    ...(limited ? { calendars: { timeZone, ...calendars } } : {}),
    ...(jitter === undefined ? {} : { jitter: { maxMs: parseDuration(jitter.max), mode: jitter.mode } }),
  };
  return finish(source, {
    job: spec.job,
    timing: { ...readTiming(spec, { name: source.name, timeZone }), ...limits },
    timeZone,
    payload: spec.payload,
    ...(concurrencyKey === null ? {} : { concurrencyKey }),
    concurrencyPolicy: spec.concurrencyPolicy,
    misfirePolicy: spec.misfirePolicy,
    runOnStart: spec.runOnStart,
    suspend: spec.suspend,
    ...(startingDeadline === undefined ? {} : { startingDeadlineMs: parseDuration(startingDeadline) }),
    ...(maxCatchupRuns === undefined ? {} : { maxCatchupRuns }),
    ...(sla === undefined ? {} : { sla: readSla(sla) }),
    ...(previousNames === undefined || previousNames.length === 0 ? {} : { previousNames }),
    ...(spec.deletionPolicy === "Protect" ? { deletionPolicy: spec.deletionPolicy } : {}),
    ...(spec.onRemove === "cancel" ? { onRemove: spec.onRemove } : {}),
  });
}

/** `days`: the document's own with those of the imported file. */
export function normalizeCalendar(
  source: ValidDocument<"Calendar">,
  days: Pick<CalendarSpec, "dates" | "ranges" | "weekdays">,
): CalendarObject {
  const { ics, validUntil, appliesTo } = source.document.spec;
  return finish(source, { ...days, ics: ics ?? null, validUntil: validUntil ?? null, appliesTo: appliesTo ?? null });
}

export function deepFreeze<Value>(value: Value): Value {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const member of Object.values(value)) deepFreeze(member);
  }
  return value;
}

function finish<Kind extends ObjectKind, Spec>(source: ValidDocument<Kind>, spec: Spec): ConfigObject<Kind, Spec> {
  const { metadata } = source.document;
  return deepFreeze({
    kind: source.kind,
    name: source.name,
    labels: metadata.labels,
    description: metadata.description ?? null,
    spec,
    file: source.source.file,
    line: source.source.locate(["kind"], "key").line,
  });
}

function readUnique(spec: NonNullable<JobDocument["spec"]["unique"]>): UniqueSpec {
  const forMs = spec.for === undefined ? null : parseDuration(spec.for);
  return { key: spec.key, forMs, until: spec.until ?? (forMs === null ? "finished" : null) };
}

function readPolicy(spec: PolicySpecDocument): PolicySpec {
  const { immediateRetry, retry } = spec;
  return {
    immediateRetry: { attempts: immediateRetry.attempts, initialMs: parseDuration(immediateRetry.initial) },
    retry: {
      maxAttempts: retry.maxAttempts,
      backoff: {
        type: retry.backoff.type,
        initialMs: parseDuration(retry.backoff.initial),
        maxMs: parseDuration(retry.backoff.max),
        jitter: retry.backoff.jitter,
      },
    },
    timeoutMs: parseDuration(spec.timeout),
    maxLost: spec.maxLost,
    maxLostUnstarted: spec.maxLostUnstarted,
    maxReturns: spec.maxReturns,
  };
}

function readSla({ finishBy, maxAge, notify }: NonNullable<ScheduleDocument["spec"]["sla"]>): SlaSpec {
  return {
    finishBy: finishBy ?? null,
    maxAgeMs: maxAge === undefined ? null : parseDuration(maxAge),
    notify: notify ?? null,
  };
}

function readTiming(
  spec: ScheduleDocument["spec"],
  { name, timeZone }: { readonly name: string; readonly timeZone: string },
): Timing {
  if (spec.cron !== undefined) {
    const [expression = "", ...others] = [spec.cron].flat().map((text) => text.trim());
    return {
      kind: "cron",
      expression,
      ...(others.length === 0 ? {} : { others }),
      timeZone,
      ...([expression, ...others].some(needsSeed) ? { seed: name } : {}),
      ...(spec.dst === undefined || Object.keys(spec.dst).length === 0 ? {} : { dst: spec.dst }),
    };
  }
  if (spec.at !== undefined) return { kind: "at", at: parseInstant(spec.at).toISOString() };
  if (typeof spec.every === "object") {
    return { kind: "every", intervalMs: parseDuration(spec.every.interval), from: spec.every.from };
  }
  return { kind: "every", intervalMs: parseDuration(spec.every ?? "1d"), from: "epoch" };
}
