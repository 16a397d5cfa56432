const CONTEXT = 3;

/**
 * The change of a file as a unified diff of one hunk, as `git apply` takes it in the folder that `path` starts from;
 * empty for equal texts.
 */
export function unifiedDiff({ path, before, after }: { path: string; before: string; after: string }): string {
  if (before === after) return "";
  const [old, next] = [toLines(before), toLines(after)];
  let head = 0;
  while (head < old.length && head < next.length && old[head] === next[head]) head++;
  let tail = 0;
  while (
    tail < old.length - head &&
    tail < next.length - head &&
    old[old.length - 1 - tail] === next[next.length - 1 - tail]
  )
    tail++;
  const from = Math.max(0, head - CONTEXT);
  const kept = Math.max(0, tail - CONTEXT);
  const range = (lines: readonly string[]) => {
    const count = lines.length - kept - from;
    return `${count === 0 ? from : from + 1},${count}`;
  };
  // A tab ends a name that has spaces.
  const end = path.includes(" ") ? "\t" : "";
  return [
    `--- a/${path}${end}\n+++ b/${path}${end}\n@@ -${range(old)} +${range(next)} @@\n`,
    ...old.slice(from, head).map((line) => mark(" ", line)),
    ...old.slice(head, old.length - tail).map((line) => mark("-", line)),
    ...next.slice(head, next.length - tail).map((line) => mark("+", line)),
    ...old.slice(old.length - tail, old.length - kept).map((line) => mark(" ", line)),
  ].join("");
}

/** Lines with their ends; the last one may have none. */
function toLines(text: string): readonly string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

function mark(sign: string, line: string): string {
  return line.endsWith("\n") ? sign + line : `${sign}${line}\n\\ No newline at end of file\n`;
}
