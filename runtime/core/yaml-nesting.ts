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
