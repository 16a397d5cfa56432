import { expect } from "vitest";
import { seededRandom } from "../../runtime/adapters/memory/seeded.ts";
import { systemIds as ids } from "../../runtime/adapters/system/ids.ts";
import type { JobId } from "../../runtime/core/ids.ts";
import type { ClaimedJob, Finish, NewJob } from "../../runtime/protocol/ports/jobs.ts";
import type { BrokerMessage } from "../../runtime/protocol/ports/transport.ts";
import { finishOf, retryOf, scheduleSpec } from "./definitions.ts";
import type { Scene } from "./scene.ts";

/**
 * Everything that brings jobs into their queues, in any order. After it each job that is in its queue has had one message with its
 * present token, no other one lets anything be claimed, and failures for good have a dead letter each.
 */
export async function wanderWithOutbox(scene: Scene, seed: number): Promise<ReadonlySet<string>> {
  const { store, worker, newJob } = scene;
  const random = seededRandom(seed);
  const chance = (probability: number) => random.next() < probability;
  const pick = <Item>(items: readonly Item[]): Item | undefined => items[Math.floor(random.next() * items.length)];
  const jobs = new Set<JobId>();
  const running = new Map<JobId, ClaimedJob>();
  const messages: BrokerMessage[] = [];
  const made = new Set<string>();

  const anyJob = (): NewJob => {
    const job = newJob({
      concurrencyKey: chance(0.4) ? (pick(["a", "b"]) ?? null) : null,
      unique: chance(0.2) ? { key: "u", forMs: null, until: "finished" } : null,
      due: chance(0.3) ? { afterMs: 4_000 } : null,
      priority: Math.floor(random.next() * 3),
      maxAttempts: null,
    });
    jobs.add(job.id);
    return job;
  };
  const relay = () =>
    store.relayBatch(1_000, async (batch) => {
      messages.push(...batch);
      return batch.map(() => "remove");
    });
  const endOf = (job: ClaimedJob): Finish => {
    const owned = { ...job, jobId: job.id };
    const failed = { outcome: "failed", next: "Failed", reason: "failed", charge: "failure", error: "no" } as const;
    const held = { outcome: "returned", next: "Scheduled", reason: "held", hold: "no-handler" } as const;
    const finishes = [
      finishOf(owned),
      finishOf(owned, { children: [anyJob(), anyJob()].map((child) => ({ ...child, parentId: job.id })) }),
      finishOf(owned, failed),
      finishOf(owned, held),
      finishOf(owned, { outcome: "returned", next: "Scheduled", reason: "returned", charge: "return" }),
      retryOf(owned, { delayMs: 3_000 }),
    ];
    return pick(finishes) ?? finishOf(owned);
  };

  const moves: Readonly<Record<string, () => Promise<unknown>>> = {
    insertOne: () => store.insertJobs([anyJob()]),
    insertMany: () => store.insertJobs([anyJob(), anyJob(), anyJob()]),
    insertPlain: () => {
      const plain = [newJob(), newJob()];
      for (const { id } of plain) jobs.add(id);
      return store.insertJobs(plain);
    },
    insertOnce: () =>
      store.insertJobsOnce([anyJob()], { scope: "", key: ids.jobId(), requestHash: "h", retainMs: 60_000 }),
    async claim() {
      for (const job of await scene.claim({ limit: 2 })) running.set(job.id, job);
    },
    async claimDelivery() {
      await relay();
      const message = pick(messages);
      if (message?.kind !== "dispatch") return;
      const job = await store.claimDelivery(worker, message);
      if (job !== null && job !== "limited") running.set(job.id, job);
    },
    async defer() {
      await relay();
      const message = pick(messages);
      if (message?.kind === "dispatch") await store.deferDelivery(message, 1_000);
    },
    async finish() {
      const job = pick([...running.values()]);
      if (job === undefined) return;
      running.delete(job.id);
      await store.finishJob(worker, endOf(job));
    },
    async giveBack() {
      const job = pick([...running.values()]);
      if (job === undefined) return;
      running.delete(job.id);
      await store.returnClaims(worker, [{ jobId: job.id, token: job.token }]);
    },
    async lose() {
      const seen = pick(await store.observeLeases());
      if (seen === undefined) return;
      running.delete(seen.jobId);
      await store.recoverJobs([seen]);
    },
    cancel: async () => store.cancelJob(pick([...jobs]) ?? ids.jobId()),
    requeue: async () => store.requeueJob(pick([...jobs]) ?? ids.jobId()),
    async trigger() {
      const id = await store.triggerSchedule(pick(["plain", "keyed"]) ?? "plain", ids.jobId());
      if (id !== null) jobs.add(id);
    },
    async fire() {
      const { schedules, now } = await store.loadDueSchedules(10);
      const steps = schedules.map(({ name, nextFireAt, timingHash }) => {
        const jobId = ids.jobId();
        jobs.add(jobId);
        const next = new Date(now.getTime() + 3_000);
        const fires = [{ at: nextFireAt, jobId }];
        return { name, expected: { nextFireAt, timingHash }, fires, skips: [], olderSkips: 0, nextFireAt: next };
      });
      await store.applySteps(steps);
    },
    settle: () => store.settleOverlaps(10),
    async pass() {
      await scene.under.elapse(2_000);
      await store.promoteDue(100);
    },
  };

  for (let step = 0; step < 70; step += 1) {
    const name = pick(Object.keys(moves)) as string;
    made.add(name);
    await moves[name]?.();
    if (chance(0.3)) await relay();
  }
  await relay();

  for (const id of jobs) {
    const state = (await scene.under.readJob(id))?.state ?? null;
    if (state === "Failed") {
      const letters = messages.filter((message) => message.kind === "dead-letter" && message.jobId === id);
      expect({ seed, id, letters: letters.length > 0 }).toEqual({ seed, id, letters: true });
    }
    let claims = 0;
    for (const message of messages) {
      if (message.kind !== "dispatch" || message.jobId !== id) continue;
      if ((await store.claimDelivery(worker, message)) !== null) claims += 1;
    }
    expect({ seed, id, state, claims }).toEqual({ seed, id, state, claims: state === "Enqueued" ? 1 : 0 });
  }
  return made;
}

/** What the moves need. */
export async function prepareWandering(scene: Scene): Promise<void> {
  await scene.store.setTransport("rabbitmq");
  const nextFireAt = await scene.under.now();
  const declare = (name: string, spec: Parameters<typeof scheduleSpec>[0]) =>
    scene.under.declareSchedule({ name, spec: scheduleSpec(spec), timingHash: "t1", nextFireAt });
  await declare("plain", { job: "work" });
  await declare("replacing", { job: "work", concurrencyPolicy: "Replace" });
  await declare("keyed", { job: "work", concurrencyPolicy: "Allow", concurrencyKey: "a" });
}
