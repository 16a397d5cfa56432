import { createHash } from "node:crypto";
import type { CronProblem } from "./cron-expression.ts";

/** Values that `H` may take: every month has the 28th. */
const HASH_RANGES: Readonly<Record<string, readonly [min: number, max: number]>> = {
  second: [0, 59],
  minute: [0, 59],
  hour: [0, 23],
  "day of month": [1, 28],
  month: [1, 12],
  "day of week": [0, 6],
};
/** `H(1-31)` may say more than `H` alone. */
const LARGEST_DAY = 31;

/** `H`, `H/15`, `H(0-29)` and `H(0-29)/10`, as items of a list. */
const HASHED = /^h(?:\((\d{1,2})-(\d{1,2})\))?(?:\/(\d{1,3}))?$/i;

/**
 * The text of a field with every `H` in it written out: a number, or a range with a step, that is the same wherever it
 * is computed. The values of different fields of one schedule don't hang together.
 */
export function writeOutHashes(
  field: string,
  text: string,
  seed: string | undefined,
): { readonly ok: true; readonly text: string } | CronProblem {
  if (!/h/i.test(text)) return { ok: true, text };
  const items: string[] = [];
  for (const item of text.split(",")) {
    // MAR and THU hold letters too: only what begins with an H that is no name.
    if (!/^h(?:$|[^a-z])/i.test(item)) {
      items.push(item);
      continue;
    }
    const written = writeOut(field, item, seed);
    if (!written.ok) return written;
    items.push(written.text);
  }
  return { ok: true, text: items.join(",") };
}

function writeOut(
  field: string,
  item: string,
  seed: string | undefined,
): { readonly ok: true; readonly text: string } | CronProblem {
  const match = HASHED.exec(item);
  if (match === null) {
    return refuse(field, `expected H, H(0-29), H/15 or H(0-29)/10, found "${item}"`);
  }
  if (seed === undefined) {
    return refuse(field, `"${item}": H is hashed from a schedule's name, and there is none here`, "write a number");
  }
  const [min, max] = HASH_RANGES[field] ?? [0, 59];
  const from = match[1] === undefined ? min : Number(match[1]);
  const to = match[2] === undefined ? max : Number(match[2]);
  const largest = field === "day of month" ? LARGEST_DAY : max;
  if (from < min || to > largest || from > to) {
    return refuse(field, `expected a range within ${min}-${largest} that runs forwards, found "${item}"`);
  }
  const hash = hashNumber(`${seed}\n${field}`);
  if (match[3] === undefined) return { ok: true, text: String(from + (hash % (to - from + 1))) };
  const step = Number(match[3]);
  if (step < 1 || step > to - from + 1) {
    return refuse(field, `expected a step from 1 to ${to - from + 1}, found "${match[3]}" in "${item}"`);
  }
  return { ok: true, text: `${from + (hash % step)}-${to}/${step}` };
}

/** A number of 32 bits that a text always gives. */
export function hashNumber(text: string): number {
  return createHash("sha256").update(text).digest().readUInt32BE(0);
}

function refuse(field: string, message: string, hint?: string): CronProblem {
  return { ok: false, field, message, ...(hint === undefined ? {} : { hint }) };
}
