import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { DispatchToken, JobId } from "../../runtime/core/ids.ts";
import type { BrokerMessage, Delivery, DispatchMessage } from "../../runtime/protocol/ports/transport.ts";
import type { BrokerProcess, BrokerUnderTest } from "./broker-under-test.ts";

const LIMIT_MS = 25_000;
const EMAIL = "email";

/** The behaviour of every broker behind the port. */
export function brokerContract(name: string, makeBroker: () => Promise<BrokerUnderTest>): void {
  describe(`the broker contract on ${name}`, { timeout: 60_000 }, () => {
    let under: BrokerUnderTest;
    let installation: string;
    let installations = 0;

    beforeEach(async () => {
      under = await makeBroker();
      installations += 1;
      installation = `t${installations}x${process.pid}x${Math.floor(performance.now())}`;
    });
    afterEach(() => under.close());

    const open = (): Promise<BrokerProcess> => under.open(installation);
    const until = async (what: string, look: () => boolean | Promise<boolean>): Promise<void> => {
      const deadline = performance.now() + LIMIT_MS;
      while (!(await look())) {
        if (performance.now() > deadline) throw new Error(`it did not happen in time: ${what}`);
        await under.pass();
      }
    };
    const passSome = async (): Promise<void> => {
      for (let step = 0; step < 10; step += 1) await under.pass();
    };
    const confirm = async ({ broker }: BrokerProcess, ...messages: BrokerMessage[]): Promise<void> => {
      expect(await broker.publish(messages)).toEqual(messages.map(() => "confirmed"));
    };
    const consume = (process: BrokerProcess, prefetch: number, queue = EMAIL) => {
      const deliveries: Delivery[] = [];
      const subscription = process.broker.subscribe(queue, prefetch, (delivery) => deliveries.push(delivery));
      return {
        ...subscription,
        deliveries,
        tokens: () => deliveries.map(({ message }) => (message.kind === "dispatch" ? Number(message.token) : -1)),
        get: async (count: number): Promise<readonly Delivery[]> => {
          await until(`${count} deliveries`, () => deliveries.length >= count);
          return deliveries;
        },
      };
    };
    const waits = async (process: BrokerProcess, count: number, queue = EMAIL): Promise<void> => {
      if (!under.countsWaitingOnly) return passSome();
      await until(`${count} messages that wait`, async () => (await process.broker.depth(queue)) === count);
    };

    describe("publishing", () => {
      it("answers for each message, and each of them arrives as it was sent", async () => {
        const [server, worker] = [await open(), await open()];
        const messages: BrokerMessage[] = [
          { ...dispatch(1), token: (2n ** 62n + 1n) as DispatchToken },
          { kind: "marker", marker: "m-1", queue: EMAIL },
          dispatch(3),
        ];
        await confirm(server, ...messages);
        const { deliveries, get } = consume(worker, 10);
        await get(3);
        expect(deliveries.map(({ message }) => message)).toEqual(messages);
      });

      it("of nothing answers with nothing", async () => {
        expect(await (await open()).broker.publish([])).toEqual([]);
      });

      it("keeps what nobody consumes yet, and counts it where that is known", async () => {
        const server = await open();
        await confirm(server, dispatch(1), dispatch(2));
        if (under.knowsDepth) await until("two messages", async () => (await server.broker.depth(EMAIL)) === 2);
        else expect(await server.broker.depth(EMAIL)).toBeNull();
        await consume(await open(), 2).get(2);
      });

      it("leaves the queues of other names and other installations alone", async () => {
        const [server, worker] = [await open(), await open()];
        const stranger = await under.open(`${installation}b`);
        const [ours, other, theirs] = [consume(worker, 9), consume(worker, 9, "reports"), consume(stranger, 9)];
        await confirm(server, dispatch(1), { ...dispatch(2), queue: "reports" });
        await confirm(stranger, dispatch(3));
        await Promise.all([ours.get(1), other.get(1), theirs.get(1)]);
        await passSome();
        expect([ours.tokens(), other.tokens(), theirs.tokens()]).toEqual([[1], [2], [3]]);
      });

      it("says that a message reached no queue, and makes the queue for the next one", async () => {
        if (under.removeQueue === null) return expect(under.removeQueue).toBeNull();
        const server = await open();
        await confirm(server, dispatch(1), { ...dispatch(2), queue: "reports" });
        await under.removeQueue(installation, EMAIL);
        const outcomes = await server.broker.publish([dispatch(3), { ...dispatch(4), queue: "reports" }]);
        expect(outcomes).toEqual(["unroutable", "confirmed"]);
        await confirm(server, dispatch(3));
        await waits(server, 1);
      });

      it("does not know the outcome while there is no way to the broker, and confirms again after it", async () => {
        const server = await open();
        await confirm(server, dispatch(1));
        await server.isolate();
        expect(await server.broker.publish([dispatch(2), dispatch(3)])).toEqual(["unknown", "unknown"]);
        await until("away", () => server.broker.condition().state === "away");
        expect(server.broker.condition().reason).toMatch(/\w/);
        expect(await server.broker.depth(EMAIL)).toBeNull();
        await server.mend();
        await until("a confirmation", async () => (await server.broker.publish([dispatch(4)]))[0] === "confirmed");
        expect(server.broker.condition()).toEqual({ state: "connected", reason: null });
      });

      it("does not know the outcome of what was on its way when the connection broke", async () => {
        const server = await open();
        await confirm(server, dispatch(1));
        await server.silence();
        const outcomes = server.broker.publish([dispatch(2), dispatch(3)]);
        await passSome();
        await server.cut();
        expect(await outcomes).toEqual(["unknown", "unknown"]);
        await server.mend();
        await until("a confirmation", async () => (await server.broker.publish([dispatch(4)]))[0] === "confirmed");
      });

      it("puts a dead letter where other systems find it", async () => {
        const server = await open();
        await confirm(server, { kind: "dead-letter", jobId: jobId(1), body: { type: "a.b", error: "no" } });
        await until("the letter", async () => (await under.readDeadLetters(installation)).length === 1);
        const [text = ""] = await under.readDeadLetters(installation);
        expect(JSON.parse(text)).toMatchObject({ jobId: jobId(1), body: { type: "a.b", error: "no" } });
      });

      it("knows that the broker takes nothing for now, while deliveries go on", async () => {
        if (under.block === null) return expect(under.block).toBeNull();
        const [server, worker] = [await open(), await open()];
        const { get } = consume(worker, 1);
        await confirm(server, dispatch(1), dispatch(2));
        await under.block(true);
        await until("blocked", async () => {
          await server.broker.publish([dispatch(3)]);
          return server.broker.condition().state === "blocked";
        });
        expect(server.broker.condition().reason).toMatch(/\w/);
        const [first] = await get(1);
        await first?.acknowledge();
        await get(2);
        await under.block(false);
        await until("a confirmation", async () => (await server.broker.publish([dispatch(4)]))[0] === "confirmed");
        expect(server.broker.condition().state).toBe("connected");
      });
    });

    describe("a subscription", () => {
      it("gives in their order what was published before and after it", async () => {
        const [server, worker] = [await open(), await open()];
        await confirm(server, dispatch(1), dispatch(2));
        const { get, tokens } = consume(worker, 10);
        await get(2);
        await confirm(server, dispatch(3));
        await get(3);
        expect(tokens()).toEqual([1, 2, 3]);
      });

      it("holds no more than its prefetch, gets one for each that is settled, and more when more are allowed", async () => {
        const [server, worker] = [await open(), await open()];
        await confirm(server, ...dispatches(1, 10));
        const { get, deliveries, prefetch } = consume(worker, 2);
        await get(2);
        await waits(server, 8);
        expect(deliveries.length).toBe(2);
        await deliveries[0]?.acknowledge();
        await get(3);
        await waits(server, 7);
        expect(deliveries.length).toBe(3);
        prefetch(5);
        await get(6);
        await waits(server, 4);
        expect(deliveries.length).toBe(6);
      });

      it("of a busy worker takes nothing, whatever that acknowledges, until it has room again", async () => {
        const [server, worker] = [await open(), await open()];
        await confirm(server, ...dispatches(1, 6));
        const { get, deliveries, prefetch } = consume(worker, 3);
        await get(3);
        prefetch(0);
        for (const delivery of deliveries) await delivery.acknowledge();
        const other = consume(await open(), 10);
        await other.get(3);
        expect(deliveries.length).toBe(3);
        expect([...other.tokens()].sort()).toEqual([4, 5, 6]);
        prefetch(1);
        for (const delivery of other.deliveries) await delivery.acknowledge();
        await other.stop();
        await confirm(server, dispatch(7));
        await get(4);
        expect(deliveries.at(-1)?.message).toEqual(dispatch(7));
      });

      it("gives what a dead process did not acknowledge to another, and nothing that it did", async () => {
        const [server, worker, other] = [await open(), await open(), await open()];
        await confirm(server, ...dispatches(1, 3));
        const lost = consume(worker, 10);
        const [first] = await lost.get(3);
        await first?.acknowledge();
        await waits(server, 0);
        await passSome();
        await worker.kill();
        const { get, tokens } = consume(other, 10);
        await get(2);
        await passSome();
        expect([...tokens()].sort()).toEqual([2, 3]);
      });

      it("does not take an acknowledgement of a lost connection for one of the delivery that came again", async () => {
        const [server, worker, other] = [await open(), await open(), await open()];
        await confirm(server, dispatch(1));
        const { get, deliveries } = consume(worker, 1);
        const [old] = await get(1);
        await worker.cut();
        await get(2);
        await old?.acknowledge();
        await old?.release();
        await passSome();
        expect(deliveries.length).toBe(2);
        await worker.kill();
        await consume(other, 1).get(1);
      });

      it("settles a delivery once, whatever is called after it", async () => {
        const [server, worker] = [await open(), await open()];
        await confirm(server, ...dispatches(1, 3));
        const { get, deliveries } = consume(worker, 1);
        const [first] = await get(1);
        await first?.acknowledge();
        await get(2);
        await first?.acknowledge();
        await first?.release();
        await passSome();
        expect(deliveries.length).toBe(2);
        await deliveries[1]?.release();
        await get(3);
        expect(deliveries[2]?.message).toEqual(dispatch(2));
      });

      it("goes on over a lost connection", async () => {
        const [server, worker] = [await open(), await open()];
        const { get, deliveries } = consume(worker, 10);
        await confirm(server, dispatch(1));
        const [first] = await get(1);
        await first?.acknowledge();
        await worker.isolate();
        await confirm(server, dispatch(2));
        await passSome();
        await worker.mend();
        await until("the message", () =>
          deliveries.some(({ message }) => message.kind === "dispatch" && message.token === 2n),
        );
      });

      it("goes on when its queue was deleted", async () => {
        if (under.removeQueue === null) return expect(under.removeQueue).toBeNull();
        const [server, worker] = [await open(), await open()];
        const { get } = consume(worker, 10);
        await confirm(server, dispatch(1));
        await get(1);
        await under.removeQueue(installation, EMAIL);
        await until("a confirmation", async () => (await server.broker.publish([dispatch(2)]))[0] === "confirmed");
        await get(2);
      });

      it("that releases a delivery leaves it to anybody", async () => {
        const [server, worker, other] = [await open(), await open(), await open()];
        await confirm(server, dispatch(1));
        const { get, prefetch } = consume(worker, 1);
        const [delivery] = await get(1);
        prefetch(0);
        const second = consume(other, 1);
        await delivery?.release();
        await second.get(1);
        expect(second.tokens()).toEqual([1]);
      });

      it("that was stopped gives no more, and lets those that are open be acknowledged", async () => {
        const [server, worker, other] = [await open(), await open(), await open()];
        await confirm(server, ...dispatches(1, 4));
        const { get, deliveries, stop } = consume(worker, 2);
        const [first, second] = await get(2);
        await stop();
        await first?.acknowledge();
        const { get: getElse, tokens } = consume(other, 10);
        await getElse(2);
        await second?.acknowledge();
        await passSome();
        await worker.kill();
        await passSome();
        expect(deliveries.length).toBe(2);
        expect([...tokens()].sort()).toEqual([3, 4]);
      });

      it("puts what it cannot read in the error queue and goes on", async () => {
        const [server, worker] = [await open(), await open()];
        await confirm(server, dispatch(1));
        const texts = [
          "",
          "not json",
          '{"v":1,"kind":"dispatch","queue":"email","jobId":"7","token":"1"}',
          '{"v":99}',
          '"\\u0000"',
        ];
        for (const text of texts) await under.putText(installation, EMAIL, text);
        await confirm(server, dispatch(2));
        const { get, tokens, deliveries } = consume(worker, 1);
        await get(1);
        await deliveries[0]?.acknowledge();
        await get(2);
        await deliveries[1]?.acknowledge();
        expect(tokens()).toEqual([1, 2]);
        await until("the texts", async () => (await under.readErrors(installation)).length === texts.length);
        expect(await under.readErrors(installation)).toEqual(texts);
      });

      it("delivers each of a thousand messages at least once, over connections that break again and again", async () => {
        const [server, worker, other] = [await open(), await open(), await open()];
        const seen = new Set<bigint>();
        for (const process of [worker, other]) {
          process.broker.subscribe(EMAIL, 20, ({ message, acknowledge }) => {
            if (message.kind === "dispatch") seen.add(message.token);
            void acknowledge();
          });
        }
        const unpublished = new Map(dispatches(1, 1_000).map((message) => [message.token, message]));
        for (let round = 0; unpublished.size > 0; round += 1) {
          const batch = [...unpublished.values()].slice(0, 200);
          const outcomes = server.broker.publish(batch);
          if (round < 4) await [server, worker, other][round % 3]?.cut();
          (await outcomes).forEach((outcome, index) => {
            const token = batch[index]?.token;
            if (outcome === "confirmed" && token !== undefined) unpublished.delete(token);
          });
          await under.pass();
        }
        await until("every message", () => seen.size === 1_000);
      });
    });

    describe("closing", () => {
      it("leaves what was not acknowledged to others, and nothing that was", async () => {
        const [server, worker, other] = [await open(), await open(), await open()];
        await confirm(server, dispatch(1), dispatch(2));
        const [first] = await consume(worker, 2).get(2);
        await first?.acknowledge();
        await worker.broker.close();
        const { get, tokens } = consume(other, 2);
        await get(1);
        await passSome();
        expect(tokens()).toEqual([2]);
      });

      it("comes to its end although the broker does not answer", async () => {
        const worker = await open();
        await confirm(worker, dispatch(1));
        const { get } = consume(worker, 1);
        const [delivery] = await get(1);
        await worker.silence();
        const outcome = worker.broker.publish([dispatch(2)]);
        const began = performance.now();
        await worker.broker.close();
        expect(performance.now() - began).toBeLessThan(10_000);
        expect(await outcome).toEqual(["unknown"]);
        await delivery?.acknowledge();
        expect(await worker.broker.publish([dispatch(3)])).toEqual(["unknown"]);
        expect(worker.broker.condition().state).toBe("away");
        await worker.mend();
      });

      it("comes to its end while there is no way to the broker, and twice", async () => {
        const worker = await open();
        await worker.isolate();
        await worker.broker.close();
        await worker.broker.close();
        expect(worker.broker.condition().state).toBe("away");
      });
    });
  });
}

function dispatch(token: number): DispatchMessage {
  return { kind: "dispatch", jobId: jobId(token), token: BigInt(token) as DispatchToken, queue: EMAIL };
}

function dispatches(first: number, last: number): readonly DispatchMessage[] {
  return Array.from({ length: last - first + 1 }, (_, index) => dispatch(first + index));
}

function jobId(number: number): JobId {
  return `01900000-0000-7000-8000-${String(number).padStart(12, "0")}` as JobId;
}
