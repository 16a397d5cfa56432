import type { Json } from "../core/json.ts";
import { BoundedCache } from "../time/bounded-cache.ts";
import { compileExpression, type Evaluation, type Expression } from "./expression.ts";

/** A text with expressions in it, such as `customer-${{ payload.customer }}`. */
export interface Template {
  evaluate(values: Readonly<Record<string, Json>>): Evaluation;
}

export type CompiledTemplate =
  | { readonly ok: true; readonly template: Template }
  | { readonly ok: false; readonly message: string };

const OPEN = "${{";
const compiled = new BoundedCache<string, CompiledTemplate>(4_000);

/** Compiles a text whose `${{ … }}` parts are expressions over the variables; what is compiled is kept by content. */
export function compileTemplate(source: string, variables: readonly string[]): CompiledTemplate {
  return compiled.getOrCompute(JSON.stringify([variables, source]), () => compile(source, variables));
}

function compile(source: string, variables: readonly string[]): CompiledTemplate {
  const parts: (string | Expression)[] = [];
  let from = 0;
  for (let open = source.indexOf(OPEN); open >= 0; open = source.indexOf(OPEN, from)) {
    parts.push(source.slice(from, open));
    const close = findClose(source, open + OPEN.length);
    if (close === null)
      return { ok: false, message: `expected }} after ${JSON.stringify(source.slice(open, open + 40))}` };
    const text = source.slice(open + OPEN.length, close).trim();
    const result = compileExpression(text, variables);
    if (!result.ok)
      return { ok: false, message: `the expression ${JSON.stringify(text)} is not valid: ${result.message}` };
    parts.push(result.expression);
    from = close + 2;
  }
  parts.push(source.slice(from));
  return { ok: true, template: { evaluate: (values) => evaluate(parts, values) } };
}

function evaluate(parts: readonly (string | Expression)[], values: Readonly<Record<string, Json>>): Evaluation {
  let text = "";
  for (const part of parts) {
    if (typeof part === "string") {
      text += part;
      continue;
    }
    const value = part.evaluate(values);
    if (!value.ok) return value;
    text += value.text;
  }
  return { ok: true, text };
}

/** Where `}}` ends an expression: not within its texts, nor within its maps. */
function findClose(source: string, from: number): number | null {
  let depth = 0;
  let quote: string | null = null;
  for (let index = from; index < source.length; index += 1) {
    const char = source[index] as string;
    if (quote !== null) {
      if (char === "\\") index += 1;
      else if (char === quote) quote = null;
    } else if (char === '"' || char === "'") quote = char;
    else if (char === "{") depth += 1;
    else if (char === "}" && depth > 0) depth -= 1;
    else if (char === "}" && source[index + 1] === "}") return index;
  }
  return null;
}
