import type { Json } from "./json.ts";

const LONE_SURROGATE = /\p{Surrogate}/u;

/** Whether PostgreSQL refuses a text: it holds NUL or half of a surrogate pair. */
export function isUnstorable(text: string): boolean {
  return text.includes("\u0000") || LONE_SURROGATE.test(text);
}

/** JSON Pointer (RFC 6901) of the first text or key that the database cannot store; null when there is none. */
export function findUnstorable(value: Json): string | null {
  const pending: (readonly [value: Json, pointer: string])[] = [[value, ""]];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const [item, pointer] = next;
    if (typeof item === "string" && isUnstorable(item)) return pointer;
    if (item === null || typeof item !== "object") continue;
    const members = Object.entries(item).reverse();
    for (const [key, member] of members) {
      const below = `${pointer}/${escapePointer(key)}`;
      pending.push(isUnstorable(key) ? ["\u0000", below] : [member, below]);
    }
  }
  return null;
}

/** One segment of a JSON Pointer. */
export function escapePointer(segment: string | number): string {
  return String(segment).replaceAll("~", "~0").replaceAll("/", "~1");
}
