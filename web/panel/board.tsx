import type { RunningView, WorkerView } from "../../runtime/protocol/ports/panel.ts";
import { elapsedText, wholeNumber } from "./format.ts";
import { LiveMark } from "./layout.tsx";
import { Counted } from "./marks.tsx";

/** Free slots drawn one by one in a lane; the rest is a number. */
const MAX_FREE_CELLS = 12;
const MAX_BUSY_CELLS = 200;

/** The board of shifts: a row a worker, a lane a queue, a cell a slot. */
export function Board({ workers, now }: { readonly workers: readonly WorkerView[]; readonly now: Date }) {
  const slots = workers.reduce((sum, worker) => sum + slotsOf(worker), 0);
  return (
    <section class="panel" aria-labelledby="board">
      <header>
        <h2 id="board">Board of shifts</h2>
        {workers.length > 0 ? (
          <span class="muted">
            {workers.length} {workers.length === 1 ? "worker" : "workers"}, {wholeNumber(slots)} slots
          </span>
        ) : null}
        <LiveMark />
      </header>
      {workers.length === 0 ? (
        <p class="empty">
          No worker is on shift, so nothing runs. <b>npm start</b> starts one with everything else;{" "}
          <code>turno worker</code> adds one from any machine that reaches the database.
        </p>
      ) : (
        <div class="board">
          {workers.map((worker) => (
            <Shift worker={worker} now={now} />
          ))}
        </div>
      )}
    </section>
  );
}

export function slotsOf(worker: WorkerView): number {
  return worker.queues.reduce((sum, queue) => sum + queue.concurrency, 0);
}

function Shift({ worker, now }: { readonly worker: WorkerView; readonly now: Date }) {
  return (
    <div class="shift" id={`shift-${worker.id}`}>
      <div class="who">
        <b title={`${worker.name} · ${worker.id}`}>{worker.name}</b>
        <span>
          {worker.host} · <Condition worker={worker} now={now} />
        </span>
      </div>
      <div class="slots">
        {worker.queues.map(({ name, concurrency }) => (
          <div class={`lane grow-${Math.min(concurrency, 8)}`}>
            <small title={name}>{name}</small>
            <Cells running={worker.running.filter((job) => job.queue === name)} concurrency={concurrency} now={now} />
          </div>
        ))}
      </div>
    </div>
  );
}

function Condition({ worker, now }: { readonly worker: WorkerView; readonly now: Date }) {
  if (worker.status === "silent") {
    return (
      <>
        silent for <Counted at={worker.heartbeatAt} now={now} as="since" />
      </>
    );
  }
  if (worker.status === "draining") return <>draining, {worker.running.length} left</>;
  return (
    <>
      up <Counted at={worker.registeredAt} now={now} as="since" />
    </>
  );
}

function Cells(props: { readonly running: readonly RunningView[]; readonly concurrency: number; readonly now: Date }) {
  const free = Math.max(0, props.concurrency - props.running.length);
  const drawn = free > MAX_FREE_CELLS ? MAX_FREE_CELLS - 1 : free;
  return (
    <div class="cells">
      {props.running.slice(0, MAX_BUSY_CELLS).map((job) => (
        <BusyCell job={job} now={props.now} />
      ))}
      {Array.from({ length: drawn }, () => (
        <div class="cell" />
      ))}
      {free > drawn ? <div class="cell more">{free - drawn} more free</div> : null}
    </div>
  );
}

/** Past this share of its time-out a run is drawn as late. */
const LATE_SHARE = 0.8;

function BusyCell({ job, now }: { readonly job: RunningView; readonly now: Date }) {
  const elapsedMs = now.getTime() - job.startedAt.getTime();
  const late = job.timeoutMs !== null && elapsedMs > job.timeoutMs * LATE_SHARE;
  const facts = [
    job.type,
    job.progress > 0 ? `${Math.round(job.progress)} %` : null,
    job.progressMessage,
    late && job.timeoutMs !== null ? `times out after ${elapsedText(job.timeoutMs)}` : null,
    job.cancelRequested ? "cancel requested" : null,
  ];
  return (
    <a
      class={`cell busy${late ? " late" : ""}`}
      id={`cell-${job.id}`}
      href={`/jobs/${job.id}`}
      title={facts.filter((fact) => fact !== null).join(" · ")}
    >
      <b>{job.type}</b>
      {job.cancelRequested ? <span>cancelling, </span> : null}
      <Counted at={job.startedAt} now={now} as="since" />
      <svg
        class={job.progress > 0 ? "bar" : "bar none"}
        viewBox="0 0 100 3"
        preserveAspectRatio="none"
        aria-hidden="true"
      >
        {job.progress > 0 ? <rect width={job.progress.toFixed(1)} height="3" /> : null}
      </svg>
    </a>
  );
}
