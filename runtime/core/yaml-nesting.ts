import { type CST, Parser } from "yaml";

/**
 * Refuses text whose nesting would overflow the YAML composer's stack, which ends the whole process and cannot be
 * caught: call it before `parseDocument`. Counts flow and block collections of the token tree without recursion.
 */
export function nestsDeeperThan(text: string, limit: number): boolean {
  return deepestLevel([...new Parser().parse(text)]) > limit;
}

/** Levels of collections in a token tree; a scalar document has none. */
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
