import { printable } from "../core/printable.ts";
import { drawBars } from "../time/fire-load.ts";
import type { FireDiff, ScheduleFires } from "./fire-diff.ts";
import { countText, describeShared, fireText, minuteText, nameList, sumUp } from "./fire-diff-text.ts";
import type { Plan } from "./plan.ts";

/** In the first line of the comment, so that a later plan finds and replaces it. */
export const COMMENT_MARKER = "<!-- turno:plan -->";
/** Code hosts refuse comments above 65,536 characters. */
const MAX_LENGTH = 60_000;
const SHOWN_FIRES = 20;
/** Rows of a table, and sentences of a list. */
const SHOWN_ROWS = 100;

/** A plan as a comment of a pull request: a summary that is read at once, the instants folded away below it. */
export function renderPlanMarkdown(plan: Plan, fires: FireDiff): string {
  const changes = plan.changes.filter(({ action }) => action !== "none");
  const blocks = [`${COMMENT_MARKER}\n### Turno plan`];
  if (changes.length === 0) {
    blocks.push("No changes: the files are what is in force.");
    return joinWithin(blocks);
  }
  const count = (action: string) => changes.filter((change) => change.action === action).length;
  const kinds = [...new Set(changes.map(({ action }) => action))].map((action) => `${count(action)} to ${action}`);
  blocks.push(
    `**${kinds.join(", ")}**; fires from ${minuteText(fires.from)} to ${minuteText(fires.to)}: **${sumUp(fires)}**`,
    table(
      ["", "object", "fields"],
      changes.map(({ action, object, fields }) => [
        action,
        code(object),
        action === "delete"
          ? ""
          : fields
              .slice(0, 8)
              .map(({ path }) => code(path))
              .join(" ") + (fields.length > 8 ? ` and ${fields.length - 8} more` : ""),
      ]),
    ),
  );
  if (plan.warnings.length > 0) blocks.push(list("⚠️ ", plan.warnings));
  if (plan.consequences.length > 0) blocks.push(list("", plan.consequences));
  if (fires.schedules.length > 0) blocks.push(...renderFires(fires));
  return joinWithin(blocks);
}

function renderFires(fires: FireDiff): readonly string[] {
  const { load } = fires;
  const rows = fires.schedules.map((schedule) => [
    code(schedule.name),
    code(schedule.timeZone),
    countText(schedule),
    `${schedule.counts.added} / ${schedule.counts.removed} / ${schedule.counts.moved}`,
    schedule.notes.map(escapeMarkup).join("<br>"),
  ]);
  const top = Math.max(...load.before.cells, ...load.after.cells);
  const peak = ({ peak: found }: typeof load.before) =>
    found === null ? "no fires" : `at most ${found.fires} a minute, at ${minuteText(found.at)}`;
  return [
    table(["schedule", "zone", "fires", "added / removed / moved", "notes"], rows),
    ...fires.schedules.filter(hasInstants).map(renderInstants),
    [
      "```text",
      `before ▕${drawBars(load.before.cells, top)}▏ ${peak(load.before)}`,
      `after  ▕${drawBars(load.after.cells, top)}▏ ${peak(load.after)}`,
      "```",
    ].join("\n"),
    [
      describeShared(load),
      ...fires.collisions.map(
        ({ at, schedules, names }) =>
          `- ${code(at)}: ${schedules} at once, ${escapeMarkup(nameList(names, schedules))}`,
      ),
    ].join("\n"),
    ...(fires.uncounted > 0 ? [`${fires.uncounted} schedules are not counted: there are too many fires.`] : []),
  ];
}

function hasInstants({ counts }: ScheduleFires): boolean {
  return counts.added + counts.removed + counts.moved > 0;
}

function renderInstants(schedule: ScheduleFires): string {
  const { counts, timeZone } = schedule;
  const show = (instant: string) => fireText(instant, timeZone);
  const section = (mark: string, texts: readonly string[], count: number) => [
    ...texts.slice(0, SHOWN_FIRES).map((text) => `${mark} ${text}`),
    ...(count > SHOWN_FIRES ? [`${mark} … ${count - Math.min(SHOWN_FIRES, texts.length)} more`] : []),
  ];
  const lines = [
    ...schedule.moved.slice(0, SHOWN_FIRES).flatMap(({ from, to }) => [`- ${show(from)}`, `+ ${show(to)}  (moved)`]),
    ...(counts.moved > SHOWN_FIRES
      ? [`! … ${counts.moved - Math.min(SHOWN_FIRES, schedule.moved.length)} more moved`]
      : []),
    ...section("-", schedule.removed, counts.removed),
    ...section("+", schedule.added, counts.added),
  ];
  return `<details><summary>Fires of ${code(schedule.name, "html")}</summary>\n\n\`\`\`diff\n${lines.join("\n")}\n\`\`\`\n\n</details>`;
}

function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  const rest = rows.length - SHOWN_ROWS;
  const more = rest > 0 ? [line(headings.map((_, column) => (column === 0 ? `… ${rest} more` : "")))] : [];
  return [line(headings), line(headings.map(() => "---")), ...rows.slice(0, SHOWN_ROWS).map(line), ...more].join("\n");
}

function list(mark: string, sentences: readonly string[]): string {
  const lines = sentences.slice(0, SHOWN_ROWS).map((sentence) => `- ${mark}${escapeMarkup(sentence)}`);
  return [...lines, ...(sentences.length > SHOWN_ROWS ? [`- … ${sentences.length - SHOWN_ROWS} more`] : [])].join("\n");
}

/** Names come from files that a stranger's pull request may bring: nothing in them is markup. */
function escapeMarkup(text: string): string {
  return printable(text)
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(/[\\`*_[\]|~#@!]/g, (character) => `&#${character.charCodeAt(0)};`);
}

function code(text: string, as: "markdown" | "html" = "markdown"): string {
  const plain = printable(text).replaceAll("`", "'").replaceAll("|", "\\|");
  return as === "html" ? `<code>${escapeMarkup(text)}</code>` : `\`${plain}\``;
}

/** Whole blocks only: a fence or fold that is not closed would swallow the rest of the page. */
function joinWithin(blocks: readonly string[]): string {
  let text = "";
  for (const block of blocks) {
    if (text.length + block.length > MAX_LENGTH) {
      return `${text}… cut here: \`turno plan\` prints the whole plan.\n`;
    }
    text += `${block}\n\n`;
  }
  return `${text.trimEnd()}\n`;
}
