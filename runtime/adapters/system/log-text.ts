import { styleText } from "node:util";

type Style = Parameters<typeof styleText>[0];

const LEVELS: Readonly<Record<string, { readonly label: string; readonly style: Style }>> = {
  debug: { label: "debug", style: "gray" },
  info: { label: "info ", style: "green" },
  warn: { label: "warn ", style: "yellow" },
  error: { label: "error", style: "red" },
};

/**
 * One JSON line of the log → a line for people: `12:00:01 info  fired a schedule  schedule=nightly lateMs=3`. Control
 * characters are escaped, so that a logged text cannot drive the terminal; an error's stack follows indented.
 */
export function formatLine(json: string, colour: boolean): string {
  const { level, time, msg, ...fields } = JSON.parse(json) as Record<string, unknown>;
  const paint = (style: Style, text: string) => (colour ? styleText(style, text, { validateStream: false }) : text);
  const known = LEVELS[String(level)] ?? { label: String(level), style: "white" as const };
  const stacks: string[] = [];
  const pairs = Object.entries(fields).map(([name, value]) => {
    const error = value as { message?: unknown; stack?: unknown } | null;
    if (typeof error === "object" && typeof error?.stack === "string") {
      stacks.push(error.stack);
      return `${paint("dim", `${name}=`)}${quote(String(error.message))}`;
    }
    return `${paint("dim", `${name}=`)}${quote(typeof value === "string" ? value : JSON.stringify(value))}`;
  });
  const clock = String(time).slice(11, 19);
  const head = `${paint("dim", clock)} ${paint(known.style, known.label)} ${escapeControls(String(msg ?? ""))}`;
  const tail = stacks.flatMap((stack) => stack.split("\n")).map((line) => `\n    ${escapeControls(line)}`);
  return `${[head, ...pairs].join("  ")}${tail.join("")}\n`;
}

function quote(text: string): string {
  const safe = escapeControls(text);
  return safe === "" || (/[\s"=]/.test(safe) && !/^[[{]/.test(safe)) ? `"${safe.replaceAll('"', '\\"')}"` : safe;
}

/** C0, DEL and C1 as \xNN. */
function escapeControls(text: string): string {
  return text.replace(/\p{Cc}/gu, (character) => {
    if (character === "\n") return "\\n";
    if (character === "\t") return "\\t";
    return `\\x${character.charCodeAt(0).toString(16).padStart(2, "0")}`;
  });
}
