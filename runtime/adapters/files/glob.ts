/** A pattern of `spec.include`, ready to walk and to match. */
export interface IncludePattern {
  /** Folder below the root where the walk starts; empty for the root itself. */
  readonly base: string;
  /** Whether a path below the root, with forward slashes, is meant. */
  matches(path: string): boolean;
}

const MAGIC = /[*?[\]{}]/;

/**
 * `*`, `?`, `[abc]`, `{a,b}` and `**` as whole segment, against paths below the root with forward slashes. Null for a
 * pattern that leaves the root: validation refuses the project for it, so it is never read as "matches nothing".
 */
export function compileInclude(pattern: string): IncludePattern | null {
  const segments = pattern.replace(/^(\.\/)+/, "").split("/");
  const leaves =
    pattern.startsWith("/") || pattern.includes("\\") || segments.includes("..") || /^[A-Za-z]:/.test(pattern);
  if (leaves) return null;
  const firstMagic = segments.findIndex((segment) => MAGIC.test(segment));
  const base = segments.slice(0, firstMagic === -1 ? segments.length - 1 : firstMagic).join("/");
  const expression = new RegExp(`^${translateSegments(segments)}$`, "u");
  return { base, matches: (path) => expression.test(path) };
}

/** The patterns that can be used. */
export function compileIncludes(patterns: readonly string[]): readonly IncludePattern[] {
  return patterns.flatMap((pattern) => compileInclude(pattern) ?? []);
}

/** `**` stands for any number of folders, none included; a trailing one for everything below. */
function translateSegments(segments: readonly string[]): string {
  let text = "";
  for (const [index, segment] of segments.entries()) {
    const last = index === segments.length - 1;
    if (segment === "**") text += last ? ".+" : "(?:[^/]+/)*";
    else text += translateSegment(segment) + (last ? "" : "/");
  }
  return text;
}

function translateSegment(segment: string): string {
  let text = "";
  let braces = 0;
  for (let at = 0; at < segment.length; at++) {
    const char = segment.charAt(at);
    const close = char === "[" ? segment.indexOf("]", at + 2) : -1;
    if (close !== -1) {
      const members = segment
        .slice(at + 1, close)
        .replace(/^!/, "^")
        .replace(/[\\[]/g, "\\$&");
      text += `[${members}]`;
      at = close;
    } else if (char === "*") text += "[^/]*";
    else if (char === "?") text += "[^/]";
    else if (char === "{" && segment.includes("}", at)) {
      braces++;
      text += "(?:";
    } else if (char === "}" && braces > 0) {
      braces--;
      text += ")";
    } else if (char === "," && braces > 0) text += "|";
    else text += char.replace(/[.+^$()|[\]\\{}]/g, "\\$&");
  }
  return text + ")".repeat(braces);
}
