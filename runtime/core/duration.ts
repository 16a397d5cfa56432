import { TurnoError } from "./errors.ts";

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const DURATION = /^(\d{1,12})(ms|s|m|h|d)$/;
/** 400 days: the longest duration Turno accepts; it is how long fires are remembered. */
export const MAX_DURATION_MS = 400 * UNIT_MS.d;

/** `500ms`, `15s`, `10m`, `2h`, `7d` → milliseconds. Throws TURNO_TIME_INVALID. */
export function parseDuration(text: string): number {
  const match = DURATION.exec(text);
  const amount = match?.[1];
  const unit = match?.[2] as keyof typeof UNIT_MS | undefined;
  if (amount === undefined || unit === undefined) {
    throw new TurnoError(
      "TURNO_TIME_INVALID",
      `expected a duration such as 500ms, 15s, 10m, 2h or 7d, found "${text}"`,
    );
  }
  const ms = Number(amount) * UNIT_MS[unit];
  if (ms > MAX_DURATION_MS) {
    throw new TurnoError("TURNO_TIME_INVALID", `expected a duration of at most 400d, found "${text}"`);
  }
  return ms;
}

/** Milliseconds → the shortest exact text in one unit: 90000 → `90s`, 3600000 → `1h`. */
export function formatDuration(ms: number): string {
  for (const unit of ["d", "h", "m", "s"] as const) {
    if (ms !== 0 && ms % UNIT_MS[unit] === 0) return `${ms / UNIT_MS[unit]}${unit}`;
  }
  return `${ms}ms`;
}

/** Milliseconds → text for people, two units at most: `2 m 14 s`, `0.4 s`, `3 d 4 h`. */
export function humanDuration(ms: number): string {
  if (ms < 10_000) return `${(ms / 1000).toFixed(ms < 100 ? 3 : 1)} s`;
  const seconds = Math.floor(ms / 1000);
  const parts: [number, string][] = [
    [Math.floor(seconds / 86_400), "d"],
    [Math.floor(seconds / 3_600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "m"],
    [seconds % 60, "s"],
  ];
  const first = parts.findIndex(([amount]) => amount > 0);
  return parts
    .slice(first, first + 2)
    .filter(([amount], index) => index === 0 || amount > 0)
    .map(([amount, unit]) => `${amount} ${unit}`)
    .join(" ");
}
