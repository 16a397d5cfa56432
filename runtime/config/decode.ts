import type { Position } from "./problems.ts";

export type DecodedText =
  | { readonly ok: true; readonly text: string }
  | ({ readonly ok: false; readonly message: string; readonly hint: string | null } & Position);

// What YAML calls not printable, tab, line feed and carriage return aside.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for.
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/;

/** UTF-8 with or without a byte-order mark → text without it; anything else is refused by name. */
export function decodeText(content: Uint8Array | string): DecodedText {
  if (typeof content === "string") return checkText(content.replace(/^\ufeff/, ""));
  const [first, second] = content;
  if ((first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff)) return refuseUtf16(1);
  try {
    return checkText(new TextDecoder("utf-8", { fatal: true }).decode(content));
  } catch {
    const line = findBrokenLine(content);
    return {
      ok: false,
      message: "expected UTF-8, found bytes that are not",
      hint: "Save the file as UTF-8.",
      line,
      column: 1,
    };
  }
}

function checkText(text: string): DecodedText {
  const found = CONTROL.exec(text);
  if (found === null) return { ok: true, text };
  const before = text.slice(0, found.index).split("\n");
  const line = before.length;
  if (found[0] === "\u0000" && text.split("\u0000").length > text.length / 4) return refuseUtf16(line);
  const code = found[0].charCodeAt(0).toString(16).padStart(4, "0").toUpperCase();
  const column = (before.at(-1) ?? "").length + 1;
  return { ok: false, message: `expected text, found the control character U+${code}`, hint: null, line, column };
}

function refuseUtf16(line: number): DecodedText {
  return { ok: false, message: "expected UTF-8, found UTF-16", hint: "Save the file as UTF-8.", line, column: 1 };
}

function findBrokenLine(content: Uint8Array): number {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let start = 0;
  for (let line = 1; ; line++) {
    const end = content.indexOf(0x0a, start);
    try {
      decoder.decode(content.subarray(start, end === -1 ? content.length : end));
    } catch {
      return line;
    }
    if (end === -1) return line;
    start = end + 1;
  }
}
