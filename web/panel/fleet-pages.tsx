import type { QueueView, WorkerView } from "../../runtime/protocol/ports/panel.ts";
import { slotsOf } from "./board.tsx";
import { tookText, wholeNumber } from "./format.ts";
import { Counted, Declared, State, type Tone } from "./marks.tsx";

const CONDITIONS: Readonly<Record<WorkerView["status"], { readonly tone: Tone; readonly word: string }>> = {
  live: { tone: "succeeded", word: "Live" },
  draining: { tone: "scheduled", word: "Draining" },
  silent: { tone: "failed", word: "Silent" },
};

export function WorkersPage({ workers, now }: { readonly workers: readonly WorkerView[]; readonly now: Date }) {
  return (
    <>
      <div class="title">
        <h1>Workers</h1>
        <span class="muted">
          {workers.length} on shift, {wholeNumber(workers.reduce((sum, worker) => sum + slotsOf(worker), 0))} slots
        </span>
      </div>
      <section class="panel" aria-label="Workers">
        {workers.length === 0 ? (
          <p class="empty">
            No worker is on shift, so nothing runs. <b>npm start</b> starts one with everything else;{" "}
            <code>turno worker</code> adds one from any machine that reaches the database.
          </p>
        ) : (
          <div class="scroll">
            <table>
              <thead>
                <tr>
                  <th>Worker</th>
                  <th>Condition</th>
                  <th class="right">Running</th>
                  <th class="wide">Takes from</th>
                  <th class="wide">Leads</th>
                  <th class="wide">Version</th>
                  <th class="wide right">Up</th>
                </tr>
              </thead>
              <tbody>
                {workers.map((worker) => (
                  <WorkerRow worker={worker} now={now} />
                ))}
              </tbody>
            </table>
          </div>
        )}
      </section>
    </>
  );
}

function WorkerRow({ worker, now }: { readonly worker: WorkerView; readonly now: Date }) {
  const { tone, word } = CONDITIONS[worker.status];
  return (
    <tr id={`worker-${worker.id}`}>
      <td>
        <span class="mono clip" title={`${worker.name} · ${worker.id}`}>
          {worker.name}
        </span>
        <span class="muted">
          {worker.host}, process {worker.pid}
        </span>
      </td>
      <td>
        <State tone={tone}>{word}</State>
        <br />
        <span class="muted">
          seen <Counted at={worker.heartbeatAt} now={now} as="ago" />
          {worker.unloadableBundles.length > 0 ? `, cannot load ${worker.unloadableBundles.length} handlers` : ""}
          {worker.handlersCutOff > 0 ? `, ${wholeNumber(worker.handlersCutOff)} handlers cut off` : ""}
        </span>
        {ailments(worker).map((ailment) => (
          <>
            <br />
            <State tone="failed">{ailment}</State>
          </>
        ))}
      </td>
      <td class="right">
        {worker.running.length}
        <span class="muted"> / {slotsOf(worker)}</span>
      </td>
      <td class="wide">
        <div class="pills">
          {worker.queues.map(({ name, concurrency }) => (
            <span class="pill">
              {name} {concurrency}
            </span>
          ))}
        </div>
      </td>
      <td class="wide">{worker.duties.length === 0 ? <span class="muted">–</span> : worker.duties.join(", ")}</td>
      <td class="wide mono">{worker.version}</td>
      <td class="wide right">
        <Counted at={worker.registeredAt} now={now} as="since" />
      </td>
    </tr>
  );
}

/** What somebody should look at on that machine. */
function ailments({ leasesFailing, handlersStuck, clockSkewMs }: WorkerView): readonly string[] {
  return [
    ...(leasesFailing ? ["cannot renew its leases"] : []),
    ...(handlersStuck > 0 ? [`${wholeNumber(handlersStuck)} handlers cannot be ended`] : []),
    ...(clockSkewMs !== null && Math.abs(clockSkewMs) >= SHOWN_SKEW_MS
      ? [`its clock is ${tookText(Math.abs(clockSkewMs))} ${clockSkewMs > 0 ? "behind" : "ahead"}`]
      : []),
  ];
}

/** Less is what a round trip and a lazy time service make of clocks that agree. */
const SHOWN_SKEW_MS = 1_000;

export function QueuesPage({ queues }: { readonly queues: readonly QueueView[] }) {
  return (
    <>
      <div class="title">
        <h1>Queues</h1>
        <span class="muted">declared, filled or taken from</span>
      </div>
      <section class="panel" aria-label="Queues">
        {queues.length === 0 ? (
          <p class="empty">
            No queue yet: they appear with the first job type or worker. A <code>kind: Queue</code> document limits how
            many jobs of one run at once.
          </p>
        ) : (
          <div class="scroll">
            <table>
              <thead>
                <tr>
                  <th>Queue</th>
                  <th class="right">Queued</th>
                  <th class="right">Running</th>
                  <th class="right wide">Scheduled</th>
                  <th class="right wide">Slots</th>
                  <th class="right wide">Executions, 24 h</th>
                  <th class="right wide">Mean</th>
                  <th class="wide">Declared</th>
                </tr>
              </thead>
              <tbody>
                {queues.map((queue) => (
                  <QueueRow queue={queue} />
                ))}
              </tbody>
            </table>
          </div>
        )}
      </section>
    </>
  );
}

function QueueRow({ queue }: { readonly queue: QueueView }) {
  const { lastDay } = queue;
  const untaken = queue.slots === 0 && queue.queued > 0;
  return (
    <tr id={`queue-${queue.name}`}>
      <td>
        <a class="clip" href={`/jobs?queue=${encodeURIComponent(queue.name)}`} title={`${queue.name}: its jobs`}>
          {queue.name}
        </a>
        {queue.suspended ? (
          <State tone="scheduled">suspended</State>
        ) : untaken ? (
          <State tone="failed">no worker takes from it</State>
        ) : null}
      </td>
      <td class="right">{wholeNumber(queue.queued)}</td>
      <td class="right">
        {wholeNumber(queue.running)}
        {queue.concurrency === null ? null : <span class="muted"> / {wholeNumber(queue.concurrency)}</span>}
      </td>
      <td class="right wide">{wholeNumber(queue.scheduled)}</td>
      <td class="right wide">{wholeNumber(queue.slots)}</td>
      <td class="right wide">
        {wholeNumber(lastDay.executions)}
        {lastDay.failures > 0 ? (
          <>
            <br />
            <span class="muted">{wholeNumber(lastDay.failures)} failed</span>
          </>
        ) : null}
      </td>
      <td class="right wide">{tookText(lastDay.meanMs)}</td>
      <td class="wide">
        {queue.source === null ? <span class="muted">not declared</span> : <Declared source={queue.source} />}
      </td>
    </tr>
  );
}
