import { hashJson } from "../config/hash.ts";
import { describeKey, evaluateKey } from "../config/job-keys.ts";
import type { JobDefinition } from "../config/objects.ts";
import { NAME_PATTERN } from "../core/ids.ts";
import type { Json, JsonObject } from "../core/json.ts";
import { escapePointer, isUnstorable } from "../core/unstorable.ts";
import { UnknownOutcomeError } from "../protocol/ports/errors.ts";
import type { JobIntake, JobRequest, RequestKey, RequestProblem } from "../protocol/ports/intake.ts";
import type { JobStore, OnceKey } from "../protocol/ports/jobs.ts";
import type { Ids } from "../protocol/ports/surroundings.ts";

/** Bytes of a payload's JSON text. */
export const MAX_PAYLOAD_BYTES = 256 * 1024;
/** Levels of arrays and objects in a payload. */
export const MAX_PAYLOAD_DEPTH = 64;
/** Jobs that are created by one call. */
export const MAX_BATCH = 1000;
/** How long the answer to a request with an idempotency key is remembered. */
export const IDEMPOTENCY_RETENTION_MS = 24 * 60 * 60 * 1000;
const MOST_TRIES = 3;
/** The largest number of attempts a job may ask for. */
export const MAX_ATTEMPTS = 1000;

/** Checks a payload against a JSON Schema; an empty list means that it fits. Pointers start at the payload. */
export type ValidatePayload = (
  schema: JsonObject | boolean,
  payload: Json,
) => readonly { readonly pointer: string; readonly message: string }[];

export interface IntakeParts {
  readonly store: Pick<JobStore, "loadJobTypes" | "insertJobs" | "insertJobsOnce">;
  readonly ids: Pick<Ids, "jobId">;
  readonly validatePayload: ValidatePayload;
}

/** The intake of jobs: limits, storable values, declared types and their payload schemas; then one insert. */
export function createJobIntake({ store, ids, validatePayload }: IntakeParts): JobIntake {
  return {
    async submit(requests, once = null) {
      const prepared = await prepareRequests(requests, { store, validatePayload });
      if ("problems" in prepared) return { kind: "refused", problems: prepared.problems };
      const jobs = prepared.requests.map((request) => ({ ...request, id: ids.jobId() }));
      const inserted =
        once === null
          ? await store.insertJobs(jobs)
          : await persist(() => store.insertJobsOnce(jobs, onceKey(once, requests)));
      if ("created" in inserted) return { kind: "created", jobs: inserted.created, replayed: false };
      if ("replayed" in inserted) return { kind: "created", jobs: inserted.replayed, replayed: true };
      if ("refused" in inserted) return { kind: "conflict", reason: inserted.refused };
      // A revision removed the type between the two statements.
      const gone = new Set(inserted.unknownTypes);
      return {
        kind: "refused",
        problems: requests.flatMap((request, index) =>
          gone.has(request.type) ? [unknownType(request.type, index)] : [],
        ),
      };
    },
  };
}

/** The requests as they came: what the files say of their type may change between two tries. */
function onceKey({ scope, key }: RequestKey, requests: readonly JobRequest[]): OnceKey {
  const plain = JSON.parse(JSON.stringify(requests)) as Json;
  return { scope, key, requestHash: hashJson(plain), retainMs: IDEMPOTENCY_RETENTION_MS };
}

/** An insert of unknown outcome is tried again: when it was applied, its own answer comes back. */
async function persist<Value>(insert: () => Promise<Value>): Promise<Value> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await insert();
    } catch (error) {
      if (!(error instanceof UnknownOutcomeError) || tries >= MOST_TRIES) throw error;
    }
  }
}

/** Requests as they are to be inserted, with the keys that their payloads give; or what is wrong with them, as far as it can be known before. */
export async function prepareRequests(
  requests: readonly JobRequest[],
  {
    store,
    validatePayload,
  }: { readonly store: Pick<JobStore, "loadJobTypes">; readonly validatePayload: ValidatePayload },
): Promise<{ readonly requests: readonly JobRequest[] } | { readonly problems: readonly RequestProblem[] }> {
  const limits = checkLimits(requests);
  if (limits.length > 0) return { problems: limits };
  // What is no name is no type either, and the database could not even be asked for it.
  const names = new Set(requests.map((request) => request.type).filter((type) => NAME_PATTERN.test(type)));
  const types = await store.loadJobTypes([...names]);
  const problems = requests.flatMap((request, index) => checkDeclared({ request, index, types, validatePayload }));
  if (problems.length > 0) return { problems };
  const keyed = requests.map((request) => withKeys(request, types.get(request.type)));
  const unkeyed = keyed.flatMap((result, index) => ("found" in result ? [{ request: index, ...result.found }] : []));
  if (unkeyed.length > 0) return { problems: unkeyed };
  return { requests: keyed.flatMap((result) => ("request" in result ? [result.request] : [])) };
}

/** The keys that its job type says; a concurrency key of its own comes first. */
function withKeys(
  request: JobRequest,
  definition: JobDefinition | undefined,
): { readonly request: JobRequest } | { readonly found: Found } {
  let { concurrencyKey = null, unique = null } = request;
  if (concurrencyKey === null && definition?.concurrencyKey !== undefined) {
    const key = evaluateKey(definition.concurrencyKey, request.payload);
    if (!key.ok) return { found: keyProblem("concurrency key", definition.concurrencyKey, key.message) };
    concurrencyKey = key.text;
  }
  if (definition?.unique !== undefined) {
    const { forMs, until } = definition.unique;
    const key = evaluateKey(definition.unique.key, request.payload);
    if (!key.ok) return { found: keyProblem("unique key", definition.unique.key, key.message) };
    unique = { key: key.text, forMs, until };
  }
  // What needs no key stays as it came: most jobs.
  if (concurrencyKey === null && unique === null) return { request };
  return { request: { ...request, concurrencyKey, unique } };
}

function keyProblem(name: string, template: string, message: string): Found {
  return { pointer: "/payload", message: `gives no ${name} (${template}): ${message}` };
}

function checkLimits(requests: readonly JobRequest[]): readonly RequestProblem[] {
  if (requests.length > MAX_BATCH) {
    return [
      { request: 0, pointer: "", message: `expected at most ${MAX_BATCH} jobs in one call, found ${requests.length}` },
    ];
  }
  return requests.flatMap((request, index) =>
    [...optionProblems(request), ...payloadProblems(request.payload)].map((problem) => ({
      request: index,
      ...problem,
    })),
  );
}

interface Found {
  readonly pointer: string;
  readonly message: string;
}

function optionProblems(request: JobRequest): readonly Found[] {
  const found: Found[] = [];
  if (request.queue !== null && !NAME_PATTERN.test(request.queue)) {
    found.push({ pointer: "/queue", message: `expected a queue's name (${NAME_PATTERN.source})` });
  }
  if (!Number.isInteger(request.priority) || Math.abs(request.priority) > 100) {
    found.push({ pointer: "/priority", message: "expected a whole number from -100 to 100" });
  }
  const { maxAttempts } = request;
  if (maxAttempts !== null && (!Number.isInteger(maxAttempts) || maxAttempts < 1 || maxAttempts > MAX_ATTEMPTS)) {
    found.push({ pointer: "/maxAttempts", message: `expected a whole number from 1 to ${MAX_ATTEMPTS}` });
  }
  const keyProblem = request.concurrencyKey == null ? null : describeKey(request.concurrencyKey);
  if (keyProblem !== null) found.push({ pointer: "/concurrencyKey", message: keyProblem });
  return found;
}

/** What the database or JSON readers elsewhere could not give back as it came. */
export function payloadProblems(payload: Json): readonly Found[] {
  const found: Found[] = [];
  visit({ value: payload, pointer: "/payload", depth: 0, found });
  if (found.length > 0) return found;
  const bytes = Buffer.byteLength(JSON.stringify(payload));
  if (bytes <= MAX_PAYLOAD_BYTES) return found;
  return [{ pointer: "/payload", message: `expected at most ${MAX_PAYLOAD_BYTES} bytes of JSON, found ${bytes}` }];
}

const UNSTORABLE = "holds U+0000 or half of a surrogate pair, which cannot be stored; send whole characters";

function visit(at: {
  readonly value: Json;
  readonly pointer: string;
  readonly depth: number;
  readonly found: Found[];
}): void {
  const { value, pointer, depth, found } = at;
  // A hundred problems of one payload say enough.
  if (found.length >= 100) return;
  if (typeof value === "string") {
    if (isUnstorable(value)) found.push({ pointer, message: UNSTORABLE });
  } else if (typeof value === "number") {
    if (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value))) {
      found.push({ pointer, message: "this number is beyond 2^53 and would lose digits: use a string" });
    }
  } else if (value !== null && typeof value === "object") {
    if (depth >= MAX_PAYLOAD_DEPTH) {
      found.push({ pointer, message: `expected at most ${MAX_PAYLOAD_DEPTH} levels of arrays and objects` });
      return;
    }
    for (const [key, member] of Object.entries(value as Record<string, Json>)) {
      // A name that is no text is shown with replacement characters.
      const below = `${pointer}/${escapePointer(key.replace(/\0|\p{Surrogate}/gu, "\ufffd"))}`;
      if (isUnstorable(key)) found.push({ pointer: below, message: `the member's name ${UNSTORABLE}` });
      visit({ value: member, pointer: below, depth: depth + 1, found });
    }
  }
}

function checkDeclared(context: {
  readonly request: JobRequest;
  readonly index: number;
  readonly types: ReadonlyMap<string, JobDefinition>;
  readonly validatePayload: ValidatePayload;
}): readonly RequestProblem[] {
  const { request, index, types, validatePayload } = context;
  const definition = types.get(request.type);
  if (definition === undefined) return [unknownType(request.type, index)];
  if (definition.payloadSchema === null) return [];
  return validatePayload(definition.payloadSchema, request.payload).map(({ pointer, message }) => ({
    request: index,
    pointer: `/payload${pointer}`,
    message,
  }));
}

function unknownType(type: string, index: number): RequestProblem {
  return {
    request: index,
    pointer: "/type",
    message: `no job of type "${type}" is declared; declare it in a kind: Job document and apply it`,
  };
}
