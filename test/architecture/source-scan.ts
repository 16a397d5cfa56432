/** A TypeScript source as the rules read it; every text has the line breaks of the original. */
export interface SourceScan {
  /** Comments and the insides of strings, templates and regular expressions blanked. */
  readonly code: string;
  /** Comments blanked, strings kept: for imports. */
  readonly withStrings: string;
  /** What stands in strings and templates, substitutions left out. */
  readonly literals: readonly Fragment[];
  readonly comments: readonly Fragment[];
}

interface Fragment {
  readonly text: string;
  readonly line: number;
}

export interface Import {
  readonly specifier: string;
  readonly isTypeOnly: boolean;
  readonly line: number;
}

const REGEX_MAY_FOLLOW = /(?:^|[=(,[!&|?{};:+\-*%~^]|=>|\b(?:return|typeof|case|in|of|do|else|await|yield|throw))\s*$/;

/** Splits a source by a scanner that knows comments, strings, nested templates and regular expressions. */
export function scanSource(text: string): SourceScan {
  const code = [...text];
  const withStrings = [...text];
  const literals: Fragment[] = [];
  const comments: Fragment[] = [];
  // Depth of braces at which each open template goes on after its substitution.
  const templates: number[] = [];
  let depth = 0;
  let at = 0;

  const blank = (target: string[], from: number, to: number) => {
    for (let index = from; index < to; index += 1) if (text[index] !== "\n") target[index] = " ";
  };
  const lineOf = (index: number) => text.slice(0, index).split("\n").length;
  const keepLiteral = (from: number, to: number) => {
    literals.push({ text: text.slice(from, to), line: lineOf(from) });
    blank(code, from, to);
  };
  /** From behind the backtick or the closing brace of a substitution to the next of either. */
  const readTemplate = (from: number) => {
    let end = from;
    while (end < text.length && text[end] !== "`" && !text.startsWith("${", end)) end += text[end] === "\\" ? 2 : 1;
    keepLiteral(from, end);
    if (text[end] !== "$") return end + 1;
    templates.push(depth);
    depth += 1;
    return end + 2;
  };
  const readDelimited = (from: number, isEnd: (character: string, index: number) => boolean) => {
    let end = from;
    while (end < text.length && text[end] !== "\n" && !isEnd(text[end] ?? "", end)) end += text[end] === "\\" ? 2 : 1;
    return end;
  };

  while (at < text.length) {
    const character = text[at] ?? "";
    if (text.startsWith("//", at) || text.startsWith("/*", at)) {
      const isLine = text[at + 1] === "/";
      const found = text.indexOf(isLine ? "\n" : "*/", at + 2);
      const end = found === -1 ? text.length : found + (isLine ? 0 : 2);
      comments.push({ text: text.slice(at, end), line: lineOf(at) });
      blank(code, at, end);
      blank(withStrings, at, end);
      at = end;
    } else if (character === '"' || character === "'") {
      const end = readDelimited(at + 1, (next) => next === character);
      keepLiteral(at + 1, end);
      at = end + 1;
    } else if (character === "`") {
      at = readTemplate(at + 1);
    } else if (character === "/" && REGEX_MAY_FOLLOW.test(code.slice(Math.max(0, at - 40), at).join(""))) {
      let isClass = false;
      const end = readDelimited(at + 1, (next) => {
        if (next === "[") isClass = true;
        else if (next === "]") isClass = false;
        return next === "/" && !isClass;
      });
      blank(code, at + 1, end);
      at = end + 1;
    } else {
      if (character === "{") depth += 1;
      if (character === "}") {
        depth -= 1;
        if (templates.at(-1) === depth) {
          templates.pop();
          at = readTemplate(at + 1);
          continue;
        }
      }
      at += 1;
    }
  }
  return { code: code.join(""), withStrings: withStrings.join(""), literals, comments };
}

const STATIC = /(?:^|[;}\n])[ \t]*(?:import|export)\b\s*([^'";=()]*?)\s*(?:\bfrom\s*)?["']([^"'\n]+)["']/g;
const DYNAMIC = /\bimport\s*\(\s*["']([^"'\n]+)["']/g;

/** Imports, re-exports, side-effect imports and `import("…")`. */
export function readImports(scan: SourceScan): Import[] {
  const lineAt = (index: number) => scan.withStrings.slice(0, index).split("\n").length;
  const found: Import[] = [];
  for (const match of scan.withStrings.matchAll(STATIC)) {
    const [whole, clause = "", specifier = ""] = match;
    if (clause !== "" && !/\bfrom\s*["']/.test(whole)) continue;
    found.push({ specifier, isTypeOnly: isTypeClause(clause), line: lineAt(match.index + whole.length) });
  }
  for (const match of scan.withStrings.matchAll(DYNAMIC)) {
    const isType = /(?:typeof\s+|[:<|&]\s*|\bas\s+)$/.test(scan.withStrings.slice(0, match.index));
    found.push({ specifier: match[1] ?? "", isTypeOnly: isType, line: lineAt(match.index) });
  }
  return found;
}

/** `type { A }`, or braces in which every name carries `type`. */
function isTypeClause(clause: string): boolean {
  if (/^type\b(?!\s*,|\s+from\b)/.test(clause)) return true;
  const names = /^\{([^}]*)\}$/.exec(clause.trim())?.[1];
  if (names === undefined) return false;
  const parts = names
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
  return parts.length > 0 && parts.every((part) => part.startsWith("type "));
}
