import { DEFAULT_STALE_AFTER_MS } from "../config/source-settings.ts";
import { describeError, TurnoError } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import { RejectedError, UnknownOutcomeError } from "../protocol/ports/errors.ts";
import type { ProjectSource, RevisionStore, RevisionSummary, SourceIdentity } from "../protocol/ports/revisions.ts";
import type { Doorbell } from "../protocol/ports/transport.ts";
import { applyDesired, isOwnedByOther } from "../reconcile/apply.ts";
import type { Look } from "../reconcile/look.ts";
import { createSyncReport, type SyncOutcome, syncProblems, syncState } from "../reconcile/sync-outcome.ts";
import { type Loop, type LoopSurroundings, startLoop } from "./supervised-loop.ts";

export interface ReconcilerOptions {
  readonly source: ProjectSource;
  /** From `createLook`. */
  readonly look: (signal: AbortSignal) => Promise<Look>;
  readonly store: RevisionStore;
  readonly doorbell: Pick<Doorbell, "ring">;
  readonly logger: Logger;
  /** Who applies, for the history. */
  readonly appliedBy: string;
  /** The database belongs to this very folder: whatever was applied from another path is this project before a move. */
  readonly takeOver?: boolean;
  /** Somebody has confirmed what guards, a rollback or a rewritten history hold back. */
  readonly confirm?: boolean;
  /** Without a look for this long the source is shown as stale. */
  readonly staleAfterMs?: number;
  /** Where somebody may ask for a look; absent: nobody can. */
  readonly requests?: Pick<Doorbell, "listen">;
}

export interface Reconciler {
  /**
   * One look at the files, and an apply when they changed since the last one. Rejects only when the database is away
   * or the signal aborts.
   */
  syncOnce(signal: AbortSignal): Promise<SyncOutcome>;
  /** Follows the files until it is stopped. */
  start(surroundings: LoopSurroundings): Promise<Pick<Loop, "stop">>;
}

/** Without any event the files are looked at this often, so that the age of the last look tells whether anybody looks. */
const CONFIRM_MS = 30_000;
/** Somebody else may apply between the look at the base and the apply. */
const APPLY_TRIES = 5;

/** Brings the files of a source into force whenever they change, and says why when it can't. */
export function createReconciler(options: ReconcilerOptions): Reconciler {
  const { source, store } = options;
  const report = createSyncReport(options.logger);
  let last: { readonly fingerprint: string; readonly outcome: SyncOutcome } | null = null;
  let wasInForce = false;
  let commit: string | null = null;

  const sync = async (signal: AbortSignal, isAgain = false): Promise<SyncOutcome> => {
    let found: Look;
    try {
      found = await options.look(signal);
    } catch (error) {
      if (error instanceof TurnoError) return { kind: "refused", error };
      throw error;
    }
    if (found.kind === "invalid") return remember(found, found);
    // Files that were invalid may be valid without an edit: a program that reads them may have been missing.
    const again = last?.fingerprint === found.snapshot.fingerprint ? last.outcome : null;
    if (again === null || again.kind === "invalid") {
      return remember(found, await applyLook({ found, options, isFirst: !wasInForce, signal }));
    }
    // Whatever others applied meanwhile: only files that changed are brought into force.
    const inForce = await store.revisionInForce();
    if (isInForce(found, inForce, source.identity)) {
      return remember(found, { kind: "unchanged", revision: inForce, problems: found.problems });
    }
    const hold = findHold(found, inForce, options);
    if (hold !== null) return { kind: "refused", error: heldBack(hold) };
    if (again.kind === "refused") return again;
    // Another reconciler of this source may have seen a newer commit than this one.
    if (isAgain || source.expire === undefined) return replaced(again.revision, inForce);
    source.expire();
    return sync(signal, true);
  };

  const remember = ({ snapshot }: Look, outcome: SyncOutcome): SyncOutcome => {
    commit = snapshot.provenance.commit;
    // What a source with a history refuses depends on what the remote says next, not on the files alone.
    const isJudged = outcome.kind === "refused" && source.judgeSuccession !== undefined;
    last = isJudged ? null : { fingerprint: snapshot.fingerprint, outcome };
    wasInForce ||= outcome.kind === "applied" || outcome.kind === "unchanged";
    return outcome;
  };

  const syncOnce = async (signal: AbortSignal): Promise<SyncOutcome> => {
    const outcome = await sync(signal);
    report(outcome);
    await recordSync(options, outcome, commit);
    return outcome;
  };

  return {
    syncOnce,
    async start(surroundings) {
      const loop = startLoop({
        ...surroundings,
        name: "reconcile",
        cycle: async (signal) => {
          await syncOnce(signal).catch((error: unknown) => {
            if (!signal.aborted) throw error;
          });
          return CONFIRM_MS;
        },
      });
      const watch = await source.watch(loop.wake);
      const listening = new AbortController();
      const look = () => {
        source.expire?.();
        loop.wake();
      };
      options.requests?.listen(
        { onRing: ({ kind }) => (kind === "sync" ? look() : undefined), onGap: () => {} },
        listening.signal,
      );
      return {
        async stop() {
          listening.abort();
          await watch.close();
          await loop.stop();
        },
      };
    },
  };
}

/** Also when somebody else brought the very same files into force. */
function isInForce(
  { desired }: Look & { readonly kind: "ready" },
  inForce: RevisionSummary | null,
  source: SourceIdentity,
): inForce is RevisionSummary {
  return inForce?.contentHash === desired.contentHash && !isOwnedByOther(source, { owner: inForce.source });
}

/** The rollback that holds these files back until they change; null: none does. */
function findHold(
  { desired }: Look & { readonly kind: "ready" },
  inForce: RevisionSummary | null,
  { confirm, source }: ReconcilerOptions,
): RevisionSummary | null {
  if (inForce === null || confirm === true || isOwnedByOther(source.identity, { owner: inForce.source })) return null;
  return inForce.heldContent === desired.contentHash ? inForce : null;
}

function heldBack({ number, rollbackOf, appliedBy }: RevisionSummary): TurnoError {
  return new TurnoError(
    "TURNO_SOURCE_HELD",
    `revision ${number} brought back revision ${rollbackOf} (${appliedBy}): these files are held until they change`,
    { hint: "commit what is to be in force, or release them with turno sync --confirm" },
  );
}

/** The same files again, and somebody else's are in force by now. */
function replaced(revision: RevisionSummary, inForce: RevisionSummary | null): SyncOutcome {
  const error = new TurnoError(
    "TURNO_SOURCE_STALE",
    `expected revision ${revision.number}, made of these files, to be in force, found revision ${inForce?.number}, applied by ${inForce?.appliedBy}`,
    { hint: "These files are applied again when one of them changes, or by `turno apply`." },
  );
  return { kind: "refused", error };
}

async function applyLook(request: {
  readonly found: Look & { readonly kind: "ready" };
  readonly options: ReconcilerOptions;
  readonly isFirst: boolean;
  readonly signal: AbortSignal;
}): Promise<SyncOutcome> {
  const { found, options, isFirst, signal } = request;
  const { source, store } = options;
  for (let tries = 1; ; tries++) {
    const inForce = await store.revisionInForce();
    const obstacle = await findObstacle({ found, inForce, options, isFirst, signal });
    if (obstacle !== null) return { kind: "refused", error: obstacle };
    try {
      const outcome = await applyDesired(store, {
        desired: found.desired,
        source: source.identity,
        provenance: found.snapshot.provenance,
        appliedBy: options.appliedBy,
        base: inForce?.number ?? null,
        confirmDeletes: options.confirm === true || confirmsDeletes(found),
        takeOver: options.takeOver ?? false,
      });
      if (outcome.kind === "applied") options.doorbell.ring({ kind: "revision" });
      return { ...outcome, problems: found.problems };
    } catch (error) {
      if (!(error instanceof TurnoError) || error instanceof RejectedError || error instanceof UnknownOutcomeError)
        throw error;
      if (error.code !== "TURNO_SOURCE_STALE" || tries === APPLY_TRIES) return { kind: "refused", error };
    }
  }
}

/** Why these files may not follow what is in force; null: they may. */
async function findObstacle(request: {
  readonly found: Look & { readonly kind: "ready" };
  readonly inForce: RevisionSummary | null;
  readonly options: ReconcilerOptions;
  readonly isFirst: boolean;
  readonly signal: AbortSignal;
}): Promise<TurnoError | null> {
  const { found, inForce, options, isFirst, signal } = request;
  const hold = findHold(found, inForce, options);
  if (hold !== null) return heldBack(hold);
  const behind = isFirst && options.confirm !== true ? await findBehind(found, inForce, options) : null;
  if (behind !== null || inForce === null) return behind;
  const { source, confirm } = options;
  const { desired } = found;
  if (inForce.contentHash === desired.contentHash || isOwnedByOther(source.identity, { owner: inForce.source }))
    return null;
  const obstacle = (await source.judgeSuccession?.(inForce, signal)) ?? null;
  return confirm === true && obstacle?.code === "TURNO_SOURCE_REWRITTEN" ? null : obstacle;
}

function confirmsDeletes({ snapshot }: Look): boolean {
  return snapshot.confirms?.includes("deletes") === true;
}

/**
 * After a start nobody remembers which revision these files made. When they are those of an earlier one and were not
 * written since, this is an old copy that must not win over what came after it.
 */
async function findBehind(
  { desired, snapshot }: Look & { readonly kind: "ready" },
  inForce: RevisionSummary | null,
  { source, store }: ReconcilerOptions,
): Promise<TurnoError | null> {
  if (inForce === null || inForce.contentHash === desired.contentHash) return null;
  if (isOwnedByOther(source.identity, { owner: inForce.source })) return null;
  if (snapshot.newestWriteAt === null || snapshot.newestWriteAt > inForce.appliedAt) return null;
  const earlier = await store.findRevision({ source: source.identity.name, contentHash: desired.contentHash });
  if (earlier === null) return null;
  return new TurnoError(
    "TURNO_SOURCE_STALE",
    `expected files newer than revision ${inForce.number}, which is in force, found those of revision ${earlier.number}, not written since`,
    { hint: "If going back is meant, run `turno apply`; otherwise bring this folder up to date." },
  );
}

async function recordSync(
  { source, store, logger, staleAfterMs = DEFAULT_STALE_AFTER_MS }: ReconcilerOptions,
  outcome: SyncOutcome,
  commit: string | null,
): Promise<void> {
  try {
    const ok = outcome.kind === "applied" || outcome.kind === "unchanged";
    const revision = (ok ? outcome.revision : await store.revisionInForce())?.number ?? null;
    await store.recordSync({
      source: source.identity,
      ok,
      revision,
      problems: syncProblems(outcome),
      status: syncState(outcome),
      commit,
      staleAfterMs,
    });
  } catch (error) {
    logger.debug("the state of the source could not be recorded", { error: describeError(error) });
  }
}
