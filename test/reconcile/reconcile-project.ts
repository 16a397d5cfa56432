import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { openFolderSource } from "../../runtime/adapters/files/folder-source.ts";
import { type Database, openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { createRevisionStore } from "../../runtime/adapters/postgres/revision-store.ts";
import { loadProject } from "../../runtime/config/load-project.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import type { RevisionStore } from "../../runtime/protocol/ports/revisions.ts";
import type { DoorbellTopic } from "../../runtime/protocol/ports/transport.ts";
import { type BundleHandlers, createLook, type LookOptions } from "../../runtime/reconcile/look.ts";
import { createReconciler, type Reconciler, type ReconcilerOptions } from "../../runtime/services/reconciler.ts";
import { createTestDatabase } from "../support/database.ts";

const PROJECT = `apiVersion: turno/v1
kind: Project
metadata: { name: test }
spec: { include: [turno.d/*.yaml], timeZone: UTC }
`;

/** A project's folder and a database, and reconcilers between them. */
export interface ReconcileProject {
  readonly root: string;
  readonly database: Database;
  readonly store: RevisionStore;
  readonly rings: DoorbellTopic[];
  write(path: string, text: string): void;
  lookOptions(options?: Partial<LookOptions>): LookOptions;
  reconciler(options?: Partial<ReconcilerOptions> & Partial<LookOptions>): Reconciler;
  close(): Promise<void>;
}

export async function openReconcileProject(): Promise<ReconcileProject> {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "turno reconcile ")));
  const test = await createTestDatabase();
  const database = openDatabase({
    address: test.address,
    applicationName: "test",
    size: 4,
    statementTimeoutMs: 10_000,
    logger: silentLogger,
  });
  const store = createRevisionStore(database);
  const rings: DoorbellTopic[] = [];
  const write = (path: string, text: string): void => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  };
  write("turno.yaml", PROJECT);
  write("handlers/a.ts", "export default 1;\n");
  write("turno.d/a.yaml", declare({ cron: "0 1 * * *" }));
  const lookOptions = (options: Partial<LookOptions> = {}): LookOptions => ({
    source: openFolderSource({ root, logger: silentLogger, settleMs: 25, removalSettleMs: 60, rescanMs: 60_000 }),
    loadProject,
    bundleHandlers: bundleByContent(root),
    ...options,
  });
  return {
    root,
    database,
    store,
    rings,
    write,
    lookOptions,
    reconciler(options = {}) {
      const look = lookOptions(options);
      return createReconciler({
        source: look.source,
        look: createLook(look),
        store,
        doorbell: { ring: (topic) => void rings.push(topic) },
        logger: silentLogger,
        appliedBy: "test",
        ...options,
      });
    },
    async close() {
      await database.close();
      await test.drop();
      rmSync(root, { recursive: true, force: true });
    },
  };
}

/** A job type `a` and its schedule `s`. */
export function declare({ cron, timeout = "10m" }: { readonly cron: string; readonly timeout?: string }): string {
  return `apiVersion: turno/v1
kind: Job
metadata: { name: a }
spec: { handler: a.ts, timeout: ${timeout} }
---
apiVersion: turno/v1
kind: Schedule
metadata: { name: s }
spec: { job: a, cron: "${cron}" }
`;
}

/** Stands in for esbuild: the handler's text is its code, and the word `broken` in it is a mistake. */
export function bundleByContent(root: string): BundleHandlers {
  return async ({ handlersDir, entries }) => {
    const texts = entries.map((handler) => ({ handler, code: readFileSync(join(root, handlersDir, handler), "utf8") }));
    const problems = texts.filter(({ code }) => code.includes("broken"));
    return {
      bundles: texts
        .filter(({ code }) => !code.includes("broken"))
        .map(({ handler, code }) => ({
          handler,
          code,
          hash: `sha256:${createHash("sha256").update(code).digest("hex")}`,
          externals: {},
          inputs: [`${handlersDir}/${handler}`],
        })),
      problems: problems.map(({ handler }) => ({
        file: `${handlersDir}/${handler}`,
        line: 1,
        column: 1,
        message: "it is broken",
      })),
    };
  };
}
