import { describe, expect, it } from "vitest";
import { systemIds as ids } from "../../runtime/adapters/system/ids.ts";
import { createPauses, endPauses } from "../../runtime/services/pauses.ts";
import { scheduleSpec } from "./definitions.ts";
import type { Scene } from "./scene.ts";

/** What operators lay over schedules and queues. */
export function pauseContract(scene: Scene): void {
  const spec = scheduleSpec({ job: "work" });
  const by = { by: "maria", reason: "stock taking", until: null };
  const inMs = async (ms: number): Promise<Date> => new Date((await scene.under.now()).getTime() + ms);

  describe("pauses", () => {
    async function declare(options: { readonly suspend?: boolean; readonly runOnStart?: boolean } = {}): Promise<Date> {
      const nextFireAt = await inMs(-1_000);
      const declared = { name: "minutely", spec: { ...spec, ...options }, timingHash: "t1", nextFireAt };
      await scene.under.declareSchedule(declared);
      return nextFireAt;
    }

    it("keep a schedule from being due and from firing a step that was decided before", async () => {
      const at = await declare();
      expect(await scene.store.pause({ kind: "Schedule", name: "minutely", ...by })).toMatchObject({
        kind: "paused",
        pause: { by: "maria", reason: "stock taking", until: null },
      });
      expect((await scene.store.loadDueSchedules(10)).schedules).toEqual([]);
      expect(await scene.store.nextDueInMs()).toBeNull();
      const step = { name: "minutely", expected: { nextFireAt: at, timingHash: "t1" }, skips: [], olderSkips: 0 };
      const fires = [{ at, jobId: ids.jobId() }];
      expect(await scene.store.applySteps([{ ...step, fires, nextFireAt: null }])).toMatchObject([{ kind: "stale" }]);
      expect(await scene.claim()).toEqual([]);
    });

    it("owe nothing when they are lifted: the first fire is strictly after", async () => {
      await declare({ runOnStart: true });
      const pauses = createPauses(scene.store);
      await pauses.pause({ kind: "Schedule", name: "minutely", ...by });
      await scene.under.elapse(600_000);
      const resumed = await pauses.resume({ kind: "Schedule", name: "minutely" });
      expect(resumed.kind).toBe("resumed");
      const next = await scene.under.readNextFire("minutely");
      expect(next?.getTime()).toBeGreaterThan((await scene.under.now()).getTime() - 5_000);
      expect((await scene.store.loadDueSchedules(10)).schedules).toEqual([]);
      expect(await scene.store.fireOnStart(ids.jobId)).toBe(0);
      expect(await pauses.resume({ kind: "Schedule", name: "minutely" })).toEqual({ kind: "not-paused" });
    });

    it("end by themselves, with a fire at their end still to come", async () => {
      await declare();
      const until = new Date(Math.ceil((await inMs(30_000)).getTime() / 60_000) * 60_000);
      await scene.store.pause({ kind: "Schedule", name: "minutely", ...by, until });
      expect(await endPauses(scene.store, 10)).toBe(0);
      await scene.under.elapse(120_000);
      expect(await scene.store.listEndedPauses(10)).toEqual([{ kind: "Schedule", name: "minutely" }]);
      expect(await endPauses(scene.store, 10)).toBe(1);
      expect(await endPauses(scene.store, 10)).toBe(0);
      const [due] = (await scene.store.loadDueSchedules(10)).schedules;
      expect(due?.name).toBe("minutely");
    });

    it("are told who, why and until when, and take another reason and end", async () => {
      await declare();
      const until = await inMs(3_600_000);
      await scene.store.pause({ kind: "Schedule", name: "minutely", ...by });
      await scene.store.pause({ kind: "Schedule", name: "minutely", by: "joao", reason: null, until });
      const state = await scene.store.loadPause({ kind: "Schedule", name: "minutely" });
      expect(state).toMatchObject({ suspendedInFiles: false, pause: { by: "joao", reason: null, until } });
    });

    it("are lifted only as they were looked at", async () => {
      await declare();
      const target = { kind: "Schedule", name: "minutely" } as const;
      await scene.store.pause({ ...target, ...by });
      const state = await scene.store.loadPause(target);
      const { pausedAt } = state?.pause ?? { pausedAt: new Date(0) };
      const nextFireAt = await inMs(60_000);
      const other = { pausedAt: new Date(pausedAt.getTime() - 1), timingHash: "t1" };
      expect(await scene.store.liftPause({ ...target, expected: other, nextFireAt })).toBe(false);
      const edited = { pausedAt, timingHash: "t2" };
      expect(await scene.store.liftPause({ ...target, expected: edited, nextFireAt })).toBe(false);
      expect(await scene.store.liftPause({ ...target, expected: { pausedAt, timingHash: "t1" }, nextFireAt })).toBe(
        true,
      );
      expect(await scene.under.readNextFire("minutely")).toEqual(nextFireAt);
    });

    it("are not resumed where the files suspend", async () => {
      await declare({ suspend: true });
      const pauses = createPauses(scene.store);
      const target = { kind: "Schedule", name: "minutely" } as const;
      expect(await pauses.resume(target)).toEqual({ kind: "suspended-in-files" });
      await pauses.pause({ ...target, ...by });
      expect(await pauses.resume(target)).toEqual({ kind: "suspended-in-files" });
      expect((await scene.store.loadPause(target))?.pause).not.toBeNull();
    });

    it("stop the taking from a queue, and its jobs go on when it is resumed", async () => {
      await scene.under.declareQueue({ name: "default", concurrency: null, suspended: false });
      const pauses = createPauses(scene.store);
      await pauses.pause({ kind: "Queue", name: "default", ...by });
      await scene.insert({});
      expect(await scene.claim()).toEqual([]);
      expect(await pauses.resume({ kind: "Queue", name: "default" })).toEqual({ kind: "resumed", nextFireAt: null });
      expect(await scene.claim()).toHaveLength(1);
    });

    it("are refused for what is not there and for an end that has passed", async () => {
      const nobody = { kind: "Schedule", name: "unheard-of" } as const;
      expect(await scene.store.pause({ ...nobody, ...by })).toEqual({ kind: "not-found" });
      expect(await scene.store.pause({ kind: "Queue", name: "unheard-of", ...by })).toEqual({ kind: "not-found" });
      expect(await createPauses(scene.store).resume(nobody)).toEqual({ kind: "not-found" });
      await declare();
      const until = await inMs(-1);
      expect(await scene.store.pause({ kind: "Schedule", name: "minutely", ...by, until })).toEqual({ kind: "over" });
      expect((await scene.store.loadDueSchedules(10)).schedules).toHaveLength(1);
    });
  });
}
