import type { FireRow, JobRow } from "./facts.ts";
import type { Wrong } from "./oracle.ts";

/** When a schedule has to fire, told without Turno's own reading of cron. */
export interface ExpectedSchedule {
  readonly name: string;
  /** The second of the minute, or the instant, decides; both by whole seconds since the epoch. */
  readonly isDue: (second: number) => boolean;
  /** Fires must have gone on at least until then, milliseconds since the epoch. */
  readonly untilMs: number;
}

/** Every instant between the first and the last is decided once, none in between is new, and what fired has succeeded. */
export function judgeSchedule(
  { name, isDue, untilMs }: ExpectedSchedule,
  fires: readonly FireRow[],
  jobs: ReadonlyMap<string, JobRow>,
): Wrong[] {
  const rows = fires.filter(({ schedule }) => schedule === name).sort((left, right) => left.fire_at - right.fire_at);
  const [first, last] = [rows[0], rows.at(-1)];
  if (first === undefined || last === undefined) return [{ kind: "lost", job: null, text: `${name} never fired` }];
  const wrongs: Wrong[] = [];
  if (last.fire_at < untilMs) {
    wrongs.push({
      kind: "lost",
      job: null,
      text: `${name} fired last at ${instant(last.fire_at)}, expected until ${instant(untilMs)}`,
    });
  }
  const expected = new Set<number>();
  for (let second = first.fire_at / 1_000; second <= last.fire_at / 1_000; second += 1) {
    if (isDue(second)) expected.add(second * 1_000);
  }
  for (const { fire_at, job, outcome } of rows) {
    if (!expected.has(fire_at))
      wrongs.push({
        kind: "phantom",
        job,
        text: `${name} fired at ${instant(fire_at)}, which is none of its instants`,
      });
    const state = jobs.get(job ?? "")?.state;
    if (outcome === "fired" && state !== "Succeeded") {
      wrongs.push({
        kind: "lost",
        job,
        text: `${name} at ${instant(fire_at)}: its job is ${state ?? "not in the database"}`,
      });
    }
  }
  const decided = rows.length + rows.slice(1).reduce((sum, { older_skips }) => sum + older_skips, 0);
  if (decided < expected.size) {
    const missing = [...expected].filter((at) => !rows.some(({ fire_at }) => fire_at === at)).map(instant);
    wrongs.push({
      kind: "lost",
      job: null,
      text: `${name}: ${decided} of ${expected.size} instants are decided; without a row: ${missing.slice(0, 10).join(", ")}`,
    });
  }
  if (decided > expected.size) {
    wrongs.push({
      kind: "duplicated",
      job: null,
      text: `${name}: ${decided} instants are decided, and there were ${expected.size}`,
    });
  }
  return wrongs;
}

function instant(atMs: number): string {
  return new Date(atMs).toISOString();
}
