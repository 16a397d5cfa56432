import { SetupError } from "../scripts/project.mjs";
import { openBullmq } from "./contenders/bullmq.mjs";
import { openGraphileWorker } from "./contenders/graphile-worker.mjs";
import { openTurno, openTurnoOnRabbit } from "./contenders/turno.mjs";

/** All the ratios are to this one. */
export const REFERENCE = "graphile-worker";

/**
 * Adds them to `opened` one by one, so that a failure leaves those before it to be closed. A contender has a name, what it was set to, and:
 * startWorker() → { stop() }, one process; hold(worker, count) → release(), jobs the worker sees only from then on;
 * drained(worker), all of them finished by the database's word; probe(), one job for the latency;
 * probeStarts(worker, count) → when the handlers of the last ones started, in ns; verify(), throws when anything was left or lost.
 */
export async function openContenders({ servers, peersDir, only, opened }) {
  const open = {
    turno: async () => openTurno({ url: await servers.createDatabase("turno"), folder: servers.folder }),
    "turno-rabbitmq": async () =>
      openTurnoOnRabbit({
        url: await servers.createDatabase("turno_rabbitmq"),
        folder: servers.folder,
        brokers: servers.startBrokers,
      }),
    "graphile-worker": async () => openGraphileWorker({ url: await servers.createDatabase("graphile"), peersDir }),
    "bullmq-redis": async () => openBullmq({ backend: "redis", connection: { path: servers.redis.path }, peersDir }),
    "bullmq-postgres": async () =>
      openBullmq({
        backend: "postgres",
        connection: { connectionString: await servers.createDatabase("bullmq"), migrate: true },
        peersDir,
      }),
  };
  const wanted = only ?? Object.keys(open);
  const unknown = wanted.filter((name) => !(name in open));
  if (unknown.length > 0)
    throw new SetupError(
      `expected --only to name some of ${Object.keys(open).join(", ")}, found "${unknown.join(",")}"`,
    );
  for (const name of wanted) opened.push(await open[name]());
}
