import { describe, expect, it } from "vitest";
import { systemIds as ids } from "../../runtime/adapters/system/ids.ts";
import type { ScheduleSpec } from "../../runtime/config/objects.ts";
import type { SlaStep } from "../../runtime/protocol/ports/slas.ts";
import { finishOf, jobDefinition, scheduleSpec } from "./definitions.ts";
import type { Scene } from "./scene.ts";

/** Runs that are expected. */
export function slaContract(scene: Scene): void {
  const spec: ScheduleSpec = {
    ...scheduleSpec({ job: "work" }),
    sla: { finishBy: null, maxAgeMs: 60_000, notify: "alert" },
  };

  describe("expectations", () => {
    async function declare(options: Partial<ScheduleSpec> = {}): Promise<void> {
      const nextFireAt = new Date((await scene.under.now()).getTime() - 1_000);
      await scene.under.declareSchedule({
        name: "nightly",
        spec: { ...spec, ...options },
        timingHash: "t1",
        nextFireAt,
      });
    }

    async function step(): Promise<SlaStep> {
      const { now, schedules } = await scene.store.loadDueSlas(10);
      const dueAt = schedules[0]?.dueAt ?? new Date(0);
      return {
        name: "nightly",
        expectedDueAt: dueAt,
        misses: [{ expectation: "max-age", dueAt: new Date(now.getTime() - 5_000), jobId: ids.jobId() }],
        nextDueAt: new Date(now.getTime() + 30_000),
        lastSuccessAt: null,
      };
    }

    it("are due when a schedule with some is there, and not while it is suspended or has none", async () => {
      await declare();
      const { now, schedules } = await scene.store.loadDueSlas(10);
      expect(schedules).toMatchObject([{ name: "nightly", spec, lastSuccessAt: null, successes: [] }]);
      expect(Math.abs((schedules[0]?.since.getTime() ?? 0) - now.getTime())).toBeLessThan(30_000);
      await scene.store.pause({ kind: "Schedule", name: "nightly", by: "x", reason: null, until: null });
      expect((await scene.store.loadDueSlas(10)).schedules).toEqual([]);
    });

    it("write a miss down once, with the job that tells of it", async () => {
      await scene.under.declareJob(jobDefinition({ type: "alert" }));
      await declare();
      const missed = await step();
      const jobId = missed.misses[0]?.jobId;
      expect(await scene.store.recordSla(missed)).toMatchObject([{ expectation: "max-age", jobId }]);
      expect((await scene.store.loadDueSlas(10)).schedules).toEqual([]);
      expect(await scene.store.recordSla(missed)).toEqual([]);
      const [job] = await scene.claim();
      expect(job).toMatchObject({
        id: jobId,
        type: "alert",
        schedule: null,
        payload: { schedule: "nightly", expectation: "max-age", lastSuccessAt: null },
      });
      expect(job?.payload).toMatchObject({ dueAt: missed.misses[0]?.dueAt.toISOString() });
      await scene.under.elapse(31_000);
      const again = { ...(await step()), misses: [] };
      expect(await scene.store.recordSla(again)).toEqual([]);
    });

    it("tell nobody where no job type is declared for it", async () => {
      await declare();
      expect(await scene.store.recordSla(await step())).toMatchObject([{ expectation: "max-age", jobId: null }]);
      expect(await scene.claim()).toEqual([]);
    });

    it("see the successes of the schedule's runs", async () => {
      await declare();
      const jobId = await scene.store.triggerSchedule("nightly", ids.jobId());
      expect((await scene.store.loadDueSlas(10)).schedules[0]?.successes).toEqual([]);
      const [job] = await scene.claim();
      if (job === undefined) throw new Error("the run was not claimed");
      expect(job.id).toBe(jobId);
      await scene.store.finishJob(scene.worker, finishOf({ jobId: job.id, token: job.token }));
      const { now, schedules } = await scene.store.loadDueSlas(10);
      const [success] = schedules[0]?.successes ?? [];
      expect(Math.abs((success?.finishedAt.getTime() ?? 0) - now.getTime())).toBeLessThan(30_000);
    });
  });
}
