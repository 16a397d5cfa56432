import { parseDuration } from "../core/duration.ts";
import { parseGitAddress } from "../core/git-address.ts";
import type { SourceSpec, SyncSpec } from "./objects.ts";
import type { SourceDocument, SyncDocument } from "./schema.generated.ts";

/** Without a look at the files for this long a source is stale, when nothing else is declared. */
export const DEFAULT_STALE_AFTER_MS = 15 * 60_000;

/** `spec.source` as written → settings; absent members of the document are null. */
export function readSource({ git, nonFastForward }: SourceDocument): SourceSpec {
  const address = parseGitAddress(git.url);
  return {
    git: {
      url: address.ok ? address.url : git.url,
      ref: git.ref,
      path: git.path ?? null,
      intervalMs: parseDuration(git.interval),
      auth: {
        tokenFrom: git.auth?.tokenFrom ?? null,
        sshKeyFrom: git.auth?.sshKeyFrom ?? null,
        knownHostsFrom: git.auth?.knownHostsFrom ?? null,
      },
      ...(git.webhook === undefined ? {} : { webhookSecretFrom: git.webhook.secretFrom }),
      signers: git.verify?.signers ?? null,
    },
    nonFastForward,
  };
}

export function readSync({ guard, staleAfter }: SyncDocument): SyncSpec {
  return {
    guard: { maxDeletes: guard.maxDeletes ?? null, maxFireLossPercent: guard.maxFireLossPercent ?? null },
    staleAfterMs: parseDuration(staleAfter),
  };
}

/** What the schema cannot say. Paths start at `spec.source`. */
export function checkSource({
  git,
}: SourceDocument): readonly { readonly path: readonly string[]; readonly message: string }[] {
  const address = parseGitAddress(git.url);
  if (!address.ok) return [{ path: ["git", "url"], message: address.message }];
  const unfit = address.transport === "ssh" ? "tokenFrom" : "sshKeyFrom";
  if (git.auth?.[unfit] === undefined) return [];
  const message =
    unfit === "tokenFrom"
      ? "expected sshKeyFrom for an ssh address, found a token"
      : "expected tokenFrom for an https address, found a key for ssh";
  return [{ path: ["git", "auth", unfit], message }];
}
