import { describeError } from "../core/errors.ts";
import { compileGlobs, describeBadGlob } from "../core/glob.ts";
import type { JsonObject } from "../core/json.ts";
import { RULES_FILE } from "../core/project-files.ts";
import { isTimeZone } from "../time/time-zone.ts";
import { readCalendar } from "./calendar-rules.ts";
import { checkDocument, type Envelope, problemAt, readEnvelope, type ValidDocument } from "./documents.ts";
import { hashState } from "./hash.ts";
import { type LoadedDocument, loadFile } from "./load.ts";
import { deepFreeze, normalizePolicy, normalizeProject, normalizeQueue } from "./normalize.ts";
import { checkBackoff, describeZone, readJob } from "./object-rules.ts";
import type {
  CalendarObject,
  DeclaredObject,
  DesiredState,
  JobObject,
  ProjectObject,
  ProjectSpec,
  RuntimeSettings,
} from "./objects.ts";
import type { PayloadSchema } from "./payload.ts";
import { hasErrors, type Problem, sortProblems } from "./problems.ts";
import { findReferenceProblems } from "./references.ts";
import { adviseRuntime, checkRuntime } from "./runtime-document.ts";
import { type Environment, overrideRuntime, readRuntimeDocument } from "./runtime-settings.ts";
import { readSchedule } from "./schedule-rules.ts";
import { isMapping } from "./schema-walk.ts";
import { checkSource } from "./source-settings.ts";
import { checkTeamRules } from "./team-rules.ts";

export interface LoadProjectOptions {
  /** Whether a file below the project's root is there, for handlers; absent: not checked. */
  readonly handlerExists?: (path: string) => boolean;
  /** Schemas of `spec.settings` by the name of a handler that ships with Turno; absent: not checked. */
  readonly builtinSettings?: ReadonlyMap<string, PayloadSchema>;
  /** The day on which it is read, `2026-12-31`, for calendars that run out; absent: not looked at. */
  readonly today?: string;
  /** `TURNO_RUNTIME_…` of it stand over the files' settings: samples, retention and served queues decide here. */
  readonly environment?: Environment;
}

export interface LoadedProject {
  /** Null when there is any error. */
  readonly state: DesiredState | null;
  /** The project's own document when that one is valid, whatever the others are. */
  readonly project: ProjectObject | null;
  /** Errors and warnings of all files together, sorted by file, line and column. */
  readonly problems: readonly Problem[];
}

/** Where the project itself is declared. */
export const PROJECT_FILE = "turno.yaml";
/** Objects with this label and the value `true` are left out when samples are off. */
export const SAMPLE_LABEL = "turno.sample";

type Files = ReadonlyMap<string, Uint8Array | string>;

/**
 * Files by path below the root → what they declare, or every problem they have. Never throws, whatever is in them.
 * Of the files given, turno.yaml and those that its `include` matches are documents and turno.rules.yaml holds the team's rules; others are only
 * read when a payload schema refers to them. The state's `contentHash` covers the files; reconcile adds the handlers' bundles.
 */
export function loadProject(files: Files, options: LoadProjectOptions = {}): LoadedProject {
  const content = files.get(PROJECT_FILE);
  if (content === undefined) return { state: null, project: null, problems: [projectMissing(files)] };
  const own = readDocuments([[PROJECT_FILE, content]]);
  const found = findProject(own.envelopes, own.complete);
  const include = readIncludes(found.envelope);
  const included = compileGlobs(include);
  const others = [...files].filter(([path]) => path !== PROJECT_FILE && included.matches(path)).sort(byPath);
  const other = readDocuments(others);
  const problems = [...own.problems, ...other.problems, ...found.problems];
  for (const { kind, source } of other.envelopes) {
    if (kind === "Project") problems.push(misplacedProject(source));
  }

  const envelopes = [...own.envelopes, ...other.envelopes].filter(({ kind }) => kind !== "Project");
  problems.push(...findDuplicates(envelopes));
  const checked = found.envelope === null ? null : checkProject(found.envelope, options.environment ?? {});
  problems.push(...(checked?.problems ?? []));
  if (checked !== null && others.length === 0) problems.push(emptyInclude(checked.envelope, include));
  const complete = own.complete && other.complete;
  const valid: ValidDocument[] = checked?.valid == null ? [] : [checked.valid];
  const objects = readObjects({ envelopes, files, options, complete, problems, valid, project: checked });
  const rules = files.get(RULES_FILE);
  if (rules !== undefined) problems.push(...checkTeamRules(rules, valid));
  const sorted = sortProblems(problems);
  const project = checked === null || hasErrors(checked.problems) ? null : checked.object;
  if (project === null || hasErrors(sorted)) return { state: null, project, problems: sorted };
  const state = { project, objects, includedFiles: others.length, contentHash: hashState({ project, objects }) };
  return { state: deepFreeze(state), project, problems: sorted };
}

/**
 * What a turno.yaml with mistakes elsewhere says of its processes; the defaults when it says nothing. Null: it does say
 * something, which cannot be read.
 */
export function salvageRuntime(content: Uint8Array | string): RuntimeSettings | null {
  const { documents, complete } = loadFile(PROJECT_FILE, content);
  const projects = documents.flatMap(({ value }) => (isMapping(value) && value.kind === "Project" ? [value] : []));
  const [project] = projects;
  if (!complete || project === undefined || projects.length > 1) {
    const text = typeof content === "string" ? content : new TextDecoder().decode(content);
    return text.includes("runtime") ? null : readRuntimeDocument({});
  }
  const spec = project.spec ?? {};
  return isMapping(spec) ? readRuntimeDocument(spec.runtime ?? {}) : null;
}

interface ReadDocuments {
  readonly envelopes: readonly Envelope[];
  readonly problems: readonly Problem[];
  /** Every document could be read and named, so that what is not declared is known. */
  readonly complete: boolean;
}

function readDocuments(files: readonly (readonly [path: string, content: Uint8Array | string])[]): ReadDocuments {
  const envelopes: Envelope[] = [];
  const problems: Problem[] = [];
  let complete = true;
  for (const [path, content] of files) {
    const loaded = loadFile(path, content);
    problems.push(...loaded.problems);
    complete &&= loaded.complete;
    for (const document of loaded.documents) {
      const envelope = readEnvelope(document);
      if ("code" in envelope) problems.push(envelope);
      else envelopes.push(envelope);
      complete &&= !("code" in envelope) && envelope.name !== null;
    }
  }
  return { envelopes, problems, complete };
}

interface CheckedProject {
  readonly envelope: Envelope<"Project">;
  readonly valid: ValidDocument<"Project"> | null;
  readonly object: ProjectObject | null;
  /** The object's, with the environment's settings over the files'. */
  readonly settings: ProjectSpec | null;
  readonly problems: readonly Problem[];
}

function checkProject(envelope: Envelope<"Project">, environment: Environment): CheckedProject {
  const { valid, problems: found } = checkDocument(envelope);
  if (valid === null) return { envelope, valid, object: null, settings: null, problems: found };
  const problems = [...found];
  const { spec } = valid.document;
  for (const [index, pattern] of spec.include.entries()) {
    const message = describeBadGlob(pattern);
    const path = ["spec", "include", index];
    if (message !== null) problems.push(problemAt(valid.source, { code: "TURNO_CONFIG_VALUE", path, message }));
  }
  if (spec.timeZone !== undefined && !isTimeZone(spec.timeZone)) {
    problems.push(problemAt(valid.source, describeZone(spec.timeZone, ["spec", "timeZone"])));
  }
  for (const { path, message } of checkRuntime(spec.runtime)) {
    const at = { code: "TURNO_CONFIG_VALUE", path: ["spec", "runtime", ...path], message } as const;
    problems.push(problemAt(valid.source, at));
  }
  for (const { path, message } of adviseRuntime(spec.runtime)) {
    const at = { code: "TURNO_CONFIG_VALUE", path: ["spec", "runtime", ...path], message } as const;
    problems.push(problemAt(valid.source, { ...at, severity: "warning" }));
  }
  if (spec.source !== undefined) {
    for (const { path, message } of checkSource(spec.source)) {
      const at = { code: "TURNO_CONFIG_VALUE", path: ["spec", "source", ...path], message } as const;
      problems.push(problemAt(valid.source, at));
    }
  }
  const object = normalizeProject(valid);
  try {
    const settings = { ...object.spec, runtime: overrideRuntime(object.spec.runtime, environment) };
    return { envelope, valid, object, settings, problems };
  } catch (error) {
    const at = { code: "TURNO_CONFIG_SETTING", path: ["spec", "runtime"], message: describeError(error) } as const;
    problems.push(problemAt(valid.source, at));
    return { envelope, valid, object, settings: object.spec, problems };
  }
}

/** Objects of the valid documents, sorted by kind and name; problems and valid documents are added to those given. */
function readObjects(context: {
  readonly envelopes: readonly Envelope[];
  readonly files: Files;
  readonly options: LoadProjectOptions;
  readonly complete: boolean;
  readonly problems: Problem[];
  readonly valid: ValidDocument[];
  readonly project: CheckedProject | null;
}): readonly DeclaredObject[] {
  const { envelopes, files, options, complete, problems, valid, project } = context;
  const { handlerExists, builtinSettings } = options;
  const defaults = project?.valid?.document.spec.defaults;
  const settings = project?.settings ?? null;
  const samples = settings?.runtime.samples ?? true;
  const objects: DeclaredObject[] = [];
  const switchedOff: string[] = [];
  const jobs = new Map<string, JobObject>();
  const sources = new Map<DeclaredObject, LoadedDocument>();
  const keep = (object: DeclaredObject | null, source: LoadedDocument): void => {
    if (object === null) return;
    if (!samples && object.labels[SAMPLE_LABEL] === "true") switchedOff.push(`${object.kind}/${object.name}`);
    else objects.push(object);
    sources.set(object, source);
  };
  const check = <Kind extends Envelope["kind"]>(envelope: Envelope, kind: Kind, fill: JsonObject = {}) => {
    const found = checkDocument<Kind>({ ...envelope, kind }, fill);
    problems.push(...found.problems);
    if (found.valid !== null) valid.push(found.valid);
    if (kind !== "Schedule" && found.valid?.document.metadata.previousNames !== undefined) {
      const path = ["metadata", "previousNames"];
      const message = `expected previousNames of a Schedule only, found them at a ${kind}`;
      problems.push(problemAt(envelope.source, { code: "TURNO_CONFIG_VALUE", path, part: "key", message }));
    }
    return found;
  };

  for (const envelope of envelopes) {
    if (envelope.kind === "Queue") {
      const { valid } = check(envelope, "Queue");
      keep(valid && normalizeQueue(valid), envelope.source);
    } else if (envelope.kind === "Policy") {
      const { valid } = check(envelope, "Policy");
      if (valid !== null) problems.push(...checkBackoff(valid));
      keep(valid && normalizePolicy(valid), envelope.source);
    } else if (envelope.kind === "Job") {
      const checked = check(envelope, "Job", { ...defaults?.Job } as JsonObject);
      const job = readJob(checked, { settings, files, handlerExists, builtinSettings, problems });
      if (job !== null) jobs.set(job.name, job);
      keep(job, envelope.source);
    }
  }
  const calendars = new Map<string, CalendarObject>();
  for (const envelope of envelopes) {
    if (envelope.kind !== "Calendar") continue;
    const calendar = readCalendar(check(envelope, "Calendar"), { files, today: options.today ?? null, problems });
    if (calendar !== null) calendars.set(calendar.name, calendar);
    keep(calendar, envelope.source);
  }
  for (const envelope of envelopes) {
    if (envelope.kind !== "Schedule") continue;
    const checked = check(envelope, "Schedule", { ...defaults?.Schedule } as JsonObject);
    keep(readSchedule(checked, { settings, jobs, calendars, problems }), envelope.source);
  }
  // Documents that are not valid are declared all the same: naming them is no second mistake.
  const declared = new Set(envelopes.map(({ kind, name }) => `${kind}/${name}`));
  for (const id of switchedOff) declared.delete(id);
  problems.push(...findReferenceProblems({ objects, sources, declared, complete, settings }));
  return objects.sort((left, right) => byText(`${left.kind}/${left.name}`, `${right.kind}/${right.name}`));
}

function findProject(
  envelopes: readonly Envelope[],
  complete: boolean,
): { readonly envelope: Envelope<"Project"> | null; readonly problems: readonly Problem[] } {
  const [first, ...more] = envelopes.filter((envelope): envelope is Envelope<"Project"> => envelope.kind === "Project");
  const problems = more.map(({ source }) => {
    const message = `expected one Project, found another one; the first is on line ${first?.source.locate(["kind"], "key").line}`;
    return problemAt(source, { code: "TURNO_CONFIG_PROJECT", path: ["kind"], part: "key", message });
  });
  if (first !== undefined || !complete) return { envelope: first ?? null, problems };
  const message = `expected a document with kind: Project in ${PROJECT_FILE}, found none`;
  const at = { file: PROJECT_FILE, line: 1, column: 1, path: "" };
  return {
    envelope: null,
    problems: [{ code: "TURNO_CONFIG_PROJECT", severity: "error", ...at, message, hint: null }],
  };
}

/** As written: other files are looked at even when the project has problems elsewhere. */
function readIncludes(project: Envelope<"Project"> | null): readonly string[] {
  const spec = project?.value.spec;
  const include = spec !== null && typeof spec === "object" && "include" in spec ? spec.include : undefined;
  if (!Array.isArray(include)) return ["turno.d/**/*.yaml"];
  return include.filter((pattern): pattern is string => typeof pattern === "string").slice(0, 100);
}

function findDuplicates(envelopes: readonly Envelope[]): readonly Problem[] {
  const first = new Map<string, LoadedDocument>();
  return envelopes.flatMap(({ kind, name, source }) => {
    if (name === null) return [];
    const id = `${kind}/${name}`;
    const other = first.get(id);
    if (other === undefined) {
      first.set(id, source);
      return [];
    }
    const { line } = other.locate(["metadata", "name"]);
    const message = `${id} is declared twice, here and in ${other.file}:${line}`;
    const path = ["metadata", "name"];
    return [
      problemAt(source, {
        code: "TURNO_CONFIG_DUPLICATE_OBJECT",
        path,
        message,
        hint: "Rename or remove one of them.",
      }),
    ];
  });
}

function misplacedProject(source: LoadedDocument): Problem {
  const message = `expected the Project only in ${PROJECT_FILE}, found another one`;
  return problemAt(source, { code: "TURNO_CONFIG_PROJECT", path: ["kind"], part: "key", message });
}

function emptyInclude({ source }: Envelope<"Project">, include: readonly string[]): Problem {
  const message = `no file matches ${include.join(", ") || "an empty include"}; applying this would remove every declared object`;
  return problemAt(source, { code: "TURNO_INCLUDE_EMPTY", path: ["spec", "include"], message, severity: "warning" });
}

function projectMissing(files: Files): Problem {
  const other = [...files.keys()].find((path) => /^turno\.yml$/i.test(path) || path.toLowerCase() === PROJECT_FILE);
  return {
    code: "TURNO_PROJECT_MISSING",
    severity: "error",
    file: PROJECT_FILE,
    line: 1,
    column: 1,
    path: "",
    message: `expected a ${PROJECT_FILE} in the project's folder, found none`,
    hint: other === undefined ? "Run `turno init` to make a project." : `Rename ${other} to ${PROJECT_FILE}.`,
  };
}

function byPath([left]: readonly [string, unknown], [right]: readonly [string, unknown]): number {
  return byText(left, right);
}

function byText(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}
