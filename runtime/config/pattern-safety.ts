import { type PatternNode, parsePattern, type Ranges } from "./pattern-parser.ts";

const MAX_POSITIONS = 400;
const MAX_STEPS = 2_000_000;

/**
 * Why a regular expression may take exponential time on some text; null when it does not. Decides exponential
 * ambiguity on the Glushkov automaton, with an edge for every way to take it, as in Weideman et al., "Analyzing
 * Matching Time Behavior of Backtracking Regular Expression Matchers" (2016). Quadratic patterns pass: callers bound
 * the text's length.
 */
export function describeUnsafePattern(source: string): string | null {
  try {
    new RegExp(source, "u");
  } catch {
    return "is not a regular expression of JavaScript with the flag u";
  }
  const parsed = parsePattern(source);
  if (!parsed.ok) return parsed.message;
  for (const node of [parsed.node, ...parsed.assertions]) {
    const automaton = buildAutomaton(node);
    if (automaton === null) return "is too large to be checked for exponential time";
    const verdict = findAmbiguousLoop(automaton);
    if (verdict === "ambiguous") {
      return "can take exponential time: a repeated part can match one text in several ways";
    }
    if (verdict === "too-complex") return "is too complex to be checked for exponential time";
  }
  return null;
}

/** Positions of characters, and how many ways lead from one to the next. */
interface Automaton {
  readonly sets: readonly Ranges[];
  readonly follow: readonly ReadonlyMap<number, number>[];
}

interface Fragment {
  readonly nullable: boolean;
  readonly first: readonly number[];
  readonly last: readonly number[];
}

const EMPTY: Fragment = { nullable: true, first: [], last: [] };

function buildAutomaton(root: PatternNode): Automaton | null {
  const sets: Ranges[] = [];
  const follow: Map<number, number>[] = [];

  const connect = (from: readonly number[], to: readonly number[]): void => {
    for (const source of from) {
      for (const target of to) follow[source]?.set(target, (follow[source]?.get(target) ?? 0) + 1);
    }
  };
  const join = (left: Fragment, right: Fragment): Fragment => {
    connect(left.last, right.first);
    return {
      nullable: left.nullable && right.nullable,
      first: left.nullable ? [...left.first, ...right.first] : left.first,
      last: right.nullable ? [...left.last, ...right.last] : right.last,
    };
  };

  function build(node: PatternNode): Fragment {
    if (sets.length > MAX_POSITIONS) return EMPTY;
    switch (node.kind) {
      case "set":
        follow.push(new Map());
        sets.push(node.ranges);
        return { nullable: false, first: [sets.length - 1], last: [sets.length - 1] };
      case "sequence":
        return node.items.map(build).reduce(join, EMPTY);
      case "choice": {
        const choices = node.items.map(build);
        return {
          nullable: choices.some(({ nullable }) => nullable),
          first: choices.flatMap(({ first }) => first),
          last: choices.flatMap(({ last }) => last),
        };
      }
      case "repeat":
        return buildRepeat(node);
    }
  }

  function buildRepeat(node: PatternNode & { readonly kind: "repeat" }): Fragment {
    const loop = (): Fragment => {
      const body = build(node.item);
      connect(body.last, body.first);
      return body;
    };
    // Long counted repetitions are taken as unbounded: that can only find more than there is.
    if (node.max > 8) {
      const body = loop();
      return node.min === 0 ? { ...body, nullable: true } : body;
    }
    let whole = EMPTY;
    for (let copy = 0; copy < node.max; copy++) {
      const body = build(node.item);
      whole = join(whole, copy < node.min ? body : { ...body, nullable: true });
    }
    return whole;
  }

  build(root);
  return sets.length > MAX_POSITIONS ? null : { sets, follow };
}

type Verdict = "clear" | "ambiguous" | "too-complex";

/** Whether two different ways around a loop read the same text: a component of the square that leaves the diagonal. */
function findAmbiguousLoop({ sets, follow }: Automaton): Verdict {
  const count = sets.length;
  let steps = 0;
  const overlaps = (left: number, right: number): boolean => {
    steps++;
    return left === right || intersect(sets[left] ?? [], sets[right] ?? []);
  };
  const successors = (pair: number): { readonly target: number; readonly ways: number }[] => {
    const found: { target: number; ways: number }[] = [];
    for (const [left, leftWays] of follow[Math.floor(pair / count)] ?? []) {
      for (const [right, rightWays] of follow[pair % count] ?? []) {
        if (overlaps(left, right)) found.push({ target: left * count + right, ways: Math.max(leftWays, rightWays) });
      }
    }
    return found;
  };
  const isDiagonal = (pair: number): boolean => Math.floor(pair / count) === pair % count;

  // Tarjan's strongly connected components, without recursion.
  const order = new Map<number, number>();
  const low = new Map<number, number>();
  const component = new Set<number>();
  const stack: number[] = [];
  for (let start = 0; start < count; start++) {
    if (order.has(start * count + start)) continue;
    const work: { pair: number; next: { target: number; ways: number }[]; at: number }[] = [];
    const enter = (pair: number): void => {
      order.set(pair, order.size);
      low.set(pair, order.size - 1);
      stack.push(pair);
      component.add(pair);
      work.push({ pair, next: successors(pair), at: 0 });
    };
    enter(start * count + start);
    for (let frame = work.at(-1); frame !== undefined; frame = work.at(-1)) {
      if (steps > MAX_STEPS) return "too-complex";
      const edge = frame.next[frame.at++];
      const { pair } = frame;
      if (edge !== undefined) {
        if (!order.has(edge.target)) enter(edge.target);
        else if (component.has(edge.target)) low.set(pair, Math.min(low.get(pair) ?? 0, order.get(edge.target) ?? 0));
        continue;
      }
      work.pop();
      const parent = work.at(-1);
      if (parent !== undefined) low.set(parent.pair, Math.min(low.get(parent.pair) ?? 0, low.get(pair) ?? 0));
      if (low.get(pair) !== order.get(pair)) continue;
      const members = new Set(stack.splice(stack.lastIndexOf(pair)));
      for (const member of members) component.delete(member);
      const diagonal = [...members].filter(isDiagonal);
      if (diagonal.length === 0) continue;
      if (diagonal.length < members.size) return "ambiguous";
      const doubled = diagonal.some((member) =>
        successors(member).some(({ target, ways }) => ways > 1 && members.has(target)),
      );
      if (doubled) return "ambiguous";
    }
  }
  return "clear";
}

function intersect(left: Ranges, right: Ranges): boolean {
  return left.some(([from, to]) => right.some(([otherFrom, otherTo]) => from <= otherTo && otherFrom <= to));
}
