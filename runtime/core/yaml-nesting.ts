import type { CST } from "yaml";

/**
 * Levels of collections in a token tree; a scalar document has none. Ask before composing: the composer recurses, and
 * a stack that overflows there ends the whole process and cannot be caught. Does not recurse itself.
 */
export function deepestLevel(tokens: readonly CST.Token[]): number {
  let deepest = 0;
  const pending: (readonly [token: CST.Token, level: number])[] = tokens.map((token) => [token, 0]);
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const [token, level] = next;
    if (level > deepest) deepest = level;
    if (token.type === "document" && token.value !== undefined) pending.push([token.value, level]);
    if (!("items" in token)) continue;
    for (const item of token.items) {
      if (item.key !== undefined && item.key !== null) pending.push([item.key, level + 1]);
      if (item.value !== undefined) pending.push([item.value, level + 1]);
    }
    if (level + 1 > deepest) deepest = level + 1;
  }
  return deepest;
}

const WILD_NESTING = 1_000;

/**
 * A rough count, without a parser, of brackets that are open at once and of dashes in a row: the parser itself slows
 * down on a text that nests thousands deep, which nobody writes.
 */
export function nestsWildly(text: string): boolean {
  let open = 0;
  for (let at = 0; at < text.length; at++) {
    const char = text.charCodeAt(at);
    // [ { open, ] } close.
    if (char === 0x5b || char === 0x7b) open += 1;
    else if ((char === 0x5d || char === 0x7d) && open > 0) open -= 1;
    if (open > WILD_NESTING) return true;
  }
  return /(?:[-?] ){1000}/.test(text);
}
