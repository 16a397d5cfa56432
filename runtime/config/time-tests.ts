import { Ajv2020, type ErrorObject, type ValidateFunction } from "ajv/dist/2020.js";
import { parseDuration } from "../core/duration.ts";
import { describeError } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";
import type { Assertion, DayRule } from "../time/assertions.ts";
import { parseInstant } from "../time/next-fire.ts";
import { isTimeZone } from "../time/time-zone.ts";
import { problemAt } from "./documents.ts";
import { type LoadedDocument, loadFile } from "./load.ts";
import { describeValue, nearestName, type Path, type Problem, sortProblems } from "./problems.ts";
import { translateErrors } from "./schema-problems.ts";
import { isMapping } from "./schema-walk.ts";
import { TESTS_SCHEMA } from "./tests-schema.generated.ts";

/** The file that `turno test` reads when it is told no other. */
export const TESTS_FILE = "turno.tests.yaml";

/** One expectation, as it was declared. */
export interface TimeTest {
  readonly name: string;
  readonly file: string;
  readonly line: number;
  /** Null: all schedules. */
  readonly schedules: readonly string[] | null;
  readonly labels: Readonly<Record<string, string>>;
  readonly timeZone: string | null;
  readonly holidays: readonly string[];
  /** Null: from now on. */
  readonly from: Date | null;
  /** `24 months`. */
  readonly over: string;
  readonly assertion: Assertion;
}

export interface LoadedTimeTests {
  readonly tests: readonly TimeTest[];
  readonly problems: readonly Problem[];
}

/** As the schema describes it, with its defaults filled in. */
interface TestsDocument {
  readonly spec: { readonly from?: string; readonly over: string; readonly tests: readonly TestDocument[] };
}

interface TestDocument {
  readonly name: string;
  readonly schedules?: readonly string[];
  readonly labels?: Readonly<Record<string, string>>;
  readonly timeZone?: string;
  readonly holidays: readonly string[];
  readonly over?: string;
  readonly firesOn?: { days: DayRule; times: number; at?: string; otherDays: "none" | "any" };
  readonly atMost?: { fires: number; per: "second" | "minute" | "hour" | "day" };
  readonly never?: { days: DayRule; from?: string; to?: string };
  readonly firesAt?: readonly string[];
  readonly atLeastEvery?: string;
}

/** Reads a file of expectations about time; never throws, whatever is in it. */
export function loadTimeTests(file: string, content: Uint8Array | string): LoadedTimeTests {
  const loaded = loadFile(file, content);
  const problems = [...loaded.problems];
  const tests: TimeTest[] = [];
  for (const document of loaded.documents) {
    const checked = checkDocument(document);
    problems.push(...checked.problems);
    if (checked.value !== null) tests.push(...readTests(document, checked.value, problems));
  }
  return { tests, problems: sortProblems(problems) };
}

let validator: ValidateFunction | null = null;

function checkDocument(source: LoadedDocument): {
  readonly value: TestsDocument | null;
  readonly problems: readonly Problem[];
} {
  if (!isMapping(source.value) || source.value.kind !== "TimeTests") {
    const found = isMapping(source.value) ? describeValue(source.value.kind) : describeValue(source.value);
    const message = `expected a document of kind TimeTests, found ${found}`;
    return {
      value: null,
      problems: [problemAt(source, { code: "TURNO_CONFIG_UNKNOWN_KIND", path: ["kind"], message })],
    };
  }
  validator ??= createValidator();
  // Defaults are filled into a copy: aliases share their values.
  const copy = JSON.parse(JSON.stringify(source.value)) as JsonObject;
  if (validator(copy)) return { value: copy as unknown as TestsDocument, problems: [] };
  const found = translateErrors((validator.errors ?? []) as ErrorObject[]);
  return { value: null, problems: found.map((problem) => problemAt(source, problem)) };
}

function createValidator(): ValidateFunction {
  const ajv = new Ajv2020({ allErrors: true, verbose: true, useDefaults: true, strictTypes: false });
  ajv.addVocabulary(["expected"]);
  return ajv.compile(TESTS_SCHEMA);
}

/** What the schema cannot say: instants, zones, and what is read into other forms. */
function readTests(source: LoadedDocument, { spec }: TestsDocument, problems: Problem[]): readonly TimeTest[] {
  const attempt = <Value>(path: Path, read: () => Value): Value | null => {
    try {
      return read();
    } catch (error) {
      problems.push(problemAt(source, { code: "TURNO_TIME_INVALID", path, message: describeError(error) }));
      return null;
    }
  };
  const from = spec.from === undefined ? null : attempt(["spec", "from"], () => parseInstant(spec.from ?? ""));
  return spec.tests.flatMap((test, index): TimeTest[] => {
    const path = ["spec", "tests", index];
    if (test.timeZone !== undefined && !isTimeZone(test.timeZone)) {
      const message = `expected the name of a time zone such as Europe/Berlin, found ${JSON.stringify(test.timeZone)}`;
      const hint = nearestName(test.timeZone, Intl.supportedValuesOf("timeZone"));
      problems.push(problemAt(source, { code: "TURNO_TIME_INVALID", path: [...path, "timeZone"], message, hint }));
    }
    const assertion = attempt(path, () => readAssertion(test));
    if (assertion === null) return [];
    return [
      {
        name: test.name,
        file: source.file,
        line: source.locate([...path, "name"], "key").line,
        schedules: test.schedules ?? null,
        labels: test.labels ?? {},
        timeZone: test.timeZone ?? null,
        holidays: test.holidays,
        from,
        over: test.over ?? spec.over,
        assertion,
      },
    ];
  });
}

function readAssertion({ firesOn, atMost, never, firesAt, atLeastEvery }: TestDocument): Assertion {
  if (firesOn !== undefined) return { kind: "firesOn", ...firesOn, at: firesOn.at ?? null };
  if (atMost !== undefined) return { kind: "atMost", ...atMost };
  if (never !== undefined) return { kind: "never", days: never.days, from: never.from ?? null, to: never.to ?? null };
  if (firesAt !== undefined) return { kind: "firesAt", instants: firesAt.map(parseInstant) };
  return { kind: "atLeastEvery", intervalMs: parseDuration(atLeastEvery ?? "1d") };
}

/** `24 months` after an instant, by the calendar in UTC. */
export function addSpan(from: Date, span: string): Date {
  const [amountText = "0", unit = "days"] = span.split(" ");
  const amount = Number(amountText);
  const end = new Date(from);
  if (unit.startsWith("day")) end.setUTCDate(end.getUTCDate() + amount);
  else if (unit.startsWith("week")) end.setUTCDate(end.getUTCDate() + amount * 7);
  else {
    const day = end.getUTCDate();
    end.setUTCDate(1);
    end.setUTCMonth(end.getUTCMonth() + amount * (unit.startsWith("year") ? 12 : 1));
    const lastDay = new Date(Date.UTC(end.getUTCFullYear(), end.getUTCMonth() + 1, 0)).getUTCDate();
    end.setUTCDate(Math.min(day, lastDay));
  }
  return end;
}
