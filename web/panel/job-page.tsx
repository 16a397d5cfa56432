import type { Child } from "hono/jsx";
import type { Json } from "../../runtime/core/json.ts";
import type { AttemptView, JobDetail, TimelineEntry } from "../../runtime/protocol/ports/panel.ts";
import { isFinal } from "../../runtime/protocol/states.ts";
import { shortCommit, shortHash, tookText, wholeNumber } from "./format.ts";
import { LiveMark } from "./layout.tsx";
import { Copied, Counted, Instant, State, stateTone, type Tone } from "./marks.tsx";

export function JobPageContent({ job, mayOperate }: { readonly job: JobDetail; readonly mayOperate: boolean }) {
  const failure = job.error ?? job.resultError;
  const lastStack = job.attempts.find((attempt) => attempt.stack !== null)?.stack ?? null;
  return (
    <>
      <div class="title">
        <h1>{job.type}</h1>
        <State tone={stateTone(job.state)}>
          {job.state}
          {job.hold === null ? null : <span class="muted">held: {job.hold}</span>}
          {job.cancelRequested && !isFinal(job.state) ? <span class="muted">cancel requested</span> : null}
        </State>
        <Copied text={job.id} />
        {mayOperate ? <JobActions job={job} /> : null}
      </div>
      <div class="columns">
        <div class="stack">
          {job.state === "Processing" ? <Running job={job} /> : null}
          <Executions job={job} />
          {failure === null ? null : (
            <section class="panel" aria-labelledby="error">
              <header>
                <h2 id="error">{job.error === null ? "Result not kept" : "Error"}</h2>
              </header>
              <pre>
                {lastStack?.includes(failure)
                  ? lastStack
                  : [failure, lastStack].filter((part) => part !== null).join("\n")}
              </pre>
            </section>
          )}
          <Timeline job={job} />
        </div>
        <div class="stack">
          <Origin job={job} />
          {job.children.length === 0 ? null : <Children job={job} />}
          <Data id="payload" name="Payload" value={job.payload} />
          {job.state === "Succeeded" ? <Data id="result" name="Result" value={job.result} /> : null}
        </div>
      </div>
    </>
  );
}

function JobActions({ job }: { readonly job: JobDetail }) {
  const action = (
    name: string,
    label: string,
    options: { readonly primary?: boolean; readonly confirm?: string } = {},
  ) => (
    <form method="post" action={`/jobs/${job.id}/${name}`}>
      <button class={options.primary ? "button primary" : "button"} type="submit" data-confirm={options.confirm}>
        {label}
      </button>
    </form>
  );
  if (!isFinal(job.state)) {
    return <span class="actions">{job.cancelRequested ? null : action("cancel", "Cancel")}</span>;
  }
  return (
    <span class="actions">
      {action("requeue", job.state === "Succeeded" ? "Run again" : "Requeue", { primary: job.state !== "Succeeded" })}
      {action("delete", "Delete", { confirm: "Delete this job with its attempts and its timeline?" })}
    </span>
  );
}

function Running({ job }: { readonly job: JobDetail }) {
  return (
    <section class="panel" aria-labelledby="running">
      <header>
        <h2 id="running">Running</h2>
        <span class="muted">
          on {job.worker ?? "a worker"}
          {job.startedAt === null ? null : (
            <>
              {" for "}
              <Counted at={job.startedAt} now={job.now} as="since" />
            </>
          )}
          {job.timeoutMs === null ? null : `, times out after ${tookText(job.timeoutMs)}`}
        </span>
        <LiveMark />
      </header>
      <div class="progress">
        <span>
          {Math.round(job.progress)} %
          {job.progressMessage === null ? null : <span class="muted"> {job.progressMessage}</span>}
        </span>
        <progress max="100" value={job.progress.toFixed(1)} aria-label="Progress" />
      </div>
    </section>
  );
}

const OUTCOMES: Readonly<Record<AttemptView["outcome"], { readonly tone: Tone; readonly word: string }>> = {
  succeeded: { tone: "succeeded", word: "Succeeded" },
  failed: { tone: "failed", word: "Failed" },
  "timed-out": { tone: "failed", word: "Timed out" },
  cancelled: { tone: "cancelled", word: "Cancelled" },
  returned: { tone: "enqueued", word: "Returned" },
  lost: { tone: "cancelled", word: "Worker lost" },
  snoozed: { tone: "scheduled", word: "Snoozed" },
};

function Executions({ job }: { readonly job: JobDetail }) {
  const { attempts } = job;
  const budget = job.maxAttempts === null ? "" : ` of ${job.maxAttempts}`;
  return (
    <section class="panel" aria-labelledby="executions">
      <header>
        <h2 id="executions">Executions</h2>
        <span class="muted">
          attempt {job.attempt}
          {budget}
          {job.lost > 0 ? `, ${job.lost} lost` : ""}
          {job.generation > 0 ? `, requeued ${job.generation === 1 ? "once" : `${job.generation} times`}` : ""}
        </span>
      </header>
      {attempts.length === 0 ? (
        <p class="empty">{job.state === "Processing" ? "The first execution is under way." : "It has not run yet."}</p>
      ) : (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th>#</th>
                <th>Outcome</th>
                <th>Worker</th>
                <th class="wide">Started</th>
                <th class="right">Took</th>
              </tr>
            </thead>
            <tbody>
              {attempts.map((attempt) => (
                <tr>
                  <td class="mono">{attempt.execution}</td>
                  <td>
                    <State tone={OUTCOMES[attempt.outcome].tone}>{OUTCOMES[attempt.outcome].word}</State>
                    {attempt.error === null ? null : (
                      <span class="muted clip" title={attempt.error}>
                        {attempt.error}
                      </span>
                    )}
                  </td>
                  <td class="mono">
                    <span class="clip" title={attempt.worker}>
                      {attempt.worker}
                    </span>
                  </td>
                  <td class="mono wide">
                    {attempt.startedAt === null ? "–" : <Instant at={attempt.startedAt} shape="day" />}
                  </td>
                  <td class="right">{tookText(attempt.durationMs)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function Timeline({ job }: { readonly job: JobDetail }) {
  return (
    <section class="panel" aria-labelledby="timeline">
      <header>
        <h2 id="timeline">Timeline</h2>
      </header>
      <ol class="timeline">
        {job.timeline.map((entry) => (
          <li>
            <Instant at={entry.at} shape="day" />
            <i class={`mark ${stateTone(entry.to)}`} />
            <span>{tell(job, entry)}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}

/** One step of the timeline as a sentence; the attempts tell where and how long. */
function tell(job: JobDetail, entry: TimelineEntry): Child {
  const { from, to, reason } = entry;
  if (from === null) {
    const by = job.schedule === null ? "" : ` by schedule ${job.schedule}`;
    const late = job.lateByMs !== null && job.lateByMs > 0 ? `, ${tookText(job.lateByMs)} late` : "";
    return `${to}${by}${late}`;
  }
  if (to === "Processing") {
    const worker = job.state === "Processing" && entry === job.timeline.at(-1) ? job.worker : workerAfter(job, entry);
    return `Processing${worker === null ? "" : ` on ${worker}`}`;
  }
  const ended = from === "Processing" ? attemptEndedAt(job, entry) : null;
  return (
    <>
      {to}
      <span class="muted">: {explain(reason, ended)}</span>
    </>
  );
}

/** The attempt that began with this claim is the first to end after it. */
function workerAfter(job: JobDetail, { at }: TimelineEntry): string | null {
  return job.attempts.findLast((attempt) => attempt.finishedAt >= at)?.worker ?? null;
}

function attemptEndedAt(job: JobDetail, { at }: TimelineEntry): AttemptView | null {
  return job.attempts.find((attempt) => Math.abs(attempt.finishedAt.getTime() - at.getTime()) < 50) ?? null;
}

function explain(reason: string | null, ended: AttemptView | null): string {
  const took = ended?.durationMs === null || ended === null ? "" : ` after ${tookText(ended.durationMs)}`;
  switch (reason) {
    case "retry":
      return `${ended?.outcome === "timed-out" ? "timed out" : "failed"}${took}, to be tried again`;
    case "worker lost":
      return "its worker gave no sign of life";
    case "snoozed":
      return `put off by the handler${took}, nothing charged`;
    case "returned":
      return "handed back by its worker, nothing charged";
    case "finished":
    case "failed":
      return ended?.outcome === "timed-out" ? `timed out${took}` : took === "" ? reason : took.trimStart();
    default:
      return reason ?? "";
  }
}

function Origin({ job }: { readonly job: JobDetail }) {
  const { source } = job;
  const bundle = job.attempts[0]?.bundle ?? null;
  return (
    <section class="panel" aria-labelledby="origin">
      <header>
        <h2 id="origin">Where it comes from</h2>
      </header>
      <dl class="kv">
        <Fact name="Declared">
          {source === null ? (
            "not known any more"
          ) : (
            <span class="mono">
              {source.file}:{source.line}
            </span>
          )}
        </Fact>
        {source?.commit === null || source === null ? null : (
          <Fact name="Commit">
            <span class="mono" title={source.commit}>
              {shortCommit(source.commit)}
            </span>{" "}
            {source.author}
            {job.committedAt === null ? null : (
              <>
                , <Counted at={job.committedAt} now={job.now} as="ago" />
              </>
            )}
            {job.commitMessage === null ? null : (
              <>
                <br />
                <span class="muted">“{job.commitMessage}”</span>
              </>
            )}
          </Fact>
        )}
        {source === null ? null : <Fact name="Revision">{source.revision}</Fact>}
        {bundle === null ? null : (
          <Fact name="Code">
            <span class="mono" title={bundle}>
              {shortHash(bundle)}
            </span>
          </Fact>
        )}
        {job.concurrencyKey === null ? null : (
          <Fact name="Concurrency key">
            <span class="mono">{job.concurrencyKey}</span>
          </Fact>
        )}
        {job.schedule === null ? null : (
          <Fact name="Schedule">
            <a href={`/jobs?schedule=${encodeURIComponent(job.schedule)}`}>{job.schedule}</a>
            {job.firedFor === null ? null : (
              <span class="muted">
                , for <Instant at={job.firedFor} shape="day" />
              </span>
            )}
          </Fact>
        )}
        {job.parent === null ? null : (
          <Fact name="Enqueued by">
            {job.parent.state === null ? (
              <span class="mono">{job.parent.id}, not kept any more</span>
            ) : (
              <a href={`/jobs/${job.parent.id}`} title={job.parent.id}>
                {job.parent.type}
              </a>
            )}
          </Fact>
        )}
        <Fact name="Queue">
          {job.queue}
          <span class="muted">, priority {job.priority}</span>
        </Fact>
        {job.runsAlone === null ? null : (
          <Fact name="Isolation">
            alone in a process of its own<span class="muted">, {ALONE[job.runsAlone]}</span>
          </Fact>
        )}
        <Fact name={job.state === "Scheduled" && job.execution > 0 ? "Runs again" : "Due"}>
          <Instant at={job.runAt} shape="day" />
        </Fact>
        {job.timeoutMs === null ? null : <Fact name="Time-out">{tookText(job.timeoutMs)}</Fact>}
        {job.fence === null ? null : (
          <Fact name="Fence">
            <span class="mono">{wholeNumber(Number(job.fence))}</span>
          </Fact>
        )}
      </dl>
    </section>
  );
}

const ALONE: Readonly<Record<NonNullable<JobDetail["runsAlone"]>, string>> = {
  lost: "since a worker was lost with it",
  "lost-unstarted": "since workers were lost with it again and again",
  returned: "since workers gave it back again and again",
};

/** What its handler enqueued with its success. */
function Children({ job }: { readonly job: JobDetail }) {
  return (
    <section class="panel" aria-labelledby="children">
      <header>
        <h2 id="children">Enqueued by this job</h2>
        <span class="muted">
          {job.hasMoreChildren ? "the first " : ""}
          {wholeNumber(job.children.length)}
        </span>
      </header>
      <div class="scroll">
        <table>
          <tbody>
            {job.children.map((child) => (
              <tr>
                <td>
                  <a class="clip" href={`/jobs/${child.id}`} title={child.id}>
                    {child.type}
                  </a>
                </td>
                <td>
                  <State tone={stateTone(child.state)}>{child.state}</State>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Fact({ name, children }: { readonly name: string; readonly children?: Child }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

/** Characters of data that a page shows; the API gives all of it. */
const MAX_SHOWN = 20_000;

function Data({ id, name, value }: { readonly id: string; readonly name: string; readonly value: Json }) {
  const text = JSON.stringify(value, null, 2);
  return (
    <section class="panel" aria-labelledby={id}>
      <header>
        <h2 id={id}>{name}</h2>
        {text.length > MAX_SHOWN ? <span class="muted">the first {wholeNumber(MAX_SHOWN)} characters</span> : null}
      </header>
      <pre>{text.slice(0, MAX_SHOWN)}</pre>
    </section>
  );
}
