import type { PauseStore } from "../../protocol/ports/pauses.ts";
import type { Doorbell } from "../../protocol/ports/transport.ts";
import type { MemoryDatabase } from "./database.ts";

export function createPauseStore(database: MemoryDatabase, doorbell: Pick<Doorbell, "ring">): PauseStore {
  const { pauses, schedules, queues } = database;
  const exists = (kind: "Schedule" | "Queue", name: string): boolean =>
    kind === "Schedule" ? schedules.has(name) : queues.has(name);

  return {
    async pause({ kind, name, by, reason, until }) {
      if (!exists(kind, name)) return { kind: "not-found" };
      if (until !== null && until.getTime() <= database.nowMs()) return { kind: "over" };
      const pause = { by, reason, pausedAt: new Date(database.nowMs()), until };
      pauses.set(`${kind}/${name}`, { kind, name, pause });
      return { kind: "paused", pause };
    },

    async loadPause({ kind, name }) {
      if (!exists(kind, name)) return null;
      const schedule = kind === "Schedule" ? (schedules.get(name) ?? null) : null;
      return {
        now: new Date(database.nowMs()),
        suspendedInFiles: schedule?.spec.suspend ?? queues.get(name)?.suspended ?? false,
        pause: pauses.get(`${kind}/${name}`)?.pause ?? null,
        schedule: schedule === null ? null : { spec: schedule.spec, timingHash: schedule.timingHash },
      };
    },

    async liftPause({ kind, name, expected, nextFireAt }) {
      const pause = pauses.get(`${kind}/${name}`)?.pause;
      const schedule = kind === "Schedule" ? schedules.get(name) : undefined;
      if (pause?.pausedAt.getTime() !== expected.pausedAt.getTime()) return false;
      if (kind === "Schedule" && schedule?.timingHash !== expected.timingHash) return false;
      pauses.delete(`${kind}/${name}`);
      if (schedule !== undefined) {
        schedule.decidedUntilMs = database.nowMs();
        const sinceMs = database.nowMs();
        if (schedule.sla !== undefined) schedule.sla = { ...schedule.sla, dueAtMs: sinceMs, sinceMs };
        schedule.firedColdStart = database.coldStarts;
        if (!schedule.awaitsFinish) schedule.nextFireAtMs = nextFireAt?.getTime() ?? null;
      }
      doorbell.ring(kind === "Schedule" ? { kind: "schedules" } : { kind: "queue", queue: name });
      return true;
    },

    async listEndedPauses(limit) {
      const ended = [...pauses.values()].filter(
        ({ pause }) => pause.until !== null && pause.until.getTime() <= database.nowMs(),
      );
      return ended.slice(0, limit).map(({ kind, name }) => ({ kind, name }));
    },
  };
}
