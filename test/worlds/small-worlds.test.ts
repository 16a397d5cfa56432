import { describe, expect, it } from "vitest";
import { explore } from "./explore.ts";
import { SMALL_WORLDS } from "./main.ts";

describe("small worlds", () => {
  it.each(SMALL_WORLDS)("hold no violation: $name", { timeout: 300_000 }, async (world) => {
    const { violation, states, steps } = await explore(world, world.quick);
    expect(violation).toBeNull();
    expect(states).toBeGreaterThan(50);
    expect(steps).toBeGreaterThan(states - 1);
  });

  it("come to the same states every time", async () => {
    const [world] = SMALL_WORLDS;
    if (world === undefined) throw new Error("there are no worlds");
    expect(await explore(world, 3)).toEqual(await explore(world, 3));
  });

  it("begin where their names say", () => {
    const names = SMALL_WORLDS.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    for (const { quick, deep } of SMALL_WORLDS) expect(deep).toBeGreaterThan(quick);
  });
});
