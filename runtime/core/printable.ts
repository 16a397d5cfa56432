/** One line for a terminal: characters that would drive it, or hide what stands there, are replaced. */
export function printable(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (char) => (char === "\t" ? " " : "\ufffd"));
}

/** The same for a text of several lines. */
export function printableLines(text: string): string {
  return text.split(/\r?\n/).map(printable).join("\n");
}
