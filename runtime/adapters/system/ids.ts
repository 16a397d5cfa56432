import { randomFillSync, randomUUID } from "node:crypto";
import type { JobId, WorkerId } from "../../core/ids.ts";
import type { Ids } from "../../protocol/ports/surroundings.ts";

/** The two sources UUIDs are made of; handed in by tests. */
export interface IdSources {
  wallMs(): number;
  fillRandom(bytes: Uint8Array): void;
}

const COUNTER_LIMIT = 0x1000;
/** A new millisecond starts its counter in the lower half, which leaves at least 2048 ids before it borrows the next. */
const COUNTER_START_MASK = 0x07ff;

/**
 * UUIDv7 that only grows inside one process (RFC 9562, 6.2 method 1: the 12 bits after the version count): ids sort in
 * the order they were made, also within a millisecond and when the wall clock steps back.
 */
export function createIds(
  sources: IdSources = { wallMs: () => Date.now(), fillRandom: (bytes) => randomFillSync(bytes) },
): Ids {
  const bytes = new Uint8Array(16);
  let lastMs = -1;
  let counter = 0;
  return {
    jobId() {
      sources.fillRandom(bytes);
      const nowMs = sources.wallMs();
      counter += 1;
      if (nowMs > lastMs || counter === COUNTER_LIMIT) {
        lastMs = Math.max(nowMs, lastMs + 1);
        counter = (((bytes[6] ?? 0) << 8) | (bytes[7] ?? 0)) & COUNTER_START_MASK;
      }
      writeTime(bytes, lastMs);
      bytes[6] = 0x70 | (counter >> 8);
      bytes[7] = counter & 0xff;
      bytes[8] = 0x80 | ((bytes[8] ?? 0) & 0x3f);
      return formatUuid(bytes) as JobId;
    },
    workerId: () => randomUUID() as string as WorkerId,
  };
}

export const systemIds: Ids = createIds();

/** 48 bits, big end first; shifts would cut them to 32. */
function writeTime(bytes: Uint8Array, ms: number): void {
  let rest = ms;
  for (let index = 5; index >= 0; index -= 1) {
    bytes[index] = rest % 256;
    rest = Math.floor(rest / 256);
  }
}

function formatUuid(bytes: Uint8Array): string {
  const hex = Buffer.from(bytes.buffer, bytes.byteOffset, 16).toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
