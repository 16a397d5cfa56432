import { describe, expect, it } from "vitest";
import type { Ownership } from "../../runtime/protocol/ports/jobs.ts";
import { finishOf } from "./definitions.ts";
import { owned, type Scene } from "./scene.ts";

/** What a broker's message may do to its job, and what an old or second one may not. */
export function deliveryContract(scene: Scene): void {
  const { claimOne, view, worker, other } = scene;

  describe("deliveries", () => {
    it("claim for the dispatch that they name, once, and for no earlier one", async () => {
      const job = await claimOne();
      const message = owned(job);
      expect(await scene.store.claimDelivery(other, message)).toBeNull();
      await scene.store.returnClaims(worker, [message]);
      expect(await scene.store.claimDelivery(other, message)).toBeNull();
      await scene.store.promoteDue(10);
      expect(await scene.store.claimDelivery(other, message)).toBeNull();
      expect(await view(job.id)).toMatchObject({ state: "Enqueued", execution: 1 });
      const { token } = await claimed(job.id);
      expect(token).toBeGreaterThan(job.token);
    });

    it("put off a job of their dispatch that waits, and nothing that somebody owns or that came later", async () => {
      const job = await claimOne();
      const message = owned(job);
      expect(await scene.store.deferDelivery(message, 1_000)).toBe(false);
      expect(await view(job.id)).toMatchObject({ state: "Processing" });
      await scene.store.returnClaims(worker, [message]);
      await scene.store.promoteDue(10);
      expect(await scene.store.deferDelivery(message, 1_000)).toBe(false);
      expect(await view(job.id)).toMatchObject({ state: "Enqueued" });
      const again = await claimed(job.id);
      await scene.store.finishJob(worker, finishOf(owned(again)));
      expect(await scene.store.deferDelivery(owned(again), 1_000)).toBe(false);
      expect(await view(job.id)).toMatchObject({ state: "Succeeded" });
    });

    it("claim many at once, each message its own job, and one that comes twice only once", async () => {
      const messages = await dispatches(5);
      const [first, second, third, fourth, fifth] = messages;
      if (!first || !second || !third || !fourth || !fifth) throw new Error("five jobs are in the queue");
      const stale = { ...fourth, token: first.token };
      const answers = await Promise.all(
        [second, first, second, stale, third, fifth, first].map((message) => scene.store.claimDelivery(other, message)),
      );
      const ids = answers.map((answer) => (answer === null || answer === "limited" ? answer : answer.id));
      expect(ids).toEqual([second.jobId, first.jobId, null, null, third.jobId, fifth.jobId, null]);
      expect(answers[0]).toMatchObject({ type: "work", queue: "default", token: second.token, execution: 1 });
      expect((await view(fourth.jobId)).state).toBe("Enqueued");
    });

    it("leave jobs of limited and suspended queues to those who claim by the queue, and of no other", async () => {
      await scene.under.declareQueue({ name: "narrow", concurrency: 1, suspended: false });
      await scene.under.declareQueue({ name: "still", concurrency: null, suspended: true });
      const open = await dispatches(1);
      const narrow = await dispatches(1, "narrow");
      const still = await dispatches(1, "still");
      const all = [...still, ...open, ...narrow];
      const answers = await Promise.all(all.map((message) => scene.store.claimDelivery(other, message)));
      expect(answers.map((answer) => (typeof answer === "string" ? answer : answer?.queue))).toEqual([
        "limited",
        "default",
        "limited",
      ]);
      for (const { jobId } of [...narrow, ...still]) expect((await view(jobId)).state).toBe("Enqueued");
    });

    it("put off many at once, and one that comes twice only once", async () => {
      const [first, second] = await dispatches(2);
      if (!first || !second) throw new Error("two jobs are in the queue");
      const later = [first, second, first].map((message) => scene.store.deferDelivery(message, 5_000));
      expect(await Promise.all(later)).toEqual([true, true, false]);
      expect(await view(second.jobId)).toMatchObject({ state: "Scheduled", hold: null });
      await scene.under.elapse(5_001);
      expect((await scene.store.promoteDue(10)).promoted).toBe(2);
    });

    /** Jobs in a queue, as messages name them. */
    async function dispatches(count: number, queue = "default"): Promise<readonly Ownership[]> {
      await scene.store.setTransport("rabbitmq");
      const ids = new Set(await scene.insert(...Array.from({ length: count }, () => ({ queue }))));
      const found: Ownership[] = [];
      await scene.store.relayBatch(100, async (messages) => {
        for (const message of messages) {
          if (message.kind === "dispatch" && ids.has(message.jobId)) found.push(message);
        }
        return messages.map(() => "remove");
      });
      return found;
    }

    async function claimed(id: Ownership["jobId"]) {
      const job = (await scene.claim()).find((one) => one.id === id);
      if (job === undefined) throw new Error("the job was not claimed");
      return job;
    }
  });
}
