import { expect, test } from "vitest";
import { createSlots } from "../../runtime/adapters/servicebus/slots.ts";

/** A service that has any number of messages, and gives receivers as many as they ask for when it is told to. */
function startService(allowed: number) {
  const log: string[] = [];
  const retired = new Set<number>();
  let receiver = 0;
  let asked = 0;
  let messages = 0;
  const slots = createSlots<{ readonly id: number; readonly from: number }>(allowed, ({ from }) => !retired.has(from), {
    hand: ({ id }) => log.push(`hand ${id}`),
    giveBack: ({ id }) => log.push(`back ${id}`),
    processed({ from }) {
      if (!retired.has(from)) asked += 1;
    },
    begin(size) {
      receiver += 1;
      asked += size;
      log.push(`begin ${size}`);
    },
    retire() {
      for (let each = 1; each <= receiver; each += 1) retired.add(each);
      asked = 0;
      log.push("retire");
    },
  });
  return {
    slots,
    asked: () => asked,
    log: () => log.splice(0),
    bring() {
      if (!retired.has(receiver)) asked -= 1;
      messages += 1;
      const message = { id: messages, from: receiver };
      slots.arrived(message);
      return message;
    },
  };
}

test("a receiver asks for what is allowed, and for one more with each message that is settled", () => {
  const { slots, asked, bring, log } = startService(2);
  slots.widen();
  const first = bring();
  bring();
  expect([asked(), slots.open, slots.isUndersized(), slots.isOversized()]).toEqual([0, 2, false, false]);
  slots.acknowledged(first);
  expect([asked(), slots.open]).toEqual([1, 1]);
  expect(log()).toEqual(["begin 2", "hand 1", "hand 2"]);
});

test("less is taken by not telling the receiver, and more by telling it before a further one begins", () => {
  const { slots, asked, bring, log } = startService(3);
  slots.widen();
  const brought = [bring(), bring(), bring()];
  slots.allow(0);
  for (const message of brought) slots.acknowledged(message);
  expect([asked(), slots.isUndersized(), slots.isOversized()]).toEqual([0, false, false]);
  slots.allow(2);
  expect([asked(), slots.isUndersized()]).toEqual([2, false]);
  slots.allow(5);
  expect([asked(), slots.isUndersized()]).toEqual([3, true]);
  slots.widen();
  expect(asked()).toBe(5);
  expect(log().filter((line) => line.startsWith("begin"))).toEqual(["begin 3", "begin 2"]);
});

test("what arrives beyond what is allowed waits for a slot, and is given back when that takes long", () => {
  const { slots, asked, bring, log } = startService(2);
  slots.widen();
  const first = bring();
  slots.allow(1);
  bring();
  expect(slots.isOversized()).toBe(true);
  slots.acknowledged(first);
  expect(log()).toEqual(["begin 2", "hand 1", "hand 2"]);
  slots.allow(2);
  bring();
  slots.allow(0);
  slots.resize();
  expect([asked(), slots.open, slots.isOversized()]).toEqual([0, 2, false]);
  slots.allow(3);
  expect(slots.isUndersized()).toBe(true);
});

test("a receiver that asks for too much is retired before a message is given back to its queue", () => {
  const { slots, bring, log } = startService(2);
  slots.widen();
  const first = bring();
  slots.allow(0);
  slots.releasing();
  slots.released(first);
  expect(log()).toEqual(["begin 2", "hand 1", "retire"]);
  const late = bring();
  expect(log()).toEqual([`back ${late.id}`]);
  expect(slots.open).toBe(0);
});

test("after the stop nothing is handed out and nothing more is asked for", () => {
  const { slots, asked, bring, log } = startService(2);
  slots.widen();
  const first = bring();
  slots.stop();
  bring();
  slots.acknowledged(first);
  expect([asked(), slots.open, slots.isUndersized()]).toEqual([0, 0, false]);
  expect(log()).toEqual(["begin 2", "hand 1", "retire", "back 2"]);
});
