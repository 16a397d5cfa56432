import { TurnoError } from "../core/errors.ts";
import type { RevisionContent, RevisionStore, RevisionSummary } from "../protocol/ports/revisions.ts";
import { type ApplyOutcome, applyDesired } from "./apply.ts";
import type { Desired } from "./desired.ts";

/** What was in force with a revision, as files would ask for it. Throws TURNO_REVISION_UNKNOWN. */
export async function loadDesired(
  store: RevisionStore,
  number: number,
): Promise<{ readonly content: RevisionContent; readonly desired: Desired }> {
  const content = await store.loadRevisionContent(number);
  if (content === null) {
    throw new TurnoError(
      "TURNO_REVISION_UNKNOWN",
      `expected a revision that was applied, found no revision ${number}`,
      {
        hint: "turno history lists them",
      },
    );
  }
  return { content, desired: toDesired(content) };
}

function toDesired({ revision, project, objects, definitions }: RevisionContent): Desired {
  const known = new Map(definitions.map(({ name, hash, definition }) => [name, { hash, definition }]));
  const forgotten = objects.find(({ kind, name }) => kind === "Job" && !known.has(name));
  if (project === null || forgotten !== undefined) {
    throw new TurnoError(
      "TURNO_REVISION_UNKNOWN",
      `expected revision ${revision.number} to know its handlers' code, found that it was applied before revisions kept it`,
      { hint: "bring the files back instead, and apply them" },
    );
  }
  return {
    project,
    objects,
    includedFiles: new Set(objects.map(({ file }) => file)).size,
    // Their code is in the database: nothing of it has to be written again.
    bundles: [],
    definitions: known,
    contentHash: revision.contentHash,
  };
}

export interface RollbackRequest {
  readonly number: number;
  readonly appliedBy: string;
  /** The revision that is in force, as the plan saw it. */
  readonly inForce: RevisionSummary;
}

/**
 * Brings back what was in force with an earlier revision, as a revision of its own. The source's content of now is held
 * back until it changes: a reconciler would bring it into force again at once. Throws what an apply throws.
 */
export async function rollBack(
  store: RevisionStore,
  desired: Desired,
  provenance: RevisionContent["revision"],
  { number, appliedBy, inForce }: RollbackRequest,
): Promise<ApplyOutcome> {
  const held = inForce.heldContent ?? inForce.contentHash;
  const { commit, baseCommit, author, committedAt, message } = provenance;
  return applyDesired(store, {
    desired,
    source: inForce.source,
    provenance: { commit, baseCommit, author, committedAt, message },
    appliedBy,
    base: inForce.number,
    confirmDeletes: true,
    takeOver: false,
    rollback: { to: number, held: held === desired.contentHash ? null : held },
  });
}
