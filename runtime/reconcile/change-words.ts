import type { Json, JsonObject } from "../core/json.ts";
import { printable } from "../core/printable.ts";
import type { Desired } from "./desired.ts";
import type { FieldChange } from "./field-changes.ts";
import type { ObjectChange } from "./object-changes.ts";

const LONGEST_VALUE = 60;
const MOST_FIELDS = 6;
/** Fields whose path ends otherwise than people call them. */
const NAMES: readonly (readonly [end: RegExp, name: string])[] = [
  [/^\/spec\/retry\/maxAttempts$/, "attempts"],
  [/^\/spec\/retry\/backoff\//, "backoff "],
  [/^\/bundle$/, "code"],
];
const DAILY = /^(\d{1,2}) (\d{1,2}) \* \* \*$/;

/** The changes of a revision in words, an object a line: `Schedule/night 02:00 → 03:00 Europe/Berlin, timeout 5m → 10m`. */
export function describeChanges(
  changes: readonly ObjectChange[],
  zoneOf: (object: string) => string | null = () => null,
) {
  return changes.flatMap((change): readonly string[] => {
    if (change.action === "none") return [];
    if (change.action === "create") return [`${change.object} created${describeTiming(change)}`];
    if (change.action === "delete") return [`${change.object} removed`];
    const fields = change.fields.filter(({ path }) => path !== "/metadata/name" && path !== "/metadata/previousNames");
    const shown = fields.slice(0, MOST_FIELDS).map((field) => describeField(field, zoneOf(change.object)));
    if (fields.length > MOST_FIELDS) shown.push(`and ${fields.length - MOST_FIELDS} more fields`);
    const renamed = change.fields.find(({ path }) => path === "/metadata/name");
    const was = change.action === "rename" && renamed !== undefined ? [`renamed from ${show(renamed.before)}`] : [];
    return [`${change.object} ${[...was, ...shown].join(", ")}`];
  });
}

/** The changes as a revision keeps them, each with its words of then. */
export function writeChanges(changes: readonly ObjectChange[], desired: Desired): readonly KeptChange[] {
  const zones = new Map(
    desired.objects.flatMap((object): readonly (readonly [string, string])[] =>
      object.kind === "Schedule" ? [[`Schedule/${object.name}`, object.spec.timeZone]] : [],
    ),
  );
  return changes
    .filter(({ action }) => action !== "none")
    .map((change) => ({ ...change, words: describeChanges([change], (object) => zones.get(object) ?? null)[0] ?? "" }));
}

interface KeptChange extends ObjectChange {
  /** Absent in revisions of older versions. */
  readonly words?: string;
}

/** The words of the changes that a revision keeps, as far as they have that shape. */
export function readWords(changes: Json): readonly string[] {
  if (!Array.isArray(changes)) return [];
  return (changes as unknown as readonly KeptChange[]).flatMap((change) => change.words ?? describeChanges([change]));
}

function describeTiming({ fields }: ObjectChange): string {
  const timing = fields.find(({ path }) => path === "/spec/cron" || path === "/spec/every" || path === "/spec/at");
  return timing === undefined ? "" : ` (${timing.path.slice(6)} ${show(timing.after)})`;
}

function describeField({ path, before, after }: FieldChange, zone: string | null): string {
  if (path === "/bundle") return "new code";
  if (path === "/spec/cron") {
    const [old, next] = [timeOfDay(before), timeOfDay(after)];
    const where = zone === null ? "" : ` ${zone}`;
    if (old !== null && next !== null) return `${old} → ${next}${where}`;
    return `cron ${show(before)} → ${show(after)}${where}`;
  }
  const name = nameOf(path);
  if (before === null) return `${name} ${show(after)}`;
  if (after === null) return `${name} no longer ${show(before)}`;
  return `${name} ${show(before)} → ${show(after)}`;
}

function nameOf(path: string): string {
  const known = NAMES.find(([end]) => end.test(path));
  const last = path.split("/").at(-1) ?? path;
  if (known === undefined) return path.replace(/^\/(spec|metadata)\//, "").replaceAll("/", ".");
  return known[1].endsWith(" ") ? `${known[1]}${last}` : known[1];
}

/** `0 2 * * *` fires at one time of every day. */
function timeOfDay(cron: Json): string | null {
  const [, minute, hour] = DAILY.exec(typeof cron === "string" ? cron : "") ?? [];
  return minute === undefined || hour === undefined ? null : `${hour.padStart(2, "0")}:${minute.padStart(2, "0")}`;
}

function show(value: Json): string {
  if (value === null) return "nothing";
  const text = printable(typeof value === "string" ? value : JSON.stringify(value as JsonObject));
  return text.length <= LONGEST_VALUE ? text : `${text.slice(0, LONGEST_VALUE - 1)}…`;
}
