import { expect, test } from "vitest";
import { createCredit } from "../../runtime/adapters/rabbitmq/credit.ts";

/** A broker's side: keeps each consumer at its prefetch, as RabbitMQ does. */
function play(allowed: number) {
  const handed: { id: number; consumer: number }[] = [];
  const returned: number[] = [];
  const begun: number[] = [];
  const unsettled = new Map<number, number>();
  let consumer = 0;
  let prefetch = 0;
  let next = 0;
  const credit = createCredit<{ id: number; consumer: number }>(
    allowed,
    (message) => message.consumer === consumer && prefetch > 0,
    {
      hand: (message) => handed.push(message),
      acknowledge: ({ id }) => void unsettled.delete(id),
      giveBack: ({ id }) => {
        unsettled.delete(id);
        returned.push(id);
      },
      end: () => {
        prefetch = 0;
      },
      begin: (count) => {
        consumer += 1;
        prefetch = count;
        begun.push(count);
      },
    },
  );
  const push = (): void => {
    const used = () => [...unsettled.values()].filter((owner) => owner === consumer).length;
    while (used() < prefetch) {
      next += 1;
      unsettled.set(next, consumer);
      credit.arrived({ id: next, consumer });
    }
  };
  credit.resize();
  push();
  return { credit, handed, returned, begun, push, unsettled };
}

test("what is settled makes room for one more", () => {
  const { credit, handed, push } = play(2);
  expect(handed.length).toBe(2);
  credit.acknowledged(handed[0] as never);
  push();
  expect([handed.length, credit.open]).toEqual([3, 2]);
});

test("with less allowed, acknowledgements are held back so that the broker sends nothing beyond it", () => {
  const { credit, handed, push, unsettled } = play(3);
  credit.allow(1);
  for (const message of handed.slice(0, 3)) credit.acknowledged(message);
  push();
  // Two stay unsettled for the broker, and the third has made room for one.
  expect([handed.length, credit.open, unsettled.size]).toEqual([4, 1, 3]);
  expect(credit.isOversized()).toBe(true);
  credit.allow(3);
  push();
  expect([handed.length, credit.isOversized()]).toEqual([6, false]);
});

test("a resize ends the consumer before it sends what was held back", () => {
  const { credit, handed, push, begun, unsettled } = play(3);
  credit.allow(0);
  for (const message of handed) credit.acknowledged(message);
  credit.resize();
  push();
  expect([handed.length, unsettled.size, begun]).toEqual([3, 0, [3]]);
  credit.allow(2);
  expect(credit.isUndersized()).toBe(true);
  credit.resize();
  push();
  expect([handed.length, begun, credit.isUndersized()]).toEqual([5, [3, 2], false]);
});

test("deliveries of an ended consumer count, and use nothing of the one that is", () => {
  const { credit, handed, push, begun } = play(2);
  credit.allow(5);
  credit.resize();
  push();
  expect([handed.length, credit.open, begun]).toEqual([5, 5, [2, 3]]);
  expect(credit.isUndersized()).toBe(false);
  credit.acknowledged(handed[0] as never);
  expect(credit.isUndersized()).toBe(true);
});

test("what arrives beyond what is allowed waits, and is given back when there is still no room", () => {
  const { credit, handed, returned } = play(1);
  credit.allow(0);
  credit.arrived({ id: 100, consumer: 1 });
  expect([handed.length, returned]).toEqual([1, []]);
  credit.resize();
  expect([handed.length, returned]).toEqual([1, [100]]);
});

test("what is released by one without room does not come back to it", () => {
  const { credit, handed, push, returned } = play(1);
  credit.allow(0);
  credit.released(handed[0] as never);
  push();
  expect([handed.length, returned, credit.open]).toEqual([1, [1], 0]);
});

test("after the stop nothing is handed over, and what is open can be settled", () => {
  const { credit, handed, returned, unsettled } = play(2);
  credit.stop();
  credit.arrived({ id: 100, consumer: 1 });
  expect([handed.length, returned]).toEqual([2, [100]]);
  credit.acknowledged(handed[0] as never);
  credit.acknowledged(handed[1] as never);
  expect([credit.open, unsettled.size]).toEqual([0, 0]);
});
