import { type ASTNode, Environment } from "@marcbachmann/cel-js";
import type { Json } from "../core/json.ts";
import { describeUnsafePattern } from "./pattern-safety.ts";
import { describeValue } from "./problems.ts";

/** A CEL expression that has passed its checks. `evaluate` takes a value for each variable that it was compiled with. */
export interface Expression {
  evaluate(values: Readonly<Record<string, Json>>): Evaluation;
}

/** What an expression gives: text, a number or a boolean, as text. `message`: why there is none. */
export type Evaluation =
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly message: string };

export type CompiledExpression =
  | { readonly ok: true; readonly expression: Expression }
  | { readonly ok: false; readonly message: string };

export const MAX_EXPRESSION_LENGTH = 1_000;
/** Nodes of its tree, and levels of it. */
const LIMITS = { maxAstNodes: 200, maxDepth: 30, maxListElements: 100, maxMapEntries: 100, maxCallArguments: 10 };
/** Passes over a list take a step an element; within one another they would take the square of it. */
const PASSES = new Set(["all", "exists", "exists_one", "map", "filter"]);
const MAX_PASSES = 4;
/** Some patterns take time with the square of the text's length. */
const MAX_PATTERN_TEXT = 8_192;
const TEXT_TYPES = new Set(["string", "int", "uint", "double", "bool", "dyn"]);

/**
 * Parses and type-checks a CEL expression (Common Expression Language) over variables of any JSON type. What could take long whatever it
 * is given is refused: patterns that are not written out or can take exponential time, passes over lists within one another.
 */
export function compileExpression(source: string, variables: readonly string[]): CompiledExpression {
  if (source.length > MAX_EXPRESSION_LENGTH) {
    return refuse(`expected at most ${MAX_EXPRESSION_LENGTH} characters, found ${source.length}`);
  }
  const environment = new Environment({
    enableOptionalTypes: true,
    homogeneousAggregateLiterals: false,
    limits: LIMITS,
  });
  for (const name of variables) environment.registerVariable(name, "dyn");
  try {
    const program = environment.parse(source);
    const calls = findCalls(program.ast);
    const danger = describeDanger(calls);
    if (danger !== null) return refuse(danger);
    const checked = program.check();
    if (!checked.valid) return refuse(summarize(checked.error));
    if (!TEXT_TYPES.has(checked.type ?? "dyn")) {
      return refuse(
        `expected an expression that gives text, a number or a boolean, found one that gives ${checked.type}`,
      );
    }
    const triesPatterns = calls.some(({ name }) => name === "matches");
    return { ok: true, expression: { evaluate: (values) => run(program, values, triesPatterns) } };
  } catch (error) {
    return refuse(summarize(error));
  }
}

function refuse(message: string): { readonly ok: false; readonly message: string } {
  return { ok: false, message };
}

function run(
  program: (context: Record<string, unknown>) => unknown,
  values: Readonly<Record<string, Json>>,
  triesPatterns: boolean,
): Evaluation {
  if (triesPatterns && Object.values(values).some(hasLongText)) {
    return refuse(`it tries a pattern, and there is a text of more than ${MAX_PATTERN_TEXT} characters`);
  }
  let value: unknown;
  try {
    value = program(Object.fromEntries(Object.entries(values).map(([name, json]) => [name, toCel(json)])));
  } catch (error) {
    return refuse(summarize(error));
  }
  switch (typeof value) {
    case "string":
      return { ok: true, text: value };
    case "bigint":
    case "number":
    case "boolean":
      return { ok: true, text: String(value) };
    default:
      return refuse(`expected text, a number or a boolean, found ${describeResult(value)}`);
  }
}

function describeResult(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "a list" : "an object";
}

/** Whole numbers are CEL's int, others its double. */
function toCel(value: Json): unknown {
  if (typeof value === "number") return Number.isSafeInteger(value) ? BigInt(value) : value;
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map((item: Json) => toCel(item));
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, toCel(member)]));
}

function hasLongText(value: Json): boolean {
  if (typeof value === "string") return value.length > MAX_PATTERN_TEXT;
  return value !== null && typeof value === "object" && Object.values(value).some(hasLongText);
}

interface Call {
  readonly name: string;
  /** Without the receiver. */
  readonly args: readonly ASTNode[];
  readonly hasReceiver: boolean;
  /** Passes over lists around it. */
  readonly within: number;
}

function findCalls(root: ASTNode): readonly Call[] {
  const calls: Call[] = [];
  visit(root, 0);
  return calls;

  function visit(node: ASTNode, within: number): void {
    if (node.op === "call" || node.op === "rcall") {
      const name = node.args[0];
      const args = node.op === "call" ? node.args[1] : node.args[2];
      calls.push({ name, args, hasReceiver: node.op === "rcall", within });
      // The receiver is worked out once, what stands in the parentheses for every element.
      if (node.op === "rcall") visit(node.args[1], within);
      for (const argument of args) visit(argument, within + (node.op === "rcall" && PASSES.has(name) ? 1 : 0));
      return;
    }
    for (const part of [node.args].flat(3) as readonly unknown[]) if (isNode(part)) visit(part, within);
  }
}

function isNode(part: unknown): part is ASTNode {
  return typeof part === "object" && part !== null && "op" in part;
}

function describeDanger(calls: readonly Call[]): string | null {
  const passes = calls.filter(({ name, hasReceiver }) => hasReceiver && PASSES.has(name));
  if (passes.length > MAX_PASSES) {
    return `expected at most ${MAX_PASSES} passes over lists (${[...PASSES].join(", ")}), found ${passes.length}`;
  }
  const inner = passes.find(({ within }) => within > 0);
  if (inner !== undefined) return `expected no pass over a list within another, found ${inner.name}(…) within one`;
  for (const { name, args } of calls) {
    if (name !== "matches") continue;
    const pattern = args.at(-1);
    if (pattern?.op !== "value" || typeof pattern.args !== "string") {
      return "expected the pattern of matches(…) written out as text, found an expression";
    }
    const reason = describeUnsafePattern(pattern.args);
    if (reason !== null) return `the pattern ${describeValue(pattern.args)} ${reason}`;
  }
  return null;
}

/** The first sentence of what the engine says; its drawing of the place is left out. */
function summarize(error: unknown): string {
  const { summary, message } = error as { readonly summary?: string; readonly message?: string };
  return (summary ?? message ?? "it cannot be evaluated").split("\n")[0] ?? "it cannot be evaluated";
}
