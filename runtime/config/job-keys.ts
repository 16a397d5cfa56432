import type { Json } from "../core/json.ts";
import { isUnstorable } from "../core/unstorable.ts";
import type { Evaluation } from "./expression.ts";
import { compileTemplate } from "./expression-template.ts";

/** Characters of a concurrency key, a unique key or an idempotency key. */
export const MAX_KEY_LENGTH = 400;

/** Why a text of a job's key fields cannot be used; null when it can. */
export function describeKeyTemplate(source: string): string | null {
  const result = compileTemplate(source, ["payload"]);
  return result.ok ? null : result.message;
}

/** The key that a payload gives; `message`: why it gives none. */
export function evaluateKey(source: string, payload: Json): Evaluation {
  const result = compileTemplate(source, ["payload"]);
  if (!result.ok) return result;
  const value = result.template.evaluate({ payload });
  if (!value.ok) return value;
  const problem = describeKey(value.text);
  return problem === null ? value : { ok: false, message: problem };
}

/** Why a text is no key; null when it is one. */
export function describeKey(key: string): string | null {
  if (key === "") return "expected a key, found an empty text";
  if (key.length > MAX_KEY_LENGTH) return `expected a key of at most ${MAX_KEY_LENGTH} characters, found ${key.length}`;
  return isUnstorable(key) ? "the key holds U+0000 or half of a surrogate pair, which cannot be stored" : null;
}
