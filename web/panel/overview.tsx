import type { Child } from "hono/jsx";
import type { Concern, MinuteView, Statistics, SyncView, WorkerView } from "../../runtime/protocol/ports/panel.ts";
import { Board } from "./board.tsx";
import type { ComingUp } from "./coming-up.ts";
import { ConcernItem, SyncItem } from "./concerns.tsx";
import { tookText, wholeNumber } from "./format.ts";
import { Instant, State, type Tone } from "./marks.tsx";

export interface OverviewFacts {
  readonly figures: Statistics;
  readonly workers: readonly WorkerView[];
  readonly concerns: readonly Concern[];
  readonly coming: ComingUp;
  readonly sync: SyncView | null;
}

export function Overview({ figures, workers, concerns, coming, sync }: OverviewFacts) {
  const outOfForce = sync?.problem ?? null;
  const count = concerns.length + (outOfForce === null ? 0 : 1);
  return (
    <>
      <h1 class="unseen">Overview</h1>
      <Figures figures={figures} />
      <Board workers={workers} now={figures.now} />
      <div class="columns">
        <Executions minutes={figures.minutes} />
        <section class="panel" aria-labelledby="attention">
          <header>
            <h2 id="attention">Needs attention</h2>
            {count > 0 ? <span class="end muted">{count}</span> : null}
          </header>
          {count === 0 ? (
            <p class="empty">
              Nothing. Failures, missed fires, silent workers and queues that nobody takes from show up here.
            </p>
          ) : (
            <ul class="list">
              {sync === null || outOfForce === null ? null : <SyncItem sync={sync} now={figures.now} />}
              {concerns.map((concern) => (
                <ConcernItem concern={concern} now={figures.now} />
              ))}
            </ul>
          )}
        </section>
      </div>
      <Coming coming={coming} />
    </>
  );
}

function Figures({ figures }: { readonly figures: Statistics }) {
  const { lastDay } = figures;
  const letters = figures.deadLetters >= 10_000 ? "10,000+" : wholeNumber(figures.deadLetters);
  return (
    <section class="panel band" aria-label="Figures">
      <Figure href="/jobs?state=Enqueued" tone="enqueued" name="Queued" value={wholeNumber(figures.queued)} />
      <Figure href="/jobs?state=Processing" tone="running" name="Running" value={wholeNumber(figures.running)}>
        {figures.slots > 0 ? <small> / {wholeNumber(figures.slots)}</small> : null}
      </Figure>
      <Figure href="/jobs?state=Scheduled" tone="scheduled" name="Scheduled" value={wholeNumber(figures.scheduled)} />
      <Figure
        href="/jobs?state=Succeeded"
        tone="succeeded"
        name="Succeeded, 24 h"
        value={wholeNumber(lastDay.succeeded)}
      />
      <Figure href="/jobs?state=Failed" tone="failed" name="Failed, 24 h" value={wholeNumber(lastDay.failed)} />
      <Figure href="/jobs?state=Failed" tone="failed" name="Dead letters" value={letters} />
      <Figure href="/queues" tone={null} name="Mean duration" value={tookText(lastDay.meanMs)} />
    </section>
  );
}

function Figure(props: {
  readonly href: string;
  readonly tone: Tone | null;
  readonly name: string;
  readonly value: string;
  readonly children?: Child;
}) {
  return (
    <a href={props.href}>
      <dl>
        <dt>
          {props.tone === null ? null : <i class={`mark ${props.tone}`} />}
          {props.name}
        </dt>
        <dd>
          {props.value}
          {props.children}
        </dd>
      </dl>
    </a>
  );
}

const CHART = { width: 720, height: 120, foot: 116 } as const;

/** Executions that ended, a bar a minute; failures stand on top. */
function Executions({ minutes }: { readonly minutes: readonly MinuteView[] }) {
  const peak = Math.max(...minutes.map((minute) => minute.succeeded + minute.failed), 0);
  const scale = (CHART.foot - 16) / Math.max(peak, 4);
  const labels = [0, 15, 30, 45].flatMap((index) => minutes[index] ?? []);
  return (
    <section class="panel" aria-labelledby="executions">
      <header>
        <h2 id="executions">Executions a minute</h2>
        <span class="muted">{peak === 0 ? "last hour" : `last hour, peak ${wholeNumber(peak)}`}</span>
        <span class="end legend">
          <State tone="succeeded">
            <span class="muted">succeeded</span>
          </State>
          <State tone="failed">
            <span class="muted">failed</span>
          </State>
        </span>
      </header>
      <div class="chart">
        <svg
          viewBox={`0 0 ${CHART.width} ${CHART.height}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={`At most ${peak} executions a minute in the last hour`}
        >
          {[16, 66].map((y) => (
            <line class="axis" x1="0" x2={CHART.width} y1={y} y2={y} />
          ))}
          {minutes.map((minute, index) => (
            <Bar minute={minute} x={index * 12 + 1.5} scale={scale} />
          ))}
          <line class="axis" x1="0" x2={CHART.width} y1={CHART.foot + 0.5} y2={CHART.foot + 0.5} />
        </svg>
        <div class="scale">
          {labels.map(({ minute }) => (
            <Instant at={minute} shape="minute" />
          ))}
          <span>now</span>
        </div>
      </div>
    </section>
  );
}

function Bar({ minute, x, scale }: { readonly minute: MinuteView; readonly x: number; readonly scale: number }) {
  const { succeeded, failed } = minute;
  if (succeeded + failed === 0) return null;
  const ok = succeeded * scale;
  const bad = failed * scale;
  return (
    <g>
      <title>{`${minute.minute.toISOString().slice(11, 16)} UTC: ${succeeded} succeeded, ${failed} failed`}</title>
      {ok > 0 ? <rect class="ok" x={x} width="9" y={(CHART.foot - ok).toFixed(1)} height={ok.toFixed(1)} /> : null}
      {bad > 0 ? (
        <rect
          class="bad"
          x={x}
          width="9"
          y={(CHART.foot - ok - bad - (ok > 0 ? 1 : 0)).toFixed(1)}
          height={bad.toFixed(1)}
        />
      ) : null}
    </g>
  );
}

function Coming({ coming }: { readonly coming: ComingUp }) {
  const peak = Math.max(...coming.minutes);
  const peakMinute = new Date(coming.from.getTime() + coming.minutes.indexOf(peak) * 60_000);
  return (
    <section class="panel" aria-labelledby="coming">
      <header>
        <h2 id="coming">Coming up</h2>
        <span class="muted">fires of the next hour</span>
        {peak > 1 ? (
          <span class="end muted">
            peak <Instant at={peakMinute} shape="minute" />, {wholeNumber(peak)} fires
          </span>
        ) : null}
      </header>
      {coming.next.length === 0 ? (
        <p class="empty">
          {coming.schedules === 0 ? (
            <>
              No schedule is declared. Put a <code>kind: Schedule</code> document into <code>turno.d/</code>; it is in
              force within a second of the save.
            </>
          ) : (
            <>
              Nothing fires within the hour. <a href="/schedules">All schedules</a> show their next fires.
            </>
          )}
        </p>
      ) : (
        <>
          <div class="track">
            <svg viewBox="0 0 720 27" preserveAspectRatio="none" aria-hidden="true">
              {coming.minutes.map((count, minute) =>
                count === 0 ? null : (
                  <line
                    class="tick"
                    x1={minute * 12 + 1}
                    x2={minute * 12 + 1}
                    y1="26"
                    y2={(26 - tickHeight(count, peak)).toFixed(1)}
                  />
                ),
              )}
              <line class="axis" x1="0" x2="720" y1="26.5" y2="26.5" />
            </svg>
          </div>
          <ul class="list">
            {coming.next.map(({ at, schedules: [first, ...others], fires }) =>
              first === undefined ? null : (
                <li>
                  <span class="mono">
                    <Instant at={at} shape="clock" />
                  </span>
                  <span class="what" title={first.name}>
                    {first.name}
                    {others.length > 0 ? <span class="muted"> and {others.length} more</span> : null}
                    {others.length === 0 && fires > 1 ? <span class="muted">, {wholeNumber(fires)} times</span> : null}
                  </span>
                  {first.queue === null ? null : <span class="pill">{first.queue}</span>}
                  <span class="end mono wide">
                    {first.source === null ? "" : `${first.source.file}:${first.source.line}`}
                  </span>
                </li>
              ),
            )}
          </ul>
        </>
      )}
    </section>
  );
}

/** One fire is a small tick, the peak the whole height; in between by the logarithm. */
function tickHeight(count: number, peak: number): number {
  return peak <= 1 ? 10 : 6 + (20 * Math.log(count)) / Math.log(peak);
}
