import type { DispatchToken, JobId, WorkerId } from "../../core/ids.ts";
import type { ClaimedJob, DeliveryStore, Ownership } from "../../protocol/ports/jobs.ts";
import type { Doorbell } from "../../protocol/ports/transport.ts";
import { createBatcher } from "./batcher.ts";
import { type DeliveredRow, readDeliveries, toToken } from "./claim-answer.ts";
import { releaseKeys } from "./concurrency-keys.ts";
import { CLAIM_DELIVERIES, DEFER_DELIVERIES } from "./delivery-statements.ts";
import type { Database } from "./pool.ts";

/** Most deliveries that go in one statement. */
const BATCH = 500;

type Claim = ClaimedJob | "limited" | null;

interface ClaimWish extends Ownership {
  readonly workerId: WorkerId;
}

interface DeferWish extends Ownership {
  readonly delayMs: number;
}

/** What brokers deliver, claimed together: deliveries that come while a statement is under way share the next. */
export function createDeliveryStore(database: Database, doorbell: Pick<Doorbell, "ring">): DeliveryStore {
  const claim = createBatcher<ClaimWish, Claim>({ lanes: 2, maxBatch: BATCH, run: claimAll });
  const defer = createBatcher<DeferWish, boolean>({ lanes: 1, maxBatch: BATCH, run: deferAll });

  async function claimAll(wishes: readonly ClaimWish[]): Promise<readonly Claim[]> {
    const claims = new Map<ClaimWish, Claim>();
    for (const workerId of new Set(wishes.map((wish) => wish.workerId))) {
      const own = firstOfEach(wishes.filter((wish) => wish.workerId === workerId));
      const rows = await database.prepared<DeliveredRow>(CLAIM_DELIVERIES, [workerId, ...arrays(own)]);
      const answers = readDeliveries(rows);
      for (const wish of own) claims.set(wish, answers.get(wish.token) ?? null);
    }
    return wishes.map((wish) => claims.get(wish) ?? null);
  }

  async function deferAll(wishes: readonly DeferWish[]): Promise<readonly boolean[]> {
    const first = firstOfEach(wishes);
    const { rows, admitted } = await database.transaction(async (query) => {
      const rows = await query<{ id: JobId; token: string; key: string | null }>(DEFER_DELIVERIES, [
        ...arrays(first),
        first.map(({ delayMs }) => Math.round(delayMs)),
      ]);
      const left = rows.flatMap(({ id, key }) => (key === null ? [] : [{ id, key }]));
      return { rows, admitted: await releaseKeys(query, left) };
    });
    for (const queue of new Set(admitted.map((job) => job.queue))) doorbell.ring({ kind: "queue", queue });
    const deferred = new Set(rows.map(({ token }) => toToken(token)));
    const asked = new Set(first);
    return wishes.map((wish) => asked.has(wish) && deferred.has(wish.token));
  }

  return {
    claimDelivery: (workerId, { jobId, token }) => claim({ workerId, jobId, token }),
    deferDelivery: ({ jobId, token }, delayMs) => defer({ jobId, token, delayMs }),
  };
}

/** A message may come twice in one batch; only the first may have the answer, or its job would run twice. In order, so that two batches lock alike. */
function firstOfEach<Wish extends Ownership>(wishes: readonly Wish[]): readonly Wish[] {
  const first = new Map<DispatchToken, Wish>();
  for (const wish of wishes) if (!first.has(wish.token)) first.set(wish.token, wish);
  return [...first.values()].sort((left, right) => (left.jobId < right.jobId ? -1 : 1));
}

function arrays(wishes: readonly Ownership[]): [JobId[], string[]] {
  return [wishes.map(({ jobId }) => jobId), wishes.map(({ token }) => String(token))];
}
