import { describe, expect, it } from "vitest";
import { RingShare } from "../../runtime/adapters/postgres/ring-share.ts";

describe("the share of inserts that ring with their own commit", () => {
  it("rests as long as the last ring took", () => {
    const share = new RingShare();
    expect(share.begin(100)).toBe(true);
    share.end(102);
    expect(share.begin(103.9)).toBe(false);
    expect(share.begin(104)).toBe(true);
  });

  it("never has two under way", () => {
    const share = new RingShare();
    expect(share.begin(0)).toBe(true);
    expect(share.begin(1_000)).toBe(false);
    share.end(1_000);
    expect(share.begin(2_000)).toBe(true);
  });

  it("gives at most half of the time to rings, however long each takes", () => {
    for (const tookMs of [0.5, 7, 60]) {
      const share = new RingShare();
      let inRingsMs = 0;
      for (let nowMs = 0; nowMs < 1_000; nowMs += 0.1) {
        if (!share.begin(nowMs)) continue;
        share.end(nowMs + tookMs);
        inRingsMs += tookMs;
      }
      expect(inRingsMs).toBeGreaterThan(400);
      expect(inRingsMs).toBeLessThanOrEqual(500 + 2 * tookMs);
    }
  });
});
