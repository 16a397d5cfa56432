import type { Json } from "../core/json.ts";
import type { FieldChange } from "./field-changes.ts";
import type { ObjectChange } from "./object-changes.ts";
import type { Plan } from "./plan.ts";

const MARKS = { create: "+", update: "~", delete: "-", none: " " } as const;
const COLOURS = { create: 32, update: 33, delete: 31, none: 0 } as const;
const LONGEST_VALUE = 80;
const MOST_FIELDS = 40;

/** A plan for people: what changes field by field, what follows from it, and a last line that sums it up. */
export function renderPlan(plan: Plan, { colour }: { readonly colour: boolean }): string {
  const changes = plan.changes.filter(({ action }) => action !== "none");
  const blocks = changes.map((change) => renderChange(change, colour));
  const notes = [
    ...plan.consequences.map((sentence) => `  ${sentence}`),
    ...plan.warnings.map((sentence) => paint(`  Warning: ${sentence}`, 33, colour)),
  ];
  if (notes.length > 0) blocks.push(notes.join("\n"));
  blocks.push(summarize(changes, plan.base.revision));
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

function summarize(changes: readonly ObjectChange[], base: number | null): string {
  const against = base === null ? "nothing applied yet" : `revision ${base}`;
  if (changes.length === 0) return `No changes: the files are what is in force (${against}).`;
  const count = (wanted: ObjectChange["action"]) => changes.filter(({ action }) => action === wanted).length;
  return `Plan against ${against}: ${count("create")} to create, ${count("update")} to update, ${count("delete")} to delete.`;
}

function paint(text: string, code: number, colour: boolean): string {
  return colour ? `\u001b[${code}m${text}\u001b[0m` : text;
}
