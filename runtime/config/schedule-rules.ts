import { describeError } from "../core/errors.ts";
import type { Json, JsonObject } from "../core/json.ts";
import type { CalendarDays } from "../time/calendar.ts";
import { parseCron } from "../time/cron.ts";
import { nextFire, nextNominalFire, parseInstant } from "../time/next-fire.ts";
import { isTimeZone } from "../time/time-zone.ts";
import type { Timing } from "../time/timing.ts";
import { type CheckedDocument, type ProblemAt, problemAt } from "./documents.ts";
import { evaluateKey } from "./job-keys.ts";
import { MAX_PAYLOAD_BYTES } from "./limits.ts";
import { normalizeSchedule } from "./normalize.ts";
import { compileOnce, describeZone, readPointer } from "./object-rules.ts";
import type { CalendarObject, JobObject, ProjectSpec, ScheduleObject } from "./objects.ts";
import { nearestName, type Problem } from "./problems.ts";
import type { ScheduleDocument } from "./schema.generated.ts";

/** What the schema cannot say of a schedule; null when the schedule has an error. */
export function readSchedule(
  checked: CheckedDocument<"Schedule">,
  context: {
    readonly settings: ProjectSpec | null;
    readonly jobs: ReadonlyMap<string, JobObject>;
    readonly calendars: ReadonlyMap<string, CalendarObject>;
    readonly problems: Problem[];
  },
): ScheduleObject | null {
  const { settings, jobs, calendars, problems } = context;
  const { valid, sound, envelope } = checked;
  const found: ProblemAt[] = [...checkTiming(sound, envelope.name ?? undefined)];
  if (typeof sound.timeZone === "string" && !isTimeZone(sound.timeZone)) {
    found.push(describeZone(sound.timeZone, ["spec", "timeZone"]));
  }
  if (valid !== null) {
    const { spec } = valid.document;
    if (spec.timeZone === undefined && settings !== null && settings.timeZone === null) found.push(ZONE_MISSING);
    found.push(...checkPayload(spec, jobs.get(spec.job)), ...checkCalendarNames(spec, calendars), ...checkFields(spec));
  }
  problems.push(...found.map((problem) => problemAt(envelope.source, problem)));
  if (valid === null || found.length > 0) return null;
  const key = readConcurrencyKey(valid.document.spec, jobs.get(valid.document.spec.job));
  if (key !== null && !key.ok) {
    problems.push(problemAt(envelope.source, key.problem));
    return null;
  }
  // The project's own zone may be the one that is wrong; its problem is told there.
  const inherited = settings?.timeZone ?? "UTC";
  const timeZone = valid.document.spec.timeZone ?? (isTimeZone(inherited) ? inherited : "UTC");
  const schedule = normalizeSchedule(valid, {
    timeZone,
    calendars: chooseCalendars(valid.document, calendars),
    concurrencyKey: key?.text ?? null,
  });
  const warnings = findWarnings(schedule);
  problems.push(...warnings.map((warning) => problemAt(envelope.source, { ...warning, severity: "warning" })));
  return schedule;
}

const ZONE_MISSING: ProblemAt = {
  code: "TURNO_CONFIG_MISSING_KEY",
  path: ["spec", "timeZone"],
  part: "key",
  message: 'the field "timeZone" is missing, here and in the project; there is no default',
  hint: "Write the zone the times are meant in, for example timeZone: America/Sao_Paulo.",
};

function checkTiming({ cron, at }: JsonObject, name: string | undefined): readonly ProblemAt[] {
  if (cron !== undefined) {
    const isList = Array.isArray(cron);
    return [cron as Json].flat().flatMap((expression, index) => {
      if (typeof expression !== "string") return [];
      const parsed = parseCron(expression, name);
      if (parsed.ok) return [];
      const field = parsed.field === "expression" ? "" : `the field "${parsed.field}": `;
      const message = `the cron expression is not valid: ${field}${parsed.message}`;
      const path = isList ? ["spec", "cron", index] : ["spec", "cron"];
      return [{ code: "TURNO_CRON_INVALID", path, message, hint: parsed.hint ?? null } as const];
    });
  }
  if (typeof at !== "string") return [];
  try {
    parseInstant(at);
    return [];
  } catch (error) {
    return [{ code: "TURNO_TIME_INVALID", path: ["spec", "at"], message: describeError(error) }];
  }
}

/** The key under which its runs wait for one another and for other jobs; null: the job has none. */
function readConcurrencyKey(
  { payload }: ScheduleDocument["spec"],
  job: JobObject | undefined,
): { readonly ok: true; readonly text: string } | { readonly ok: false; readonly problem: ProblemAt } | null {
  const template = job?.spec.concurrencyKey;
  if (job === undefined || template === undefined) return null;
  const key = evaluateKey(template, payload);
  if (key.ok) return key;
  const message = `the payload gives no concurrency key (${template}) for Job/${job.name}: ${key.message}`;
  return { ok: false, problem: { code: "TURNO_CONFIG_EXPRESSION", path: ["spec", "payload"], message } };
}

function checkCalendarNames(
  { calendars }: ScheduleDocument["spec"],
  known: ReadonlyMap<string, CalendarObject>,
): readonly ProblemAt[] {
  if (calendars === undefined) return [];
  return (["include", "exclude"] as const).flatMap((side) =>
    calendars[side].flatMap((name, index): readonly ProblemAt[] => {
      if (known.has(name)) return [];
      const message = `expected the name of a Calendar that is declared and valid, found ${name}`;
      const path = ["spec", "calendars", side, index];
      return [{ code: "TURNO_CONFIG_UNKNOWN_OBJECT", path, message, hint: nearestName(name, [...known.keys()]) }];
    }),
  );
}

/** Fields that say nothing without another one: whoever wrote them expects something of them. */
function checkFields(spec: ScheduleDocument["spec"]): readonly ProblemAt[] {
  const problems: ProblemAt[] = [];
  const report = (field: string, message: string): void =>
    void problems.push({ code: "TURNO_CONFIG_VALUE", path: ["spec", field], part: "key", message });
  if (spec.dst !== undefined && spec.cron === undefined) {
    report("dst", "clock changes move only cron expressions: expected dst beside cron, found it without");
  }
  if (spec.startingDeadline !== undefined && spec.misfirePolicy === "none") {
    report("startingDeadline", "misfirePolicy: none runs no missed instant: expected no startingDeadline beside it");
  }
  if (spec.maxCatchupRuns !== undefined && spec.misfirePolicy !== "all") {
    const message = `expected maxCatchupRuns only with misfirePolicy: all, found misfirePolicy: ${spec.misfirePolicy}`;
    report("maxCatchupRuns", message);
  }
  if (spec.sla !== undefined && spec.sla.finishBy === undefined && spec.sla.maxAge === undefined) {
    report("sla", "expected finishBy or maxAge, found neither");
  }
  if (spec.sla?.finishBy !== undefined && typeof spec.every === "object" && spec.every.from === "finish") {
    report("sla", "an interval from the finish has no instants that are expected: expected maxAge, found finishBy");
  }
  return problems;
}

/** Those that the schedule names, and those that apply to its labels. */
function chooseCalendars(
  { metadata, spec }: ScheduleDocument,
  calendars: ReadonlyMap<string, CalendarObject>,
): { readonly include: readonly CalendarDays[]; readonly exclude: readonly CalendarDays[] } {
  const { include = [], exclude = [] } = spec.calendars ?? {};
  const applying = [...calendars.values()].filter(({ spec: { appliesTo } }) => {
    const labels = Object.entries(appliesTo?.labels ?? {});
    return appliesTo !== null && labels.every(([key, value]) => metadata.labels[key] === value);
  });
  const excluded = new Set([...exclude, ...applying.map(({ name }) => name)]);
  const pick = (names: Iterable<string>): readonly CalendarDays[] =>
    [...names].sort().flatMap((name) => {
      const found = calendars.get(name);
      if (found === undefined) return [];
      const { dates, ranges, weekdays } = found.spec;
      return [{ name, dates, ranges, weekdays }];
    });
  return { include: pick(new Set(include)), exclude: pick(excluded) };
}

type Warning = Pick<ProblemAt, "code" | "path" | "message">;

/** What is allowed and hardly meant. */
function findWarnings({ spec }: ScheduleObject): readonly Warning[] {
  const { timing } = spec;
  const warnings: Warning[] = [];
  const start = new Date(0);
  if (timing.kind === "cron" && nextNominalFire(timing, start) === null) {
    const message = `the cron expression "${timing.expression}" names a date that never comes; the schedule never fires`;
    warnings.push({ code: "TURNO_CRON_INVALID", path: ["spec", "cron"], message });
  } else if (timing.calendars !== undefined && nextFire(timing, start) === null) {
    const names = [...timing.calendars.include, ...timing.calendars.exclude].map(({ name }) => name);
    const message = `its calendars (${[...new Set(names)].join(", ")}) leave no instant of it; the schedule never fires`;
    warnings.push({ code: "TURNO_CRON_INVALID", path: ["spec", "calendars"], message });
  }
  const intervalMs = shortestInterval(timing);
  if (timing.jitter !== undefined && intervalMs !== null && timing.jitter.maxMs >= intervalMs) {
    const message = "the jitter is as long as the time between two fires: their jobs may change places";
    warnings.push({ code: "TURNO_CONFIG_VALUE", path: ["spec", "jitter", "max"], message });
  }
  if (spec.misfirePolicy === "all" && spec.concurrencyPolicy !== "Allow") {
    const message = `with concurrencyPolicy: ${spec.concurrencyPolicy} most of the missed instants are in each other's way; misfirePolicy: all goes with Allow`;
    warnings.push({ code: "TURNO_CONFIG_VALUE", path: ["spec", "misfirePolicy"], message });
  }
  return warnings;
}

/** Between the next fires of any day; a measure for warnings, no more. */
function shortestInterval(timing: Timing): number | null {
  if (timing.kind === "every") return timing.intervalMs;
  let last = nextNominalFire(timing, new Date(0));
  let shortest: number | null = null;
  for (let index = 0; index < 20 && last !== null; index++) {
    const next = nextNominalFire(timing, last);
    if (next === null) break;
    shortest = Math.min(shortest ?? Number.POSITIVE_INFINITY, next.getTime() - last.getTime());
    last = next;
  }
  return shortest;
}

function checkPayload(spec: ScheduleDocument["spec"], job: JobObject | undefined): readonly ProblemAt[] {
  const bytes = Buffer.byteLength(JSON.stringify(spec.payload));
  if (bytes > MAX_PAYLOAD_BYTES) {
    const message = `expected a payload of at most ${MAX_PAYLOAD_BYTES} bytes of JSON, found ${bytes}`;
    return [{ code: "TURNO_CONFIG_LIMIT", path: ["spec", "payload"], message }];
  }
  const schema = job?.spec.payloadSchema ?? null;
  if (job === undefined || schema === null) return [];
  const compiled = compileOnce(schema);
  const problems = compiled.ok ? compiled.validate(spec.payload) : [];
  return problems.slice(0, 10).map(({ pointer, message }) => ({
    code: "TURNO_CONFIG_PAYLOAD",
    path: ["spec", "payload", ...readPointer(pointer)],
    message: `the payload does not match the schema of Job/${job.name}: ${pointer === "" ? "it" : pointer} ${message}`,
  }));
}
