/** One character of a path's segment, or any number of them. */
type Token = { readonly kind: "star" } | { readonly kind: "one"; matches(char: string): boolean };

const MAX_ALTERNATIVES = 64;

/** A pattern for paths below a root, ready to walk and to match. */
export interface Glob {
  /** Folders below the root where a walk may start; an empty text for the root itself. */
  readonly bases: readonly string[];
  /** Whether a path below the root, with forward slashes, is meant. */
  matches(path: string): boolean;
}

/** Why a pattern cannot be used; null when it can. */
export function describeBadGlob(pattern: string): string | null {
  const alternatives = expandBraces(pattern);
  if (alternatives === null) return `expected at most ${MAX_ALTERNATIVES} alternatives in braces`;
  if (alternatives.some((plain) => plain.startsWith("/") || /^[A-Za-z]:/.test(plain) || plain.includes("\\"))) {
    return "expected a pattern below the project's folder with forward slashes";
  }
  const leaves = alternatives.some((plain) => plain.split("/").includes(".."));
  return leaves ? "expected a pattern that stays below the project's folder" : null;
}

/**
 * `*`, `?`, `[abc]`, `[!abc]`, `{a,b}`, and `**` as a whole segment for any number of folders. Matching is linear in
 * pattern times path, whatever the pattern. Patterns that cannot be used are left out: they mean nothing.
 */
export function compileGlobs(patterns: readonly string[]): Glob {
  const alternatives = patterns
    .filter((pattern) => describeBadGlob(pattern) === null)
    .flatMap((pattern) => expandBraces(pattern) ?? [])
    .map((plain) => plain.replace(/^(\.\/)+/, "").split("/"));
  const compiled = alternatives.map((segments) =>
    segments.map((segment) => (segment === "**" ? null : tokenize(segment))),
  );
  return {
    bases: [...new Set(alternatives.map(baseOf))],
    matches(path) {
      const segments = path.split("/");
      return compiled.some((pattern) => matchSegments(pattern, segments));
    },
  };
}

/** The folders in front of the first segment that is not plain. */
function baseOf(segments: readonly string[]): string {
  const firstMagic = segments.findIndex((segment) => /[*?[]/.test(segment));
  return segments.slice(0, firstMagic === -1 ? segments.length - 1 : firstMagic).join("/");
}

/** Null stands for `**`. */
function matchSegments(patterns: readonly (readonly Token[] | null)[], segments: readonly string[]): boolean {
  const last = patterns.length - 1;
  return matchSequence(patterns.length, segments.length, {
    // A trailing `**` stands for everything below, so for one segment at least.
    skips: (at) => patterns[at] === null && at !== last,
    repeats: (at) => patterns[at] === null,
    matches: (at, segment) => matchSegment(patterns[at] ?? null, segments[segment] ?? ""),
  });
}

function matchSegment(tokens: readonly Token[] | null, segment: string): boolean {
  if (tokens === null) return true;
  const characters = [...segment];
  return matchSequence(tokens.length, characters.length, {
    skips: (at) => tokens[at]?.kind === "star",
    repeats: (at) => tokens[at]?.kind === "star",
    matches: (at, index) => {
      const token = tokens[at];
      return token?.kind === "star" || (token?.matches(characters[index] ?? "") ?? false);
    },
  });
}

interface Rules {
  /** The pattern's element may stand for nothing. */
  skips(at: number): boolean;
  /** It may stand for more than one. */
  repeats(at: number): boolean;
  matches(at: number, index: number): boolean;
}

/** Follows all positions in the pattern at once, as a nondeterministic automaton. */
function matchSequence(patternLength: number, inputLength: number, rules: Rules): boolean {
  const close = (states: Set<number>): Set<number> => {
    for (const at of states) if (at < patternLength && rules.skips(at)) states.add(at + 1);
    return states;
  };
  let states = close(new Set([0]));
  for (let index = 0; index < inputLength; index++) {
    const next = new Set<number>();
    for (const at of states) {
      if (at === patternLength || !rules.matches(at, index)) continue;
      next.add(at + 1);
      if (rules.repeats(at)) next.add(at);
    }
    states = close(next);
  }
  return states.has(patternLength);
}

function tokenize(pattern: string): readonly Token[] {
  const tokens: Token[] = [];
  const characters = [...pattern];
  for (let at = 0; at < characters.length; at++) {
    const char = characters[at] ?? "";
    const close = char === "[" ? characters.indexOf("]", at + 2) : -1;
    if (close !== -1) {
      tokens.push({ kind: "one", matches: readClass(characters.slice(at + 1, close)) });
      at = close;
    } else if (char === "*") tokens.push({ kind: "star" });
    else if (char === "?") tokens.push({ kind: "one", matches: () => true });
    else tokens.push({ kind: "one", matches: (found) => found === char });
  }
  return tokens;
}

function readClass(members: readonly string[]): (char: string) => boolean {
  const negated = members[0] === "!" || members[0] === "^";
  const listed = negated ? members.slice(1) : members;
  return (char) => {
    let found = false;
    for (let at = 0; at < listed.length; at++) {
      const from = listed[at] ?? "";
      const to = listed[at + 1] === "-" ? listed[at + 2] : undefined;
      if (to === undefined) found ||= char === from;
      else {
        found ||= char >= from && char <= to;
        at += 2;
      }
    }
    return found !== negated;
  };
}

/** `a{b,c}` → `ab`, `ac`; null when there are too many. A brace without its partner stands for itself. */
function expandBraces(pattern: string): readonly string[] | null {
  const finished: string[] = [];
  const pending = [pattern];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const group = /\{([^{}]*)\}/.exec(next);
    if (group === null) finished.push(next);
    else {
      const before = next.slice(0, group.index);
      const after = next.slice(group.index + group[0].length);
      for (const choice of (group[1] ?? "").split(",").reverse()) pending.push(before + choice + after);
    }
    if (finished.length + pending.length > MAX_ALTERNATIVES) return null;
  }
  return finished;
}
