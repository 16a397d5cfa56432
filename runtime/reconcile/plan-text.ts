import type { Json } from "../core/json.ts";
import type { FieldChange } from "./field-changes.ts";
import type { FireDiff } from "./fire-diff.ts";
import { renderFireDiff } from "./fire-diff-text.ts";
import type { ObjectChange } from "./object-changes.ts";
import type { Plan } from "./plan.ts";

const MARKS = { create: "+", update: "~", delete: "-", rename: "~", none: " " } as const;
const COLOURS = { create: 32, update: 33, delete: 31, rename: 33, none: 0 } as const;
const LONGEST_VALUE = 80;
const MOST_FIELDS = 40;

export interface PlanTextOptions {
  readonly colour: boolean;
  /** The fires that change. */
  readonly fires?: FireDiff;
  /** What the files were compared with, when it was not what is in force. */
  readonly against?: string;
}

/** A plan for people: what changes field by field, what follows from it, and a last line that sums it up. */
export function renderPlan(plan: Plan, { colour, fires, against }: PlanTextOptions): string {
  const changes = plan.changes.filter(({ action }) => action !== "none");
  const blocks = changes.map((change) => renderChange(change, colour));
  const notes = [
    ...plan.consequences.map((sentence) => `  ${sentence}`),
    ...plan.warnings.map((sentence) => paint(`  Warning: ${sentence}`, 33, colour)),
  ];
  if (notes.length > 0) blocks.push(notes.join("\n"));
  const fireText = fires === undefined ? "" : renderFireDiff(fires, { colour });
  if (fireText !== "") blocks.push(fireText.trimEnd());
  blocks.push(summarize(changes, against ?? describeBase(plan.base.revision), against === undefined));
  return `${blocks.join("\n\n")}\n`;
}

function renderChange({ action, object, fields }: ObjectChange, colour: boolean): string {
  const head = paint(`${MARKS[action]} ${object}`, COLOURS[action], colour);
  if (action === "delete") return head;
  const width = Math.max(0, ...fields.slice(0, MOST_FIELDS).map(({ path }) => path.length));
  const lines = fields
    .slice(0, MOST_FIELDS)
    .map((field) => `    ${field.path.padEnd(width)}  ${renderField(field, action)}`);
  if (fields.length > MOST_FIELDS) lines.push(`    … and ${fields.length - MOST_FIELDS} more fields`);
  return [head, ...lines].join("\n");
}

function renderField({ before, after }: FieldChange, action: ObjectChange["action"]): string {
  if (action === "create") return renderValue(after);
  return `${renderValue(before)} → ${renderValue(after)}`;
}

/** One line, whatever the value: control characters would otherwise reach the terminal. */
function renderValue(value: Json): string {
  if (value === null) return "(not set)";
  const text =
    typeof value === "string" && /^[\w.:/@+*,?#()-]+( [\w.:/@+*,?#()-]+)*$/.test(value) ? value : JSON.stringify(value);
  const characters = [...text.replace(/[\u007f-\u009f\u2028\u2029]/g, "?")];
  return characters.length <= LONGEST_VALUE
    ? characters.join("")
    : `${characters.slice(0, LONGEST_VALUE - 1).join("")}…`;
}

function describeBase(revision: number | null): string {
  return revision === null ? "nothing applied yet" : `revision ${revision}`;
}

function summarize(changes: readonly ObjectChange[], against: string, isInForce: boolean): string {
  if (changes.length === 0) {
    return isInForce
      ? `No changes: the files are what is in force (${against}).`
      : `No changes: the files declare what ${against} does.`;
  }
  const count = (wanted: ObjectChange["action"]) => changes.filter(({ action }) => action === wanted).length;
  const renamed = count("rename") === 0 ? "" : `${count("rename")} to rename, `;
  return `Plan against ${against}: ${count("create")} to create, ${renamed}${count("update")} to update, ${count("delete")} to delete.`;
}

function paint(text: string, code: number, colour: boolean): string {
  return colour ? `\u001b[${code}m${text}\u001b[0m` : text;
}
