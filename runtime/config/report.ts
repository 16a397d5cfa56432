import type { ErrorCode } from "../core/error-codes.ts";
import { ERROR_CODES } from "../core/errors.ts";
import { printable } from "../core/printable.ts";
import { hasErrors, type Problem } from "./problems.ts";

export const REPORT_FORMATS = ["text", "json", "github", "sarif"] as const;
export type ReportFormat = (typeof REPORT_FORMATS)[number];

export interface ReportOptions {
  /** For the excerpts of the text format; files without content get none. */
  readonly files: ReadonlyMap<string, Uint8Array | string>;
  readonly colour: boolean;
  readonly version: string;
}

/** Problems, in the order given, as text that ends with a line break. */
export function formatReport(problems: readonly Problem[], format: ReportFormat, options: ReportOptions): string {
  switch (format) {
    case "text":
      return formatText(problems, options);
    case "json":
      return `${JSON.stringify({ ok: !hasErrors(problems), problems }, null, 2)}\n`;
    case "github":
      return problems.map(formatAnnotation).join("");
    case "sarif":
      return `${JSON.stringify(toSarif(problems, options.version), null, 2)}\n`;
  }
}

/** Shows the lines of problems; each file is taken apart once. */
function createExcerpts(problems: readonly Problem[], files: ReportOptions["files"]) {
  const secrets = new Set(problems.filter(({ code }) => code === "TURNO_CONFIG_SECRET").map(placeOf));
  const linesOf = new Map<string, readonly string[]>();

  function readLines(file: string): readonly string[] {
    const known = linesOf.get(file);
    if (known !== undefined) return known;
    const content = files.get(file) ?? "";
    const text = typeof content === "string" ? content : new TextDecoder().decode(content);
    const lines = text.replace(/^\ufeff/, "").split("\n");
    linesOf.set(file, lines);
    return lines;
  }

  /** The line with a caret under its column; null when the line may hold a secret or is not there. */
  return (problem: Problem): string | null => {
    if (problem.code === "TURNO_CONFIG_ENCODING" || problem.code === "TURNO_CONFIG_MORE") return null;
    if (secrets.has(placeOf(problem))) return null;
    const line = (readLines(problem.file)[problem.line - 1] ?? "").replace(/\r$/, "");
    if (line.trim() === "") return null;
    // A long line is shown around its column.
    const start = Math.max(0, problem.column - 80);
    const shown = line.slice(start, start + 140);
    const before = shown.slice(0, problem.column - 1 - start);
    const number = String(problem.line).padStart(5);
    const caret = `${" ".repeat(5)} | ${before.replaceAll(/[^\t]/gu, " ")}^`;
    return `${number} | ${printable(shown)}\n${caret}`;
  };
}

function placeOf({ file, line }: Problem): string {
  return `${file}:${line}`;
}

function formatText(problems: readonly Problem[], { files, colour }: ReportOptions): string {
  const paint = (code: number, text: string): string => (colour ? `\u001b[${code}m${text}\u001b[0m` : text);
  const excerptOf = createExcerpts(problems, files);
  const blocks = problems.map((problem) => {
    const place = paint(1, printable(`${problem.file}:${problem.line}:${problem.column}`));
    const severity = problem.severity === "error" ? paint(31, "error") : paint(33, "warning");
    const excerpt = excerptOf(problem);
    const lines = [`${place} ${severity} ${printable(problem.message)} ${paint(2, `[${problem.code}]`)}`];
    if (excerpt !== null) lines.push(excerpt);
    if (problem.hint !== null) lines.push(`        ${paint(36, formatHint(problem))}`);
    return `${lines.join("\n")}\n`;
  });
  return `${blocks.join("\n")}${problems.length === 0 ? "" : "\n"}${formatSummary(problems)}\n`;
}

function formatSummary(problems: readonly Problem[]): string {
  const errors = problems.filter(({ severity }) => severity === "error").length;
  const warnings = problems.length - errors;
  const count = (amount: number, word: string): string => `${amount} ${word}${amount === 1 ? "" : "s"}`;
  if (problems.length === 0) return "no problems";
  return [errors > 0 ? count(errors, "error") : "", warnings > 0 ? count(warnings, "warning") : ""]
    .filter((part) => part !== "")
    .join(", ");
}

/** A single word is what to write instead; a sentence says what to do. */
function formatHint({ hint }: Problem): string {
  const text = printable(hint ?? "");
  return /[.?!…]$/.test(text) ? text : `did you mean ${text}?`;
}

/** A workflow command of GitHub Actions, with its own escapes. */
function formatAnnotation(problem: Problem): string {
  const escapeData = (text: string): string =>
    text.replaceAll("%", "%25").replaceAll("\r", "%0D").replaceAll("\n", "%0A");
  const escapeProperty = (text: string): string => escapeData(text).replaceAll(":", "%3A").replaceAll(",", "%2C");
  const { file, line, column, severity, code, message, hint } = problem;
  const properties = `file=${escapeProperty(file)},line=${line},col=${column},title=${code}`;
  const text = hint === null ? message : `${message} (${formatHint(problem)})`;
  return `::${severity} ${properties}::${escapeData(text)}\n`;
}

/** SARIF 2.1.0 (OASIS), as code hosts take it. */
function toSarif(problems: readonly Problem[], version: string): unknown {
  const codes = [...new Set(problems.map(({ code }) => code))].sort();
  return {
    $schema: "https://json.schemastore.org/sarif-2.1.0.json",
    version: "2.1.0",
    runs: [
      {
        tool: {
          driver: {
            name: "turno",
            version,
            rules: codes.map((code: ErrorCode) => ({ id: code, shortDescription: { text: ERROR_CODES[code] } })),
          },
        },
        columnKind: "utf16CodeUnits",
        results: problems.map((problem) => ({
          ruleId: problem.code,
          ruleIndex: codes.indexOf(problem.code),
          level: problem.severity,
          message: { text: problem.hint === null ? problem.message : `${problem.message} (${formatHint(problem)})` },
          locations: [
            {
              physicalLocation: {
                artifactLocation: { uri: problem.file.split("/").map(encodeURIComponent).join("/") },
                region: { startLine: problem.line, startColumn: problem.column },
              },
            },
          ],
        })),
      },
    ],
  };
}
