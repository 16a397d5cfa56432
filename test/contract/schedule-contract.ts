import { describe, expect, it } from "vitest";
import { systemIds as ids } from "../../runtime/adapters/system/ids.ts";
import type { ScheduleSpec } from "../../runtime/config/objects.ts";
import type { JobId } from "../../runtime/core/ids.ts";
import type { ClaimedJob } from "../../runtime/protocol/ports/jobs.ts";
import type { DueSchedule } from "../../runtime/protocol/ports/schedules.ts";
import { finishOf, retryOf, scheduleSpec, WELL } from "./definitions.ts";
import type { Scene } from "./scene.ts";

/** What happens by time. */
export function scheduleContract(scene: Scene): void {
  const { workerInfo, register, insert, claim, claimOne, view, worker, other } = scene;

  describe("time", () => {
    it("promotes what is due, in portions, and names the queues that got work", async () => {
      await insert(
        { due: { afterMs: 1_000 } },
        { due: { afterMs: 2_000 }, queue: "reports" },
        { due: { afterMs: 90_000 } },
      );
      expect((await scene.store.promoteDue(10)).promoted).toBe(0);
      await scene.under.elapse(3_000);
      expect(await scene.store.promoteDue(1)).toEqual({ promoted: 1, queues: ["default"] });
      expect(await scene.store.promoteDue(10)).toEqual({ promoted: 1, queues: ["reports"] });
      expect((await scene.store.promoteDue(10)).promoted).toBe(0);
    });

    it("tells how long it is until something is due", async () => {
      expect(await scene.store.nextDueInMs()).toBeNull();
      await insert({ due: { afterMs: 60_000 } });
      const dueInMs = (await scene.store.nextDueInMs()) ?? 0;
      expect(dueInMs).toBeGreaterThan(50_000);
      expect(dueInMs).toBeLessThanOrEqual(60_000);
    });

    it("holds a job that no worker of its queue can load, and lets it go when one can", async () => {
      const job = await claimOne();
      for (const id of [worker, other])
        await scene.store.heartbeat({
          worker: workerInfo(id),
          draining: false,
          unloadableBundles: ["sha256:work"],
          condition: WELL,
        });
      await scene.store.finishJob(
        worker,
        finishOf(job, { outcome: "returned", next: "Scheduled", reason: "held", hold: "no-handler", ranMs: null }),
      );
      expect(await view(job.id)).toMatchObject({ state: "Scheduled", hold: "no-handler", attempts: [] });
      expect((await scene.store.promoteDue(10)).promoted).toBe(0);
      const elsewhere = ids.workerId();
      await scene.store.registerWorker({ ...workerInfo(elsewhere), queues: [{ name: "reports", concurrency: 1 }] });
      expect((await scene.store.promoteDue(10)).promoted).toBe(0);
      await scene.store.heartbeat({
        worker: workerInfo(other),
        draining: false,
        unloadableBundles: [],
        condition: WELL,
      });
      expect((await scene.store.promoteDue(10)).promoted).toBe(1);
      expect(await view(job.id)).toMatchObject({ state: "Enqueued", hold: null });
    });
  });

  describe("schedules", () => {
    const spec = scheduleSpec({ job: "work", payload: { region: "a" } });

    async function declare(
      name: string,
      options: { readonly spec?: ScheduleSpec; readonly nextFireAt?: Date } = {},
    ): Promise<Date> {
      const nextFireAt = options.nextFireAt ?? new Date((await scene.under.now()).getTime() - 1_000);
      await scene.under.declareSchedule({ name, spec: options.spec ?? spec, timingHash: "t1", nextFireAt });
      return nextFireAt;
    }

    function step(name: string, at: Date, options: { readonly timingHash?: string; readonly next?: Date | null } = {}) {
      const nextFireAt = options.next === undefined ? new Date(at.getTime() + 60_000) : options.next;
      return {
        name,
        expected: { nextFireAt: at, timingHash: options.timingHash ?? "t1" },
        fires: [{ at, jobId: ids.jobId() }],
        skips: [],
        olderSkips: 0,
        nextFireAt,
      };
    }

    it("are due by the database's clock, soonest first, suspended ones never", async () => {
      const nowMs = (await scene.under.now()).getTime();
      await declare("late", { nextFireAt: new Date(nowMs - 5_000) });
      await declare("soon", { nextFireAt: new Date(nowMs - 1_000) });
      await declare("future", { nextFireAt: new Date(nowMs + 60_000) });
      await declare("suspended", { nextFireAt: new Date(nowMs - 9_000), spec: { ...spec, suspend: true } });
      const { now, schedules } = await scene.store.loadDueSchedules(10);
      expect(Math.abs(now.getTime() - nowMs)).toBeLessThan(30_000);
      expect(schedules.map((schedule) => schedule.name)).toEqual(["late", "soon"]);
      expect(schedules[0]).toMatchObject({ timingHash: "t1", spec, nextFireAt: new Date(nowMs - 5_000) });
      expect((await scene.store.loadDueSchedules(1)).schedules).toHaveLength(1);
    });

    it("fire a job of their type with their payload and move on", async () => {
      const at = await declare("minutely");
      const fired = step("minutely", at);
      expect(await scene.store.applySteps([fired])).toEqual([
        { name: "minutely", kind: "applied", fired: 1, overlapped: [] },
      ]);
      expect(await scene.under.readNextFire("minutely")).toEqual(fired.nextFireAt);
      const [job] = await claim();
      expect(job).toMatchObject({ id: fired.fires[0]?.jobId, type: "work", payload: { region: "a" } });
      expect(job?.schedule).toMatchObject({ name: "minutely", firedFor: at });
      expect(job?.schedule?.lateByMs).toBeGreaterThanOrEqual(1_000);
      expect(await scene.under.readFires("minutely")).toMatchObject([{ at, outcome: "fired", jobId: job?.id }]);
    });

    it("do nothing for a step that was decided from an older state", async () => {
      const at = await declare("contested");
      await scene.store.applySteps([step("contested", at)]);
      const stale = { name: "contested", kind: "stale", fired: 0, overlapped: [] };
      expect(await scene.store.applySteps([step("contested", at)])).toEqual([stale]);
      const next = (await scene.under.readNextFire("contested")) as Date;
      expect(await scene.store.applySteps([step("contested", next, { timingHash: "edited" })])).toEqual([stale]);
      expect(await scene.store.applySteps([step("unheard-of", at)])).toEqual([{ ...stale, name: "unheard-of" }]);
      expect(await claim()).toHaveLength(1);
    });

    it("fire each instant once when two schedulers decide at the same time", async () => {
      const at = await declare("raced");
      const outcomes = await Promise.all([
        scene.store.applySteps([step("raced", at)]),
        scene.store.applySteps([step("raced", at)]),
      ]);
      expect(outcomes.flat().reduce((sum, outcome) => sum + outcome.fired, 0)).toBe(1);
      expect(await claim()).toHaveLength(1);
    });

    it("fire no instant twice, though a later step names it again", async () => {
      const at = await declare("repeated", { spec: { ...spec, concurrencyPolicy: "Allow" } });
      await scene.store.applySteps([step("repeated", at)]);
      const next = (await scene.under.readNextFire("repeated")) as Date;
      const again = { ...step("repeated", next), fires: [at, next].map((one) => ({ at: one, jobId: ids.jobId() })) };
      expect(await scene.store.applySteps([again])).toMatchObject([{ kind: "applied", fired: 1 }]);
      expect(await claim()).toHaveLength(2);
      expect(await scene.under.readFires("repeated")).toHaveLength(2);
    });

    it("skip a fire under Forbid while a run is on its way, and name it", async () => {
      const at = await declare("forbidding");
      await scene.store.applySteps([step("forbidding", at)]);
      const [running] = await claim();
      const next = (await scene.under.readNextFire("forbidding")) as Date;
      const blocked = { at: next, blockedBy: running?.id };
      expect(await scene.store.applySteps([step("forbidding", next)])).toEqual([
        { name: "forbidding", kind: "applied", fired: 0, overlapped: [blocked] },
      ]);
      expect(await scene.under.readFires("forbidding")).toMatchObject([
        { outcome: "fired" },
        { outcome: "overlapped", jobId: null, blockedBy: running?.id },
      ]);
      await scene.store.finishJob(
        worker,
        finishOf({ jobId: (running as ClaimedJob).id, token: (running as ClaimedJob).token }),
      );
      const later = (await scene.under.readNextFire("forbidding")) as Date;
      expect(await scene.store.applySteps([step("forbidding", later)])).toMatchObject([{ fired: 1, overlapped: [] }]);
    });

    it("fire under Allow whatever is on its way", async () => {
      const at = await declare("allowing", { spec: { ...spec, concurrencyPolicy: "Allow" } });
      await scene.store.applySteps([step("allowing", at)]);
      const next = (await scene.under.readNextFire("allowing")) as Date;
      expect(await scene.store.applySteps([step("allowing", next)])).toMatchObject([{ fired: 1, overlapped: [] }]);
      expect(await claim()).toHaveLength(2);
    });

    it("let one run wait under Queue, and skip the others for it", async () => {
      const at = await declare("queueing", { spec: { ...spec, concurrencyPolicy: "Queue" } });
      await scene.store.applySteps([step("queueing", at)]);
      const [running] = await claim();
      const second = (await scene.under.readNextFire("queueing")) as Date;
      const waits = step("queueing", second);
      const waiting = waits.fires[0]?.jobId as JobId;
      expect(await scene.store.applySteps([waits])).toMatchObject([{ fired: 1, overlapped: [] }]);
      expect(await view(waiting)).toMatchObject({ state: "Scheduled", hold: "overlap" });
      const third = (await scene.under.readNextFire("queueing")) as Date;
      expect(await scene.store.applySteps([step("queueing", third)])).toMatchObject([
        { fired: 0, overlapped: [{ at: third, blockedBy: waiting }] },
      ]);
      expect(await scene.store.settleOverlaps(10)).toEqual({ cancelled: 0, released: 0 });
      expect(await scene.store.promoteDue(10)).toMatchObject({ promoted: 0 });
      await scene.store.finishJob(
        worker,
        finishOf({ jobId: running?.id as JobId, token: (running as ClaimedJob).token }),
      );
      expect(await scene.store.settleOverlaps(10)).toEqual({ cancelled: 0, released: 1 });
      expect((await claim()).map((job) => job.id)).toEqual([waiting]);
      expect(await scene.under.readFires("queueing")).toMatchObject([
        { outcome: "fired", blockedBy: null },
        { outcome: "fired", jobId: waiting, blockedBy: running?.id },
        { outcome: "overlapped", blockedBy: waiting },
      ]);
    });

    it("catch up under Queue with the two oldest of several instants", async () => {
      const at = await declare("behind", { spec: { ...spec, concurrencyPolicy: "Queue" } });
      const fires = [0, 1, 2].map((index) => ({ at: new Date(at.getTime() + index), jobId: ids.jobId() }));
      expect(await scene.store.applySteps([{ ...step("behind", at), fires }])).toMatchObject([
        { fired: 2, overlapped: [{ at: fires[2]?.at, blockedBy: fires[1]?.jobId }] },
      ]);
      expect((await claim()).map((job) => job.id)).toEqual([fires[0]?.jobId]);
      expect(await view(fires[1]?.jobId as JobId)).toMatchObject({ hold: "overlap" });
    });

    it("replace under Replace what waits at once, and what runs when it has ended", async () => {
      const at = await declare("replacing", { spec: { ...spec, concurrencyPolicy: "Replace" } });
      const runs = step("replacing", at);
      await scene.store.applySteps([runs]);
      const [running] = await claim();
      const second = step("replacing", (await scene.under.readNextFire("replacing")) as Date);
      await scene.store.applySteps([second]);
      expect(await scene.store.settleOverlaps(10)).toEqual({ cancelled: 1, released: 0 });
      expect(await view(runs.fires[0]?.jobId as JobId)).toMatchObject({ state: "Processing", cancelRequested: true });
      const third = step("replacing", (await scene.under.readNextFire("replacing")) as Date);
      await scene.store.applySteps([third]);
      expect(await scene.store.settleOverlaps(10)).toEqual({ cancelled: 1, released: 0 });
      expect(await view(second.fires[0]?.jobId as JobId)).toMatchObject({ state: "Cancelled" });
      expect(await scene.store.settleOverlaps(10)).toEqual({ cancelled: 0, released: 0 });
      await scene.store.finishJob(
        worker,
        retryOf({ jobId: (running as ClaimedJob).id, token: (running as ClaimedJob).token }),
      );
      expect(await view(runs.fires[0]?.jobId as JobId)).toMatchObject({ state: "Cancelled" });
      expect(await scene.store.settleOverlaps(10)).toEqual({ cancelled: 0, released: 1 });
      expect((await claim()).map((job) => job.id)).toEqual([third.fires[0]?.jobId]);
    });

    it("start their job after the instant by as much as their jitter says, and stay known by the instant", async () => {
      const at = await declare("spread", { spec: { ...spec, concurrencyPolicy: "Allow" } });
      const jobId = ids.jobId();
      await scene.store.applySteps([{ ...step("spread", at), fires: [{ at, jobId, delayMs: 61_000 }] }]);
      const { state, dueInMs } = await view(jobId);
      expect(state).toBe("Scheduled");
      expect(dueInMs).toBeGreaterThan(50_000);
      expect(dueInMs).toBeLessThanOrEqual(60_000);
      expect(await claim()).toEqual([]);
      await scene.under.elapse(61_000);
      expect(await scene.store.promoteDue(10)).toMatchObject({ promoted: 1 });
      const [job] = await claim();
      expect(job?.schedule?.name).toBe("spread");
      const late = await declare("spread-late", { nextFireAt: new Date((await scene.under.now()).getTime() - 5_000) });
      await scene.store.applySteps([
        { ...step("spread-late", late), fires: [{ at: late, jobId: ids.jobId(), delayMs: 4_000 }] },
      ]);
      expect(await claim()).toHaveLength(1);
    });

    it("keep what a calendar left out, and up to when everything is decided", async () => {
      const at = await declare("resting");
      const skips = [{ at: new Date(at.getTime() - 60_000), reason: "calendar" as const }];
      expect((await scene.store.loadDueSchedules(10)).schedules[0]?.decidedUntil).toBeNull();
      await scene.store.applySteps([{ ...step("resting", at, { next: at }), skips, fires: [] }]);
      expect(await scene.under.readFires("resting")).toMatchObject([{ at: skips[0]?.at, outcome: "calendar" }]);
      const { now, schedules } = await scene.store.loadDueSchedules(10);
      const decidedUntil = schedules[0]?.decidedUntil ?? new Date(0);
      expect(Math.abs(decidedUntil.getTime() - now.getTime())).toBeLessThan(30_000);
    });

    it("record what was skipped, and how many more that were too many to name", async () => {
      const at = await declare("skipping");
      const [older, newer] = [120_000, 60_000].map((ms) => new Date(at.getTime() - ms)) as [Date, Date];
      const skips = [older, newer].map((skipped) => ({ at: skipped, reason: "superseded" as const }));
      await scene.store.applySteps([{ ...step("skipping", at), skips, olderSkips: 400 }]);
      expect(await scene.under.readFires("skipping")).toMatchObject([
        { at: older, outcome: "superseded", jobId: null, olderSkips: 400 },
        { at: newer, outcome: "superseded", jobId: null, olderSkips: 0 },
        { at, outcome: "fired", olderSkips: 0 },
      ]);
    });

    it("keep every step of a call apart: a stale one spoils none", async () => {
      const at = await declare("fresh");
      await declare("stale", { nextFireAt: at });
      const outcomes = await scene.store.applySteps([step("stale", new Date(at.getTime() - 1)), step("fresh", at)]);
      expect(outcomes.map(({ name, kind }) => [name, kind])).toEqual([
        ["stale", "stale"],
        ["fresh", "applied"],
      ]);
    });

    it("count from the finish of their run", async () => {
      const timing = { kind: "every", intervalMs: 40_000, from: "finish" } as const;
      const at = await declare("paced", { spec: { ...spec, timing } });
      await scene.store.applySteps([step("paced", at, { next: null })]);
      expect(await scene.under.readNextFire("paced")).toBeNull();
      expect(await scene.store.wakeFinishedSchedules()).toBe(0);
      const [job] = await claim();
      await scene.store.finishJob(
        worker,
        retryOf({ jobId: (job as ClaimedJob).id, token: (job as ClaimedJob).token }, { delayMs: 0 }),
      );
      expect(await scene.store.wakeFinishedSchedules()).toBe(0);
      await scene.store.promoteDue(10);
      const [again] = await claim();
      await scene.store.finishJob(
        worker,
        finishOf({ jobId: (again as ClaimedJob).id, token: (again as ClaimedJob).token }),
      );
      const finishedMs = (await scene.under.now()).getTime();
      expect(await scene.store.wakeFinishedSchedules()).toBe(1);
      const nextMs = ((await scene.under.readNextFire("paced")) as Date).getTime();
      expect(Math.abs(nextMs - (finishedMs + 40_000))).toBeLessThan(5_000);
      expect(await scene.store.wakeFinishedSchedules()).toBe(0);
      await scene.under.elapse(60_000);
      const [due] = (await scene.store.loadDueSchedules(10)).schedules;
      expect(
        await scene.store.applySteps([step("paced", (due as DueSchedule).nextFireAt, { next: null })]),
      ).toMatchObject([{ kind: "applied", fired: 1 }]);
    });

    it("that count from the finish of a run wait for none that never was", async () => {
      const timing = { kind: "every", intervalMs: 40_000, from: "finish" } as const;
      const at = await declare("ended", { spec: { ...spec, timing } });
      const skips = [{ at, reason: "calendar" as const }];
      expect(await scene.store.applySteps([{ ...step("ended", at, { next: null }), fires: [], skips }])).toMatchObject([
        { kind: "applied", fired: 0 },
      ]);
      expect(await scene.store.wakeFinishedSchedules()).toBe(0);
      expect(await scene.under.readNextFire("ended")).toBeNull();
    });

    it("fire by hand at once, whatever their timing, and leave the next fire as it is", async () => {
      const at = await declare("manual", { nextFireAt: new Date((await scene.under.now()).getTime() + 3_600_000) });
      const jobId = ids.jobId();
      expect(await scene.store.triggerSchedule("manual", jobId)).toBe(jobId);
      expect((await claim()).map((job) => job.id)).toEqual([jobId]);
      expect(await scene.under.readNextFire("manual")).toEqual(at);
      expect(await scene.under.readFires("manual")).toMatchObject([{ outcome: "manual", jobId }]);
      expect(await scene.store.triggerSchedule("unheard-of", ids.jobId())).toBeNull();
    });

    it("with runOnStart are done with a cold start on which they may not fire", async () => {
      await declare("resting", {
        spec: { ...spec, runOnStart: true },
        nextFireAt: new Date((await scene.under.now()).getTime() + 3_600_000),
      });
      expect(await scene.store.fireOnStart(ids.jobId, () => false)).toBe(0);
      expect(await scene.store.fireOnStart(ids.jobId)).toBe(0);
      expect(await claim()).toEqual([]);
    });

    it("with runOnStart fire once for a cold start of the installation", async () => {
      await declare("starting", {
        spec: { ...spec, runOnStart: true },
        nextFireAt: new Date((await scene.under.now()).getTime() + 3_600_000),
      });
      expect(await scene.store.fireOnStart(ids.jobId)).toBe(1);
      expect(await scene.store.fireOnStart(ids.jobId)).toBe(0);
      await register();
      expect(await scene.store.fireOnStart(ids.jobId)).toBe(0);
      const [job] = await claim();
      await scene.store.finishJob(
        worker,
        finishOf({ jobId: (job as ClaimedJob).id, token: (job as ClaimedJob).token }),
      );
      await scene.under.elapse(120_000);
      await register();
      expect(await scene.store.fireOnStart(ids.jobId)).toBe(1);
    });
  });
}
