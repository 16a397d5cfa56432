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

    async function claimed(id: Ownership["jobId"]) {
      const job = (await scene.claim()).find((one) => one.id === id);
      if (job === undefined) throw new Error("the job was not claimed");
      return job;
    }
  });
}
