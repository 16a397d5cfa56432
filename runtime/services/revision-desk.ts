import { TurnoError } from "../core/errors.ts";
import type { RevisionDesk, RevisionRecord, RevisionStore } from "../protocol/ports/revisions.ts";
import type { Doorbell } from "../protocol/ports/transport.ts";
import { readWords, writeChanges } from "../reconcile/change-words.ts";
import { planChanges } from "../reconcile/plan.ts";
import { loadDesired, rollBack } from "../reconcile/rollback.ts";

/** Revisions as people see them: what they changed, and the way back. */
export function createRevisionDesk({
  store,
  doorbell,
}: {
  readonly store: RevisionStore;
  readonly doorbell: Pick<Doorbell, "ring">;
}): RevisionDesk {
  const toEntry = ({ changes, ...revision }: RevisionRecord) => ({ ...revision, words: readWords(changes) });
  return {
    list: async (page) => (await store.listRevisions(page)).map(toEntry),
    async find(number) {
      const [found] = await store.listRevisions({ before: number + 1, limit: 1 });
      return found?.number === number ? toEntry(found) : null;
    },
    async rollBack({ number, by, preview }) {
      const { content, desired } = await loadDesired(store, number);
      const applied = await store.loadApplied();
      const { inForce } = applied;
      if (inForce === null) throw new TurnoError("TURNO_REVISION_UNKNOWN", "expected a revision in force, found none");
      const words = writeChanges(planChanges(desired, applied).changes, desired).map((change) => change.words ?? "");
      if (preview) return { words, revision: null };
      const outcome = await rollBack(store, desired, content.revision, { number, appliedBy: by, inForce });
      if (outcome.kind === "applied") doorbell.ring({ kind: "revision" });
      return { words, revision: outcome.revision };
    },
    status: () => store.loadSyncStatus(),
    requestSync: () => doorbell.ring({ kind: "sync" }),
  };
}
