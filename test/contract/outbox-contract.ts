import { describe, expect, it } from "vitest";
import type { JobId } from "../../runtime/core/ids.ts";
import type { RelayVerdict } from "../../runtime/protocol/ports/outbox.ts";
import type { BrokerMessage } from "../../runtime/protocol/ports/transport.ts";
import { finishOf, retryOf } from "./definitions.ts";
import { prepareWandering, wanderWithOutbox } from "./outbox-wander.ts";
import { owned, type Scene } from "./scene.ts";

const ANSWER = { agedMs: 60_000, againMs: 120_000, longestMs: 600_000 };
const SETTLED = { settledMs: 10_000, limit: 100 };

/** What is written for a broker, when it is given out, and how lost messages are found. */
export function outboxContract(scene: Scene): void {
  const { claimOne, insert, worker } = scene;

  describe("the outbox", () => {
    it("is empty while the database is the transport", async () => {
      await insert({}, {});
      expect(await scene.store.loadInstallation()).toMatchObject({ transport: "postgres" });
      expect(await scene.store.readOutbox()).toEqual({ messages: 0, oldestMs: null });
      expect(await relay()).toEqual([]);
    });

    it("has a message for each job that came into its queue, with its token, and none for one that is due later", async () => {
      await scene.store.setTransport("rabbitmq");
      const [first, second] = await insert({}, {}, { due: { afterMs: 60_000 } });
      const messages = await relay();
      expect(messages.map(jobOf)).toEqual([first, second]);
      expect(messages[0]).toMatchObject({ kind: "dispatch", queue: "default" });
      const [claimed] = await scene.claim({ limit: 1 });
      expect(messages[0]).toMatchObject({ token: claimed?.token });
      await scene.under.elapse(60_001);
      await scene.store.promoteDue(10);
      expect(await relay()).toHaveLength(1);
    });

    it("has a new message when a job comes into its queue again", async () => {
      await scene.store.setTransport("rabbitmq");
      const job = await claimOne();
      await relay();
      await scene.store.finishJob(worker, retryOf(owned(job), { delayMs: 0 }));
      expect(await relay()).toEqual([]);
      await scene.store.promoteDue(10);
      const [again] = await relay();
      expect(again).toMatchObject({ kind: "dispatch", jobId: job.id });
      expect(again?.kind === "dispatch" && again.token > job.token).toBe(true);
    });

    it("has a dead letter for what has failed for good, with its error, within a size", async () => {
      await scene.store.setTransport("rabbitmq");
      const job = await claimOne({ maxAttempts: 1 });
      await relay();
      const failure = {
        outcome: "failed",
        next: "Failed",
        reason: "failed",
        charge: "failure",
        error: "it failed",
      } as const;
      await scene.store.finishJob(worker, finishOf(owned(job), failure));
      const [letter, ...others] = await relay();
      expect(others).toEqual([]);
      expect(letter).toMatchObject({ kind: "dead-letter", jobId: job.id });
      if (letter?.kind !== "dead-letter") throw new Error("it is a dead letter");
      expect(letter.body).toMatchObject({ jobId: job.id, type: "work", queue: "default", error: "it failed" });
    });

    it("has nothing for what succeeds", async () => {
      await scene.store.setTransport("rabbitmq");
      const job = await claimOne();
      await relay();
      await scene.store.finishJob(worker, finishOf(owned(job)));
      expect(await relay()).toEqual([]);
    });

    it("is filled with what is in its queue when the transport becomes a broker, and emptied when it is the database again", async () => {
      await claimOne();
      const [waiting] = await insert({}, { due: { afterMs: 60_000 } });
      expect(await scene.store.setTransport("rabbitmq")).toBe(true);
      expect(await scene.store.setTransport("rabbitmq")).toBe(false);
      expect(await scene.store.loadInstallation()).toMatchObject({ transport: "rabbitmq" });
      expect((await relay("keep")).map(jobOf)).toEqual([waiting]);
      expect(await scene.store.setTransport("servicebus")).toBe(true);
      expect((await relay("keep")).map(jobOf)).toEqual([waiting]);
      expect(await scene.store.setTransport("postgres")).toBe(true);
      expect(await scene.store.readOutbox()).toEqual({ messages: 0, oldestMs: null });
      await insert({});
      expect(await scene.store.readOutbox()).toEqual({ messages: 0, oldestMs: null });
    });

    it("keeps what was not confirmed, in its order, and lets others by what was put off", async () => {
      await scene.store.setTransport("rabbitmq");
      const [first, second] = await insert({}, {});
      const [third] = await insert({});
      expect((await relay("keep")).map(jobOf)).toEqual([first, second, third]);
      const seen: (JobId | null)[] = [];
      const batch = await scene.store.relayBatch(2, async (messages) => {
        seen.push(...messages.map(jobOf));
        return ["put-off", "keep"];
      });
      expect(seen).toEqual([first, second]);
      expect(batch).toEqual({ taken: 2, removed: 0 });
      expect((await relay("keep")).map(jobOf)).toEqual([second, third]);
      await scene.under.elapse(1_500);
      expect((await relay("put-off")).map(jobOf).toSorted()).toEqual([first, second, third].toSorted());
      await scene.under.elapse(1_500);
      expect((await relay("keep")).map(jobOf).toSorted()).toEqual([second, third].toSorted());
      await scene.under.elapse(1_000);
      expect(await relay()).toHaveLength(3);
      expect(await relay()).toEqual([]);
    });

    it("has had a message for every job that is in its queue, with its present token, whatever happened in whatever order", async () => {
      await prepareWandering(scene);
      const made = new Set<string>();
      for (const seed of [21, 22, 23, 24]) for (const move of await wanderWithOutbox(scene, seed)) made.add(move);
      expect(made.size).toBe(16);
    });

    it("tells how many wait and how long the oldest does", async () => {
      await scene.store.setTransport("rabbitmq");
      await insert({});
      await scene.under.elapse(90_000);
      await insert({});
      const { messages, oldestMs } = await scene.store.readOutbox();
      expect(messages).toBe(2);
      expect(oldestMs).toBeGreaterThanOrEqual(90_000);
      expect(oldestMs).toBeLessThan(120_000);
    });

    it("is relayed by one at a time", async () => {
      await scene.store.setTransport("rabbitmq");
      await insert({});
      let inner: unknown = "not asked";
      await scene.store.relayBatch(10, async (messages) => {
        inner = await scene.store.relayBatch(10, async () => []);
        return messages.map(() => "remove");
      });
      expect(inner).toBeNull();
      expect(await scene.store.relayBatch(10, async () => [])).toEqual({ taken: 0, removed: 0 });
    });
  });

  describe("messages that the broker has lost", () => {
    it("are found by a marker behind them, and written again with the same token", async () => {
      await scene.store.setTransport("rabbitmq");
      const [lost] = await insert({});
      const [before] = await relay();
      await scene.under.elapse(61_000);
      expect(await scene.store.writeMarkers(ANSWER)).toBe(1);
      expect(await scene.store.writeMarkers(ANSWER)).toBe(0);
      const [marker] = await relay();
      expect(marker).toMatchObject({ kind: "marker", queue: "default" });
      await scene.under.elapse(3_600_000);
      expect(await scene.store.redispatchJobs(SETTLED)).toBeNull();
      await consume(marker);
      expect(await scene.store.redispatchJobs(SETTLED)).toBeNull();
      await scene.under.elapse(10_001);
      expect(await scene.store.redispatchJobs(SETTLED)).toEqual({ queue: "default", jobs: 1 });
      expect(await scene.store.redispatchJobs(SETTLED)).toBeNull();
      expect(await relay()).toEqual([before]);
      expect(jobOf(before)).toBe(lost);
    });

    it("are not suspected for their age, nor before they have left the outbox", async () => {
      await scene.store.setTransport("rabbitmq");
      await insert({});
      await scene.under.elapse(3_600_000);
      expect(await scene.store.writeMarkers(ANSWER)).toBe(0);
      expect(await scene.store.redispatchJobs(SETTLED)).toBeNull();
      await relay();
      await insert({});
      expect(await scene.store.writeMarkers(ANSWER)).toBe(1);
      expect(await scene.store.redispatchJobs(SETTLED)).toBeNull();
    });

    it("are not those that came into the queue after the marker, have begun, or belong to another queue", async () => {
      await scene.store.setTransport("rabbitmq");
      const [begun, lost] = await insert({ priority: 100 }, {});
      const [elsewhere] = await insert({ queue: "other" });
      await relay();
      await scene.under.elapse(61_000);
      expect(await scene.store.writeMarkers(ANSWER)).toBe(2);
      const markers = await relay();
      await insert({});
      await relay();
      expect((await scene.claim({ limit: 1 })).map(({ id }) => id)).toEqual([begun]);
      await consume(markers.find((marker) => marker.kind === "marker" && marker.queue === "default"));
      await scene.under.elapse(61_000);
      expect(await scene.store.redispatchJobs(SETTLED)).toEqual({ queue: "default", jobs: 1 });
      const again = (await relay()).map(jobOf);
      expect(again).toEqual([lost]);
      expect(again).not.toContain(elsewhere);
    });

    it("are written once, however many markers were under way", async () => {
      await scene.store.setTransport("rabbitmq");
      await insert({});
      await relay();
      await scene.under.elapse(61_000);
      await scene.store.writeMarkers(ANSWER);
      await scene.under.elapse(120_001);
      await scene.store.writeMarkers(ANSWER);
      const [first, second] = await relay();
      await consume(first);
      await scene.under.elapse(10_001);
      expect(await scene.store.redispatchJobs(SETTLED)).toMatchObject({ jobs: 1 });
      await relay();
      await consume(second);
      await scene.under.elapse(10_001);
      expect(await scene.store.redispatchJobs(SETTLED)).toBeNull();
    });

    it("are written in portions, each once", async () => {
      await scene.store.setTransport("rabbitmq");
      const ids = await insert({}, {}, {}, {}, {});
      await relay();
      await scene.under.elapse(61_000);
      await scene.store.writeMarkers(ANSWER);
      const [marker] = await relay();
      await consume(marker);
      await scene.under.elapse(10_001);
      const found: (JobId | null)[] = [];
      for (let shown = await portion(); shown !== null; shown = await portion()) {
        expect(shown.jobs).toBeLessThanOrEqual(2);
        found.push(...(await relay()).map(jobOf));
      }
      expect(found.toSorted()).toEqual([...ids].toSorted());
    });

    it("are not looked for where the queue's limit or pause keeps jobs from being claimed by their messages", async () => {
      await scene.store.setTransport("rabbitmq");
      await scene.under.declareQueue({ name: "narrow", concurrency: 1, suspended: false });
      await insert({ queue: "narrow" });
      await relay();
      await scene.under.elapse(61_000);
      expect(await scene.store.writeMarkers(ANSWER)).toBe(0);
    });

    it("are written once a minute at most, whatever comes out of the queue", async () => {
      await scene.store.setTransport("rabbitmq");
      await insert({});
      await relay();
      await scene.under.elapse(61_000);
      let written = 0;
      for (let round = 0; round < 30; round += 1) {
        await scene.store.writeMarkers(ANSWER);
        for (const message of await relay()) if (message.kind === "marker") await consume(message);
        await scene.under.elapse(10_001);
        written += (await scene.store.redispatchJobs(SETTLED))?.jobs ?? 0;
      }
      expect(written).toBe(5);
    });

    it("are looked for again when the marker was lost too, less and less often", async () => {
      await scene.store.setTransport("rabbitmq");
      await insert({});
      await relay();
      await scene.under.elapse(61_000);
      const written: number[] = [];
      for (let minute = 0; minute < 60; minute += 1) {
        if ((await scene.store.writeMarkers(ANSWER)) > 0) written.push(minute);
        await relay();
        await scene.under.elapse(60_000);
      }
      expect(written[0]).toBe(0);
      expect(written.length).toBeGreaterThan(5);
      expect(written.length).toBeLessThan(12);
    });

    it("make nothing of a marker that is not known", async () => {
      await scene.store.consumeMarker("4711");
      await scene.store.consumeMarker("not a marker");
      expect(await scene.store.redispatchJobs({ settledMs: 0, limit: 10 })).toBeNull();
    });
  });

  function portion() {
    return scene.store.redispatchJobs({ settledMs: 10_000, limit: 2 });
  }

  async function consume(marker: BrokerMessage | undefined): Promise<void> {
    if (marker?.kind !== "marker") throw new Error("it is no marker");
    await scene.store.consumeMarker(marker.marker);
  }

  /** Everything that is due, in order. */
  async function relay(verdict: RelayVerdict = "remove"): Promise<readonly BrokerMessage[]> {
    const published: BrokerMessage[] = [];
    await scene.store.relayBatch(1_000, async (messages) => {
      published.push(...messages);
      return messages.map(() => verdict);
    });
    return published;
  }
}

function jobOf(message: BrokerMessage | undefined): JobId | null {
  return message === undefined || message.kind === "marker" ? null : message.jobId;
}
