import { describeError } from "./errors.ts";

/** What a job's result may take as JSON text, in bytes of UTF-8. */
export const MAX_RESULT_BYTES = 256 * 1024;
/** What is kept of an error's stack, causes included. */
export const MAX_STACK_BYTES = 16 * 1024;
/** What is kept of an error's message. */
export const MAX_MESSAGE_BYTES = 8 * 1024;
/** PostgreSQL's jsonb reader recurses; far below its limit, far above what a result needs. */
const MAX_DEPTH = 500;

/** `text` is JSON that PostgreSQL's jsonb takes; when there is none, `error` says why. Both null: nothing was returned. */
export interface StorableJson {
  readonly text: string | null;
  readonly error: string | null;
}

/**
 * Any value → JSON text that can be stored, or the reason why not; never throws. `undefined` is no value. As in
 * JSON.stringify, NaN, infinities and invalid dates become null and Map and Set become {}. NUL and halves of
 * surrogate pairs become U+FFFD. A BigInt, a cycle, too much depth or size is an error.
 */
export function storableJson(value: unknown, maxBytes: number = MAX_RESULT_BYTES): StorableJson {
  let text: string | undefined;
  try {
    if (value === undefined) return { text: null, error: null };
    text = JSON.stringify(value);
  } catch (error) {
    return refused(`it is not JSON: ${describeError(error)}`);
  }
  if (text === undefined) return refused(`a ${typeof value} is not JSON`);
  if (text.includes("\\u")) text = replaceUnstorableEscapes(text);
  const bytes = byteLength(text);
  if (bytes > maxBytes) return refused(`it is ${bytes} bytes of JSON, at most ${maxBytes} are kept`);
  if (text.length > MAX_DEPTH && depthOf(text) > MAX_DEPTH) {
    return refused(`it is nested deeper than ${MAX_DEPTH} levels`);
  }
  return { text, error: null };
}

/** Text that PostgreSQL's text and jsonb take: NUL and halves of surrogate pairs become U+FFFD; cut to `maxBytes`. */
export function storableText(text: string, maxBytes: number = MAX_MESSAGE_BYTES): string {
  // One character is at most three bytes here, so what is certainly over is cut before the costly work.
  const candidate = text.length > maxBytes ? text.slice(0, maxBytes) : text;
  const clean = candidate.replace(/[\0\p{Surrogate}]/gu, "\ufffd");
  const bytes = byteLength(clean);
  if (bytes <= maxBytes && candidate === text) return clean;
  const note = "… (cut)";
  return `${truncate(clean, maxBytes - byteLength(note))}${note}`;
}

function refused(why: string): StorableJson {
  return { text: null, error: storableText(`the result cannot be stored: ${why}`) };
}

/**
 * JSON.stringify escapes NUL and lone surrogates, and nothing else that PostgreSQL refuses. Escapes are read one by
 * one, so that the six characters of a backslash-u-0000 in plain text (written with an escaped backslash) stay.
 */
function replaceUnstorableEscapes(text: string): string {
  return text.replace(/\\(u[0-9a-f]{4}|.)/g, (sequence, code: string) =>
    code === "u0000" || /^ud[89a-f]/.test(code) ? "\ufffd" : sequence,
  );
}

function depthOf(json: string): number {
  let depth = 0;
  let deepest = 0;
  let inText = false;
  for (let index = 0; index < json.length; index++) {
    const code = json.charCodeAt(index);
    if (inText) {
      if (code === 0x5c) index++;
      else if (code === 0x22) inText = false;
    } else if (code === 0x22) inText = true;
    else if (code === 0x5b || code === 0x7b) deepest = Math.max(deepest, ++depth);
    else if (code === 0x5d || code === 0x7d) depth--;
  }
  return deepest;
}

function truncate(text: string, maxBytes: number): string {
  const bytes = new Uint8Array(Math.max(0, maxBytes));
  const { read } = new TextEncoder().encodeInto(text, bytes);
  return text.slice(0, read);
}

function byteLength(text: string): number {
  return Buffer.byteLength(text);
}
