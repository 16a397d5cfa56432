import type { ErrorCode } from "../core/error-codes.ts";
import { type LintedSchedule, type LintRule, lintSchedules } from "../time/schedule-lint.ts";
import { decodeText } from "./decode.ts";
import { problemAt } from "./documents.ts";
import { documentAt, type LintComment, readLintComments } from "./lint-comments.ts";
import { type LoadedDocument, loadFile } from "./load.ts";
import type { CalendarObject, DesiredState, ScheduleObject } from "./objects.ts";
import { nearestName, type Problem, sortProblems } from "./problems.ts";

const CODES: Readonly<Record<LintRule, ErrorCode>> = {
  NEVER_FIRES: "TURNO_LINT_NEVER_FIRES",
  EITHER_DAY: "TURNO_LINT_EITHER_DAY",
  CLOCK_CHANGE: "TURNO_LINT_CLOCK_CHANGE",
  TOP_OF_HOUR: "TURNO_LINT_TOP_OF_HOUR",
  SAME_SECOND: "TURNO_LINT_SAME_SECOND",
};

export interface LintReport {
  /** Findings that no comment silences, and comments that silence nothing; all are warnings. */
  readonly problems: readonly Problem[];
  /** Findings that a comment silences, with its reason. */
  readonly ignored: readonly { readonly problem: Problem; readonly reason: string }[];
}

export interface LintRequest {
  readonly state: Pick<DesiredState, "objects">;
  readonly files: ReadonlyMap<string, Uint8Array | string>;
  readonly now: Date;
  readonly pileUp: number;
}

/** Lint of a valid project's schedules and calendars, each finding at its place, without those that the files silence. */
export function lintProject({ state, files, now, pileUp }: LintRequest): LintReport {
  const schedules = state.objects.flatMap((object) => (object.kind === "Schedule" ? [object] : []));
  const byName = new Map(schedules.map((schedule) => [schedule.name, schedule]));
  // What is suspended is not about to fire.
  const looked = schedules.filter(({ spec }) => !spec.suspend).map(toLinted);
  const readDocuments = openDocuments(files);
  const found = lintSchedules(looked, { now, pileUp }).flatMap(({ rule, schedule, member, message, hint }) => {
    const object = byName.get(schedule);
    const source = object === undefined ? undefined : readDocuments(object);
    if (source === undefined) return [];
    const path = ["spec", member];
    return [problemAt(source, { code: CODES[rule], severity: "warning", path, message, hint })];
  });
  const calendars = state.objects.flatMap((object) => (object.kind === "Calendar" ? [object] : []));
  const ending = calendars.flatMap((calendar) => {
    const source = readDocuments(calendar);
    const users = schedules.filter((schedule) => !schedule.spec.suspend && usesCalendar(schedule, calendar.name));
    return source === undefined ? [] : findEnding(calendar, { source, users: users.length, now });
  });
  const commented = new Set([...schedules, ...calendars].map(({ file }) => file));
  const comments = [...commented].flatMap((file) => readComments(file, files));
  return silence([...found, ...ending], comments);
}

/** A calendar that ends this soon is a calendar that somebody should look after now. */
const ENDS_SOON_MS = 60 * 86_400_000;

function usesCalendar({ spec }: ScheduleObject, name: string): boolean {
  const { calendars } = spec.timing;
  return (
    calendars !== undefined && [...calendars.include, ...calendars.exclude].some((calendar) => calendar.name === name)
  );
}

/** After its last day a calendar lets everything through, or, where it is included, nothing. */
function findEnding(
  { name, spec }: CalendarObject,
  { source, users, now }: { readonly source: LoadedDocument; readonly users: number; readonly now: Date },
): readonly Problem[] {
  if (users === 0 || spec.weekdays.length > 0) return [];
  const lastDays = [...spec.dates, ...spec.ranges.map(({ until }) => until.slice(0, 10))].sort();
  const last = spec.validUntil ?? lastDays.at(-1);
  if (last === undefined || Date.parse(`${last}T00:00:00Z`) - now.getTime() > ENDS_SOON_MS) return [];
  const kept = spec.validUntil === null ? "its last day is" : "it is kept up until";
  return [
    problemAt(source, {
      code: "TURNO_LINT_CALENDAR_ENDS",
      severity: "warning",
      path: ["spec", spec.validUntil === null ? "dates" : "validUntil"],
      message: `Calendar/${name} runs out: ${kept} ${last}, and ${users} ${users === 1 ? "schedule keeps" : "schedules keep"} to it`,
      hint: "Add the days of the time to come.",
    }),
  ];
}

function toLinted({ name, spec }: ScheduleObject): LintedSchedule {
  return { name, timing: spec.timing, timeZone: spec.timeZone };
}

/** Finds the document that an object was read from; each file is read once. */
function openDocuments(
  files: LintRequest["files"],
): (object: ScheduleObject | CalendarObject) => LoadedDocument | undefined {
  const loaded = new Map<string, readonly LoadedDocument[]>();
  return ({ file, line }) => {
    const content = files.get(file);
    if (content === undefined) return undefined;
    const documents = loaded.get(file) ?? loadFile(file, content).documents;
    loaded.set(file, documents);
    return documents.find((document) => document.locate(["kind"], "key").line === line);
  };
}

interface PlacedComment extends LintComment {
  readonly file: string;
  /** Which document of the file it stands in. */
  readonly isAbout: (line: number) => boolean;
}

function readComments(file: string, files: LintRequest["files"]): readonly PlacedComment[] {
  const content = files.get(file);
  const decoded = content === undefined ? null : decodeText(content);
  if (decoded === null || !decoded.ok) return [];
  const read = readLintComments(decoded.text);
  return read.comments.map((comment) => {
    const document = documentAt(read, comment.line);
    return { ...comment, file, isAbout: (line) => documentAt(read, line) === document };
  });
}

function silence(found: readonly Problem[], comments: readonly PlacedComment[]): LintReport {
  const used = new Set<PlacedComment>();
  const problems: Problem[] = [];
  const ignored: LintReport["ignored"][number][] = [];
  for (const problem of found) {
    const comment = comments.find(
      ({ file, code, reason, isAbout }) =>
        file === problem.file && code === problem.code && reason !== null && isAbout(problem.line),
    );
    if (comment === undefined) problems.push(problem);
    else {
      used.add(comment);
      ignored.push({ problem, reason: comment.reason ?? "" });
    }
  }
  const idle = comments.filter((comment) => !used.has(comment)).map(describeIdle);
  return { problems: sortProblems([...problems, ...idle]), ignored };
}

/** A comment that silences nothing: it has a mistake, or what it silenced is gone. */
function describeIdle({ file, line, column, code, reason }: PlacedComment): Problem {
  const codes: readonly ErrorCode[] = [...Object.values(CODES), "TURNO_LINT_CALENDAR_ENDS"];
  const known = codes.find((candidate) => candidate === code);
  const at = { code: "TURNO_LINT_IGNORE", severity: "warning", file, line, column, path: "" } as const;
  if (known === undefined) {
    const message = `expected a code of lint after turno-lint-ignore (${codes.join(", ")}), found ${code ?? "none"}`;
    return { ...at, message, hint: code === null ? null : nearestName(code, codes) };
  }
  if (reason === null) {
    const message = `expected the reason after ${known}, found none; nothing is silenced without one`;
    return { ...at, message, hint: `Write # turno-lint-ignore ${known}: why it is meant so.` };
  }
  return {
    ...at,
    message: `${known} is silenced here, and there is none in this document`,
    hint: "Remove the comment.",
  };
}
