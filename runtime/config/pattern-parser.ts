/** Code points from and to, both included. */
export type Ranges = readonly (readonly [from: number, to: number])[];

export type PatternNode =
  | { readonly kind: "set"; readonly ranges: Ranges }
  | { readonly kind: "sequence" | "choice"; readonly items: readonly PatternNode[] }
  | { readonly kind: "repeat"; readonly item: PatternNode; readonly min: number; readonly max: number };

export type ParsedPattern =
  /** Bodies of lookarounds stand apart: they read text without taking it. */
  | { readonly ok: true; readonly node: PatternNode; readonly assertions: readonly PatternNode[] }
  | { readonly ok: false; readonly message: string };

const ANY: Ranges = [[0, 0x10ffff]];
const NOTHING: PatternNode = { kind: "sequence", items: [] };
const DIGIT: Ranges = [[0x30, 0x39]];
const WORD: Ranges = [
  [0x30, 0x39],
  [0x41, 0x5a],
  [0x5f, 0x5f],
  [0x61, 0x7a],
];
const SPACE: Ranges = [
  [0x09, 0x0d],
  [0x20, 0x20],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
];
const CONTROL: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13, "0": 0, b: 8 };

class Unsupported extends Error {}

/** Structure of a valid JavaScript pattern with the flag u; what cannot be told exactly is taken as any character. */
export function parsePattern(source: string): ParsedPattern {
  const characters = [...source];
  const assertions: PatternNode[] = [];
  let at = 0;

  const peek = (): string => characters[at] ?? "";
  const rest = (length: number): string => characters.slice(at, at + length).join("");

  function parseChoice(): PatternNode {
    const items = [parseSequence()];
    while (peek() === "|") {
      at++;
      items.push(parseSequence());
    }
    return items.length === 1 ? (items[0] ?? NOTHING) : { kind: "choice", items };
  }

  function parseSequence(): PatternNode {
    const items: PatternNode[] = [];
    while (at < characters.length && peek() !== "|" && peek() !== ")") items.push(parseQuantified());
    return { kind: "sequence", items };
  }

  function parseQuantified(): PatternNode {
    const item = parseAtom();
    const quantifier = /^(?:[*+?]|\{(\d+)(,?)(\d*)\})\??/.exec(rest(24));
    if (quantifier === null) return item;
    at += quantifier[0].length;
    const [text, low, comma, high] = quantifier;
    if (text.startsWith("*")) return { kind: "repeat", item, min: 0, max: Number.POSITIVE_INFINITY };
    if (text.startsWith("+")) return { kind: "repeat", item, min: 1, max: Number.POSITIVE_INFINITY };
    if (text.startsWith("?")) return { kind: "repeat", item, min: 0, max: 1 };
    const min = Number(low);
    const max = comma === "" ? min : high === "" ? Number.POSITIVE_INFINITY : Number(high);
    return { kind: "repeat", item, min, max };
  }

  function parseAtom(): PatternNode {
    const char = peek();
    at++;
    if (char === "(") return parseGroup();
    if (char === "[") return { kind: "set", ranges: parseClass() };
    if (char === ".") return { kind: "set", ranges: ANY };
    if (char === "^" || char === "$") return NOTHING;
    if (char !== "\\") return literal(char);
    if (/[bB]/.test(peek())) {
      at++;
      return NOTHING;
    }
    if (/[1-9k]/.test(peek())) throw new Unsupported("uses a back reference, whose time cannot be bounded");
    return { kind: "set", ranges: parseEscape() };
  }

  function parseGroup(): PatternNode {
    const lookaround = /^\?<?[=!]/.exec(rest(3))?.[0];
    const opening = lookaround ?? /^\?(?:<[^>]*>|[a-z-]*:)/.exec(rest(200))?.[0] ?? "";
    at += [...opening].length;
    const body = parseChoice();
    at++;
    if (lookaround === undefined) return body;
    assertions.push(body);
    return NOTHING;
  }

  function parseClass(): Ranges {
    const negated = peek() === "^";
    if (negated) at++;
    const ranges: (readonly [number, number])[] = [];
    while (at < characters.length && peek() !== "]") {
      const from = parseClassAtom();
      const single = from.length === 1 && from[0]?.[0] === from[0]?.[1];
      if (single && peek() === "-" && characters[at + 1] !== "]") {
        at++;
        ranges.push([from[0]?.[0] ?? 0, parseClassAtom()[0]?.[1] ?? 0]);
      } else ranges.push(...from);
    }
    at++;
    return negated ? complement(ranges) : ranges;
  }

  function parseClassAtom(): Ranges {
    const char = peek();
    at++;
    return char === "\\" ? parseEscape() : literal(char).ranges;
  }

  function parseEscape(): Ranges {
    const char = peek();
    at++;
    if (char === "d") return DIGIT;
    if (char === "D") return complement(DIGIT);
    if (char === "w") return WORD;
    if (char === "W") return complement(WORD);
    if (char === "s") return SPACE;
    if (char === "S") return complement(SPACE);
    if (char === "p" || char === "P") {
      at = characters.indexOf("}", at) + 1;
      return ANY;
    }
    const hex = char === "x" ? /^[0-9a-f]{2}/i : char === "u" ? /^(?:\{[0-9a-f]+\}|[0-9a-f]{4})/i : null;
    const digits = hex?.exec(rest(12))?.[0];
    if (digits !== undefined) {
      at += digits.length;
      const code = Number.parseInt(digits.replace(/[{}]/g, ""), 16);
      // Half of a surrogate pair may be joined with the next one.
      return code >= 0xd800 && code <= 0xdfff ? ANY : [[code, code]];
    }
    if (char === "c") {
      at++;
      return [[0, 0x1f]];
    }
    const control = CONTROL[char];
    return control === undefined ? literal(char).ranges : [[control, control]];
  }

  try {
    return { ok: true, node: parseChoice(), assertions };
  } catch (error) {
    if (error instanceof Unsupported) return { ok: false, message: error.message };
    throw error;
  }
}

function literal(char: string): PatternNode & { readonly kind: "set" } {
  const code = char.codePointAt(0) ?? 0;
  return { kind: "set", ranges: [[code, code]] };
}

function complement(ranges: Ranges): Ranges {
  const sorted = [...ranges].sort(([left], [right]) => left - right);
  const gaps: (readonly [number, number])[] = [];
  let next = 0;
  for (const [from, to] of sorted) {
    if (from > next) gaps.push([next, from - 1]);
    next = Math.max(next, to + 1);
  }
  if (next <= 0x10ffff) gaps.push([next, 0x10ffff]);
  return gaps;
}
