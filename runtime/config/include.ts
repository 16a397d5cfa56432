/** One character of a path's segment, or any number of them. */
type Token = { readonly kind: "star" } | { readonly kind: "one"; matches(char: string): boolean };

const MAX_ALTERNATIVES = 64;

/** Why a pattern of `spec.include` cannot be used; null when it can. */
export function describeBadInclude(pattern: string): string | null {
  if (pattern.startsWith("/") || /^[A-Za-z]:/.test(pattern) || pattern.includes("\\")) {
    return "expected a pattern below the project's folder with forward slashes";
  }
  if (pattern.split("/").includes("..")) return "expected a pattern that stays below the project's folder";
  return expandBraces(pattern) === null ? `expected at most ${MAX_ALTERNATIVES} alternatives in braces` : null;
}

/**
 * Whether a path below the root, with forward slashes, is meant by one of the patterns: `*`, `?`, `[abc]`, `[!abc]`,
 * `{a,b}`, and `**` as a whole segment for any number of folders. Linear in pattern times path, whatever the pattern.
 */
export function matchesInclude(patterns: readonly string[], path: string): boolean {
  const segments = path.split("/");
  return patterns.some(
    (pattern) =>
      describeBadInclude(pattern) === null &&
      (expandBraces(pattern) ?? []).some((plain) => matchSegments(plain.replace(/^(\.\/)+/, "").split("/"), segments)),
  );
}

function matchSegments(patterns: readonly string[], segments: readonly string[]): boolean {
  const last = patterns.length - 1;
  return matchSequence(patterns.length, segments.length, {
    // A trailing `**` stands for everything below, so for one segment at least.
    skips: (at) => patterns[at] === "**" && at !== last,
    repeats: (at) => patterns[at] === "**",
    matches: (at, segment) => patterns[at] === "**" || matchSegment(patterns[at] ?? "", segments[segment] ?? ""),
  });
}

function matchSegment(pattern: string, segment: string): boolean {
  const tokens = tokenize(pattern);
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
