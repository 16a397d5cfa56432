import type { Context } from "hono";
import type { Json } from "../runtime/core/json.ts";
import { ProblemError } from "./problem.ts";

/** Bytes of a request's body. */
export const MAX_BODY_BYTES = 1024 * 1024;

/** The JSON of a request's body. Duplicate members: the last one counts, as everywhere in JavaScript. */
export async function readJson(c: Context): Promise<Json> {
  const type = c.req.header("content-type")?.split(";")[0]?.trim().toLowerCase() ?? "";
  if (type !== "application/json" && !/^application\/[a-z0-9.+-]+\+json$/.test(type)) {
    throw new ProblemError(
      415,
      `Expected a body of application/json, found ${type === "" ? "no Content-Type" : type}.`,
    );
  }
  return parseJson(await readBody(c));
}

/** For actions without a body: nothing, or an empty object. */
export async function expectNoBody(c: Context): Promise<void> {
  const text = decode(await readBody(c)).trim();
  if (text !== "" && !/^\{\s*\}$/.test(text)) {
    throw new ProblemError(422, "This action takes no body; nothing was done.", {
      errors: [{ pointer: "", detail: "expected no body" }],
    });
  }
}

/** The fields of a form; a repeated one is refused. */
export async function readForm(c: Context): Promise<ReadonlyMap<string, string>> {
  const fields = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(decode(await readBody(c)))) {
    if (fields.has(name)) throw new ProblemError(400, `Expected the field "${name}" once.`);
    fields.set(name, value);
  }
  return fields;
}

/** Stops reading at the limit, whatever length the request announces. */
export async function readBody(c: Context): Promise<Uint8Array> {
  const encoding = c.req.header("content-encoding")?.toLowerCase() ?? "identity";
  if (encoding !== "identity")
    throw new ProblemError(415, `Expected a body without Content-Encoding, found ${encoding}.`);
  if (Number(c.req.header("content-length") ?? 0) > MAX_BODY_BYTES) throw tooLarge();
  const body = c.req.raw.body;
  if (body === null) return new Uint8Array();
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.byteLength;
    if (size > MAX_BODY_BYTES) throw tooLarge();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function tooLarge(): ProblemError {
  return new ProblemError(413, `Expected a body of at most ${MAX_BODY_BYTES} bytes.`, {
    headers: { Connection: "close" },
  });
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new ProblemError(400, "Expected a body in UTF-8.");
  }
}

function parseJson(bytes: Uint8Array): Json {
  const text = decode(bytes);
  try {
    return JSON.parse(text) as Json;
  } catch (error) {
    throw new ProblemError(400, `Expected JSON: ${error instanceof Error ? error.message : "it cannot be read"}.`);
  }
}
