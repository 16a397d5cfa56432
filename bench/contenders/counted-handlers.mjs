// Handlers of the peers' worker processes: they run inside them, count, and tell the bench by IPC.

/** `noop` does nothing but count; `probe` remembers when it started. */
export function countedHandlers() {
  let handled = 0;
  let expected = Number.POSITIVE_INFINITY;
  let starts = [];
  process.on("message", ({ kind, count }) => {
    if (kind === "expect") {
      handled = 0;
      expected = count;
    } else if (kind === "probes") {
      process.send({ kind: "probes", starts: starts.map(String) });
      starts = [];
    }
  });
  return {
    noop() {
      if (++handled === expected) process.send({ kind: "handled" });
    },
    probe() {
      starts.push(process.hrtime.bigint());
    },
  };
}

/** The bench's side of it. */
export function expectHandled(worker, count) {
  const handled = worker.next(({ kind }) => kind === "handled");
  worker.send({ kind: "expect", count });
  return handled;
}

/** When the last `count` probes started, in nanoseconds. */
export async function readProbeStarts(worker, count) {
  const answer = worker.next(({ kind }) => kind === "probes");
  worker.send({ kind: "probes" });
  const { starts } = await answer;
  if (starts.length < count) throw new Error(`expected ${count} probes to have started, found ${starts.length}`);
  return starts.slice(-count).map(BigInt);
}
