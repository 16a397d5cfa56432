import { type DispatchToken, isJobId, NAME_PATTERN } from "../../core/ids.ts";
import type { JsonObject } from "../../core/json.ts";
import type { BrokerMessage } from "./transport.ts";

/** Rises when a message of today could not be read by the code of yesterday. */
const VERSION = 1;
const TOKEN = /^[0-9]{1,19}$/;
/** PostgreSQL's largest bigint: one token beyond it would fail the claims of all that are asked for with it. */
const LARGEST_TOKEN = 2n ** 63n - 1n;
/** Nothing that Turno writes itself comes near it: the dead letters' error and stack have bounds of their own. */
export const MESSAGE_LIMIT_BYTES = 1024 * 1024;

/** A message as every broker carries it: JSON, with the token as text since it passes 2^53. */
export function writeBrokerMessage(message: BrokerMessage): string {
  if (message.kind === "dispatch") return JSON.stringify({ v: VERSION, ...message, token: String(message.token) });
  return JSON.stringify({ v: VERSION, ...message });
}

/** The message of a text from a broker; a sentence that says why it is none of Turno's. */
export function readBrokerMessage(text: string): BrokerMessage | string {
  if (text.length > MESSAGE_LIMIT_BYTES) return `it is longer than ${MESSAGE_LIMIT_BYTES} characters`;
  const value = parse(text);
  if (value === null) return "it is not a JSON object";
  if (value.v !== VERSION) return `its version "v" is not ${VERSION}`;
  const { kind, jobId, token, queue, marker, body } = value;
  if (kind === "dispatch" || kind === "marker") {
    if (typeof queue !== "string" || !NAME_PATTERN.test(queue)) return 'its "queue" is not the name of a queue';
    if (kind === "marker") {
      if (typeof marker !== "string" || marker === "") return 'its "marker" is not a text';
      return { kind, marker, queue };
    }
  }
  if (kind !== "dispatch" && kind !== "dead-letter") return 'its "kind" is not one that Turno sends';
  if (typeof jobId !== "string" || !isJobId(jobId)) return 'its "jobId" is not the id of a job';
  if (kind === "dead-letter") {
    return isObject(body) ? { kind, jobId, body } : 'its "body" is not an object';
  }
  if (typeof token !== "string" || !TOKEN.test(token) || BigInt(token) > LARGEST_TOKEN)
    return 'its "token" is not a number as text';
  return { kind, jobId, token: BigInt(token) as DispatchToken, queue: String(queue) };
}

function parse(text: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
