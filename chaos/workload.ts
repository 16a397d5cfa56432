import { setTimeout as delay } from "node:timers/promises";
import { type ClientLine, type LedgerWriter, monotonicUs } from "./ledger.ts";
import { type SeededRandom, seededRandom } from "./random.ts";

const ANSWER_LIMIT_MS = 8_000;
/** Above the size up to which payloads travel with the job's row. */
const LARGE_PAYLOAD_CHARACTERS = 4_000;
/** Of 100 jobs, those that take longer than a lease, so that others take them while they still run. */
const LONG_PERCENT = { short: 4, long: 2 } as const;
/** Ids to choose from when something is to be cancelled. */
const REMEMBERED = 40;
/** With an idempotency key an unknown outcome is asked again, so often at most. */
const MAX_TRIES = 6;
const TRY_AGAIN_MS = 1_500;
/** Requests under way at most; above it the next one waits. */
const MAX_OPEN = 60;

export interface WorkloadSettings {
  readonly seed: number;
  readonly serverUrl: string;
  /** Job types to draw from. */
  readonly types: readonly string[];
  /** Job types with a concurrency key in their payload. */
  readonly keyedTypes: readonly string[];
  readonly jobsPerSecond: number;
  readonly leaseMs: number;
  readonly ledger: LedgerWriter;
}

interface Planned {
  readonly type: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

/** Sends jobs, batches and cancels until the signal aborts, and waits for the answers of what is under way. */
export async function runWorkload(settings: WorkloadSettings, signal: AbortSignal): Promise<void> {
  const random = seededRandom(settings.seed ^ 0x5eed);
  const client = new Client(settings);
  const open = new Set<Promise<void>>();
  while (!signal.aborted) {
    const count = random.chance(8) ? random.between(2, 20) : 1;
    const sending = (
      random.chance(5) ? client.cancelOne(random) : client.submit(drawJobs(random, settings, client, count))
    ).finally(() => open.delete(sending));
    open.add(sending);
    const pauseMs = ((count * 1_000) / settings.jobsPerSecond) * (0.5 + random.share());
    await delay(pauseMs, undefined, { signal }).catch(() => {});
    while (open.size >= MAX_OPEN) await Promise.race(open);
  }
  await Promise.all(open);
}

interface Submission {
  readonly jobs: readonly Planned[];
  readonly tags: readonly string[];
  readonly expect: "Succeeded" | "Failed";
  /** Null: an unknown outcome stays unknown. */
  readonly idempotencyKey: string | null;
  /** Sends the same request once more after it was accepted. */
  readonly repeats: boolean;
}

function drawJobs(random: SeededRandom, settings: WorkloadSettings, client: Client, count: number): Submission {
  const fails = random.chance(3);
  const jobs: Planned[] = [];
  const tags: string[] = [];
  for (let index = 0; index < count; index += 1) {
    const tag = client.nextTag();
    const isKeyed = settings.keyedTypes.length > 0 && random.chance(20);
    jobs.push({
      type: random.pick(isKeyed ? settings.keyedTypes : settings.types),
      payload: {
        tag,
        ms: random.chance(settings.leaseMs > 15_000 ? LONG_PERCENT.long : LONG_PERCENT.short)
          ? random.between(Math.round(settings.leaseMs * 1.1), settings.leaseMs * (settings.leaseMs > 15_000 ? 2 : 5))
          : random.chance(45)
            ? random.between(5, 400)
            : random.between(400, 3_000),
        fail: fails ? -1 : random.chance(8) ? random.between(1, 3) : 0,
        ...(isKeyed ? { key: `key-${random.between(1, 5)}` } : {}),
        ...(random.chance(2) ? { padding: "x".repeat(LARGE_PAYLOAD_CHARACTERS) } : {}),
      },
    });
    tags.push(tag);
  }
  const isSafe = random.chance(50);
  return {
    jobs,
    tags,
    expect: fails ? "Failed" : "Succeeded",
    idempotencyKey: isSafe ? `chaos-${tags[0]}` : null,
    repeats: isSafe && random.chance(10),
  };
}

/** The API's client, with every request on disk before it is sent and every answer before it is used. */
class Client {
  readonly #settings: WorkloadSettings;
  readonly #recent: string[] = [];
  #requests = 0;
  #tags = 0;

  constructor(settings: WorkloadSettings) {
    this.#settings = settings;
  }

  nextTag(): string {
    this.#tags += 1;
    return `t${this.#tags}`;
  }

  async submit({ jobs, tags, expect, idempotencyKey, repeats }: Submission): Promise<void> {
    const [first] = jobs;
    const isBatch = jobs.length > 1;
    const request = this.#begin((id, at) => ({
      e: "request",
      at,
      request: id,
      kind: isBatch ? "batch" : "job",
      tags,
      expect,
    }));
    const path = isBatch ? "/api/jobs/batch" : "/api/jobs";
    const body = isBatch ? { jobs } : first;
    const { outcome, status, body: answer } = await this.#postUntilKnown(path, body, idempotencyKey);
    const ids = outcome === "ok" ? idsOf(answer) : [];
    const again = outcome === "ok" && repeats ? await this.#post(path, body, idempotencyKey) : null;
    this.#settings.ledger.write(
      {
        e: "answer",
        at: monotonicUs(),
        request,
        outcome,
        status,
        jobs: ids,
        ...(again?.outcome === "ok" ? { again: idsOf(again.body) } : {}),
      },
      { sync: true },
    );
    this.#recent.push(...ids);
    this.#recent.splice(0, Math.max(0, this.#recent.length - REMEMBERED));
  }

  /** Without a key one try. A failure after an unknown try leaves the outcome unknown. */
  async #postUntilKnown(path: string, body: unknown, idempotencyKey: string | null): Promise<Answer> {
    let isUnknown = false;
    for (let tries = 1; ; tries += 1) {
      const answer = await this.#post(path, body, idempotencyKey);
      if (answer.outcome === "ok") return answer;
      isUnknown ||= answer.outcome === "unknown";
      if (idempotencyKey === null || tries === MAX_TRIES) {
        return isUnknown ? { ...answer, outcome: "unknown" } : answer;
      }
      await delay(TRY_AGAIN_MS);
    }
  }

  async cancelOne(random: SeededRandom): Promise<void> {
    if (this.#recent.length === 0) return;
    const job = random.pick(this.#recent);
    const request = this.#begin((id, at) => ({ e: "request", at, request: id, kind: "cancel", job }));
    const { outcome, status } = await this.#post(`/api/jobs/${job}/cancel`, undefined);
    this.#settings.ledger.write({ e: "answer", at: monotonicUs(), request, outcome, status }, { sync: true });
  }

  #begin(line: (request: number, at: number) => ClientLine): number {
    this.#requests += 1;
    this.#settings.ledger.write(line(this.#requests, monotonicUs()), { sync: true });
    return this.#requests;
  }

  async #post(path: string, body: unknown, idempotencyKey: string | null = null): Promise<Answer> {
    try {
      const response = await fetch(`${this.#settings.serverUrl}${path}`, {
        method: "POST",
        ...(body === undefined ? {} : { headers: headersOf(idempotencyKey), body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(ANSWER_LIMIT_MS),
      });
      const answer: unknown = await response.json();
      return { outcome: outcomeOf(response.status, answer), status: response.status, body: answer };
    } catch (error) {
      // Nobody listened: certainly not done. Anything else may have been.
      const code = ((error as Error).cause as NodeJS.ErrnoException | undefined)?.code;
      return { outcome: code === "ECONNREFUSED" ? "fail" : "unknown", status: null, body: null };
    }
  }
}

function headersOf(idempotencyKey: string | null): Record<string, string> {
  const type = { "content-type": "application/json" };
  return idempotencyKey === null ? type : { ...type, "idempotency-key": idempotencyKey };
}

interface Answer {
  readonly outcome: "ok" | "fail" | "unknown";
  readonly status: number | null;
  readonly body: unknown;
}

/** By what the documentation of the API promises: a refused request and a rejection by the database changed nothing. */
function outcomeOf(status: number, body: unknown): Answer["outcome"] {
  if (status < 300) return "ok";
  if (status < 500) return "fail";
  return (body as { readonly code?: unknown } | null)?.code === "TURNO_DATABASE_REJECTED" ? "fail" : "unknown";
}

function idsOf(body: unknown): readonly string[] {
  const { id, items } = body as { readonly id?: string; readonly items?: readonly { readonly id: string }[] };
  return items === undefined ? [String(id)] : items.map((item) => item.id);
}
