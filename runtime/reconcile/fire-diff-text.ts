import { drawBars } from "../time/fire-load.ts";
import { formatLocal } from "../time/time-zone.ts";
import type { FireDiff, LoadSummary, ScheduleFires } from "./fire-diff.ts";

/** Instants of a kind that are written out; the others are a number. */
const SHOWN_FIRES = 4;
const SHOWN_SCHEDULES = 50;
const COLOURS = { "+": 32, "-": 31, "~": 33 } as const;

type Mark = keyof typeof COLOURS;

/** The fires that change, for people: by schedule, then all together with a chart. Empty when none changes. */
export function renderFireDiff(diff: FireDiff, { colour }: { readonly colour: boolean }): string {
  if (diff.schedules.length === 0) return "";
  const shown = diff.schedules.slice(0, SHOWN_SCHEDULES).map((schedule) => renderSchedule(schedule, colour));
  const rest = diff.schedules.length - shown.length;
  const blocks = [
    `Fires from ${minuteText(diff.from)} to ${minuteText(diff.to)}: ${sumUp(diff)}.`,
    ...shown,
    ...(rest > 0 ? [`  … and ${rest} more schedules`] : []),
    renderLoad(diff),
  ];
  return `${blocks.join("\n\n")}\n`;
}

/** `3 added, 5 removed, 2 moved`. */
export function sumUp({ added, removed, moved }: Pick<FireDiff, "added" | "removed" | "moved">): string {
  if (added + removed + moved === 0) return "none added, removed or moved";
  return `${added} added, ${removed} removed, ${moved} moved`;
}

/** `14 → 12 fires`; a question mark where they cannot be foreseen. */
export function countText({ before, after, comparedUntil }: ScheduleFires): string {
  const text = (count: number | null) => (count === null ? "?" : `${count}`);
  const more = comparedUntil === null ? "" : " at least";
  return before === after ? `${text(after)} fires${more}` : `${text(before)} → ${text(after)} fires${more}`;
}

/** On the schedule's wall clock and in UTC: `Tue 2026-12-01 06:00-03:00 (09:00Z)`. */
export function fireText(instant: string, timeZone: string): string {
  const at = new Date(instant);
  const local = formatLocal(at, timeZone);
  const weekday = WEEKDAYS[new Date(`${local.slice(0, 10)}T00:00:00Z`).getUTCDay()] ?? "";
  const zoned = `${weekday} ${withoutSeconds(local.replace("T", " "))}`;
  if (timeZone === "UTC") return zoned.replace(/\+00:00$/, "Z");
  const day = instant.slice(0, 10) === local.slice(0, 10) ? "" : `${instant.slice(5, 10)} `;
  return `${zoned} (${day}${withoutSeconds(instant.slice(11))})`;
}

const WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

/** Seconds only where there are some. */
function withoutSeconds(text: string): string {
  return text.replace(/(?<=\d\d:\d\d):00(?=[Z+-])/, "");
}

function renderSchedule(schedule: ScheduleFires, colour: boolean): string {
  const { name, timeZone, counts } = schedule;
  const show = (instant: string) => fireText(instant, timeZone);
  const moves = schedule.moved.map(({ from, to }) => `${show(from)} → ${show(to)}`);
  const lines = [
    `  Schedule/${name}  ${countText(schedule)}  ${timeZone}`,
    ...renderKind({ mark: "~", count: counts.moved, texts: moves, colour }),
    ...renderKind({ mark: "-", count: counts.removed, texts: schedule.removed.map(show), colour }),
    ...renderKind({ mark: "+", count: counts.added, texts: schedule.added.map(show), colour }),
    ...schedule.notes.map((note) => `    ! ${note}`),
  ];
  return lines.join("\n");
}

function renderKind(kind: {
  readonly mark: Mark;
  readonly count: number;
  readonly texts: readonly string[];
  readonly colour: boolean;
}): readonly string[] {
  const { mark, count, texts, colour } = kind;
  const shown = texts.slice(0, SHOWN_FIRES).map((text) => paint(`    ${mark} ${text}`, COLOURS[mark], colour));
  const rest = count - shown.length;
  if (rest > 0) shown.push(paint(`    ${mark} … ${rest} more`, COLOURS[mark], colour));
  return shown;
}

function renderLoad({ load, collisions, uncounted }: FireDiff): string {
  const top = Math.max(...load.before.cells, ...load.after.cells);
  const line = (name: string, { cells, peak, fires }: LoadSummary) => {
    const most =
      peak === null ? "no fires" : `${fires} fires, at most ${peak.fires} a minute, at ${minuteText(peak.at)}`;
    return `  ${name}  ▕${drawBars(cells, top)}▏ ${most}`;
  };
  const lines = [
    "  Load of all schedules",
    line("before", load.before),
    line("after ", load.after),
    `  ${describeShared(load)}`,
    ...collisions.map(({ at, schedules, names }) => `    ${at}  ${schedules} at once: ${nameList(names, schedules)}`),
  ];
  if (uncounted > 0) lines.push(`  ${uncounted} schedules are not counted: there are too many fires.`);
  return lines.join("\n");
}

/** How many instants several schedules share, before and after. */
export function describeShared({ before, after }: FireDiff["load"]): string {
  const [old, next] = [before.sharedInstants, after.sharedInstants];
  if (next === 0)
    return old === 0 ? "No two schedules fire at the same instant." : "No two fire at the same instant any more.";
  return `Instants at which several schedules fire: ${old === next ? next : `${old} → ${next}`}.`;
}

/** `a, b and 3 more`. */
export function nameList(names: readonly string[], count: number): string {
  const rest = count - names.length;
  return rest > 0 ? `${names.join(", ")} and ${rest} more` : names.join(", ");
}

/** `2026-12-01 09:00Z`. */
export function minuteText(instant: string): string {
  return `${instant.slice(0, 16).replace("T", " ")}Z`;
}

function paint(text: string, code: number, colour: boolean): string {
  return colour ? `\u001b[${code}m${text}\u001b[0m` : text;
}
