import type { ErrorCode } from "../core/error-codes.ts";
import { escapePointer } from "../core/unstorable.ts";

/** One mistake in the files, as `turno validate` reports it. */
export interface Problem {
  readonly code: ErrorCode;
  readonly severity: "error" | "warning";
  /** Path below the project's root, with forward slashes. */
  readonly file: string;
  /** Both count from 1. */
  readonly line: number;
  readonly column: number;
  /** JSON Pointer into the document; empty for the document or the file as a whole. */
  readonly path: string;
  readonly message: string;
  /** What to write or do instead. */
  readonly hint: string | null;
}

/** Both count from 1. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

export type Path = readonly (string | number)[];

export function toPointer(path: Path): string {
  return path.map((segment) => `/${escapePointer(segment)}`).join("");
}

/** Most problems that are told of one file: after these the first ones are what to mend. */
const MOST_IN_A_FILE = 100;

/** By file, line and column; equal ones once; of one file a hundred, and how many more there are. */
export function sortProblems(problems: readonly Problem[]): readonly Problem[] {
  const sorted = [...problems].sort(
    (left, right) =>
      compareText(left.file, right.file) ||
      left.line - right.line ||
      left.column - right.column ||
      compareText(left.code, right.code) ||
      compareText(left.message, right.message),
  );
  const distinct = sorted.filter((problem, index) => {
    const before = sorted[index - 1];
    return before === undefined || JSON.stringify(before) !== JSON.stringify(problem);
  });
  const files = new Map<string, Problem[]>();
  for (const problem of distinct) {
    const own = files.get(problem.file);
    if (own === undefined) files.set(problem.file, [problem]);
    else own.push(problem);
  }
  return [...files.values()].flatMap(shorten);
}

/** Lists that were shortened before are taken as they are, so that sorting twice counts once. */
function shorten(problems: readonly Problem[]): readonly Problem[] {
  const told = problems.filter(({ code }) => code !== "TURNO_CONFIG_MORE");
  const first = told[MOST_IN_A_FILE];
  if (first === undefined) return problems;
  const hidden = told.slice(MOST_IN_A_FILE);
  const severity = hasErrors(hidden) ? "error" : "warning";
  const message = `${hidden.length} more problems in this file are not shown`;
  return [
    ...told.slice(0, MOST_IN_A_FILE),
    {
      ...first,
      code: "TURNO_CONFIG_MORE",
      severity,
      path: "",
      message,
      hint: "Mend the first ones; the others may go with them.",
    },
  ];
}

export function hasErrors(problems: readonly Problem[]): boolean {
  return problems.some(({ severity }) => severity === "error");
}

/** The candidate that a misspelt name most likely means; null when none is near. */
export function nearestName(name: string, candidates: Iterable<string>): string | null {
  const wanted = name.slice(0, 200).toLowerCase();
  let best: string | null = null;
  let bestDistance = Math.max(1, Math.floor(wanted.length / 3)) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(wanted, candidate.toLowerCase(), bestDistance);
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** A value as problems quote it: short, on one line. */
export function describeValue(value: unknown): string {
  if (typeof value === "string") {
    const text = JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value);
    return `the text ${text}`;
  }
  if (value === null || value === undefined) return "nothing";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object") return "a mapping";
  return String(value);
}

/** Optimal string alignment distance: insertions, deletions, substitutions and swaps of neighbours; cut at `limit`. */
function editDistance(left: string, right: string, limit: number): number {
  if (Math.abs(left.length - right.length) >= limit) return limit;
  let beforeLast: number[] = [];
  let last = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let row = 1; row <= left.length; row++) {
    const current = [row];
    for (let column = 1; column <= right.length; column++) {
      const same = left[row - 1] === right[column - 1];
      const swapped = left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1];
      current[column] = Math.min(
        (last[column] ?? limit) + 1,
        (current[column - 1] ?? limit) + 1,
        (last[column - 1] ?? limit) + (same ? 0 : 1),
        swapped ? (beforeLast[column - 2] ?? limit) + 1 : limit,
      );
    }
    beforeLast = last;
    last = current;
  }
  return last[right.length] ?? limit;
}

function compareText(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}
