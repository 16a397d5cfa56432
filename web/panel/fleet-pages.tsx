import type { PauseView, QueueView, WorkerView } from "../../runtime/protocol/ports/panel.ts";
import { slotsOf } from "./board.tsx";
import { tookText, wholeNumber } from "./format.ts";
import { Counted, Declared, Instant, State, type Tone } from "./marks.tsx";
import { PauseForm } from "./pause-panel.tsx";

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

export interface QueuesFacts {
  readonly queues: readonly QueueView[];
  readonly mayOperate: boolean;
  /** The queue whose pause is asked for; null: none. In the address, so that a refreshed page keeps its form. */
  readonly pausing: string | null;
}

export function QueuesPage({ queues, mayOperate, pausing }: QueuesFacts) {
  const asked = queues.find(({ name, pause, suspended }) => name === pausing && !suspended && (pause ?? null) === null);
  return (
    <>
      <div class="title">
        <h1>Queues</h1>
        <span class="muted">declared, filled or taken from</span>
      </div>
      {asked === undefined || !mayOperate ? null : (
        <section class="panel" aria-labelledby="pause">
          <header>
            <h2 id="pause">Pause {asked.name}</h2>
            <span class="muted">nothing is taken from it; what runs finishes</span>
          </header>
          <PauseForm path={`/queues/${encodeURIComponent(asked.name)}`} />
        </section>
      )}
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
                  {mayOperate ? <th aria-label="Actions" /> : null}
                </tr>
              </thead>
              <tbody>
                {queues.map((queue) => (
                  <QueueRow queue={queue} mayOperate={mayOperate} />
                ))}
              </tbody>
            </table>
          </div>
        )}
      </section>
    </>
  );
}

function QueueRow({ queue, mayOperate }: { readonly queue: QueueView; readonly mayOperate: boolean }) {
  const { lastDay, pause = null } = queue;
  const untaken = queue.slots === 0 && queue.queued > 0;
  return (
    <tr id={`queue-${queue.name}`}>
      <td>
        <a class="clip" href={`/jobs?queue=${encodeURIComponent(queue.name)}`} title={`${queue.name}: its jobs`}>
          {queue.name}
        </a>
        {pause !== null ? (
          <Paused pause={pause} />
        ) : queue.suspended ? (
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
      {mayOperate ? (
        <td class="right">
          <PauseButton queue={queue} />
        </td>
      ) : null}
    </tr>
  );
}

function Paused({ pause }: { readonly pause: PauseView }) {
  const { by, reason, until } = pause;
  return (
    <>
      <State tone="scheduled">paused</State>
      <br />
      <span class="muted">
        by {by}
        {reason === null ? null : `: ${reason}`},{" "}
        {until === null ? (
          "until it is resumed"
        ) : (
          <>
            until <Instant at={new Date(until)} shape="day" />
          </>
        )}
      </span>
    </>
  );
}

/** Nothing for a queue that its file suspends: only the file can let it go. */
function PauseButton({ queue }: { readonly queue: QueueView }) {
  const path = `/queues/${encodeURIComponent(queue.name)}`;
  if ((queue.pause ?? null) !== null) {
    return (
      <form method="post" action={`${path}/resume`}>
        <button class="button small" type="submit" title={`Take from ${queue.name} again`}>
          Resume
        </button>
      </form>
    );
  }
  if (queue.suspended) return null;
  return (
    <a
      class="button small"
      href={`/queues?pause=${encodeURIComponent(queue.name)}`}
      title={`Take nothing from ${queue.name}; what runs finishes`}
    >
      Pause
    </a>
  );
}
