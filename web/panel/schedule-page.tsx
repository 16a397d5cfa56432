import type { Child } from "hono/jsx";
import type { FireRecord, ScheduleRecord } from "../../runtime/protocol/ports/fire-history.ts";
import { describeFire } from "./fire-text.ts";
import { timingText, tookText, wholeNumber } from "./format.ts";
import { Counted, Declared, Instant } from "./marks.tsx";
import { PausePanel } from "./pause-panel.tsx";

/** Past fires and coming ones that the page of a schedule shows. */
export const PAST_SHOWN = 50;
export const COMING_SHOWN = 10;
const LATE_MS = 1_000;

export interface ScheduleFacts {
  readonly record: ScheduleRecord;
  readonly past: readonly FireRecord[];
  readonly coming: readonly Date[];
  readonly mayOperate: boolean;
}

/** One schedule: what it is, when it fires next, and what became of each instant. */
export function SchedulePage({ record, past, coming, mayOperate }: ScheduleFacts) {
  const { schedule, now, declaredAt } = record;
  const { spec, name } = schedule;
  const path = encodeURIComponent(name);
  return (
    <>
      <div class="title">
        <h1>{name}</h1>
        {schedule.suspended ? <span class="pill">{schedule.pause ? "paused" : "suspended"}</span> : null}
        <span class="actions">
          <a class="button" href={`/jobs?schedule=${path}`}>
            Its jobs
          </a>
          {mayOperate ? (
            <form method="post" action={`/schedules/${path}/trigger`}>
              <button class="button" type="submit" title={`Run ${name} now, whatever its timing`}>
                Run now
              </button>
            </form>
          ) : null}
        </span>
      </div>
      <div class="columns">
        <section class="panel" aria-labelledby="past">
          <header>
            <h2 id="past">Past fires</h2>
            <span class="muted">newest first</span>
          </header>
          {past.length === 0 ? (
            <p class="empty">
              It has not fired yet. Each fire, and each instant that is skipped, shows up here with its reason.
            </p>
          ) : (
            <ul class="list">
              {past.map((fire) => (
                <PastFire fire={fire} timeZone={spec.timeZone} />
              ))}
            </ul>
          )}
        </section>
        <div class="stack">
          <section class="panel" aria-labelledby="coming">
            <header>
              <h2 id="coming">Coming fires</h2>
              <span class="muted">{spec.timeZone}</span>
            </header>
            {coming.length === 0 ? (
              <p class="empty">{describeNone(record)}</p>
            ) : (
              <ul class="list">
                {coming.map((at, index) => (
                  <li>
                    <span class="mono" title={at.toISOString()}>
                      {zonedInstant(at, spec.timeZone)}
                    </span>
                    <span class="end">{index === 0 ? <Counted at={at} now={now} as="until" /> : null}</span>
                  </li>
                ))}
              </ul>
            )}
          </section>
          <PausePanel path={`/schedules/${path}`} pause={schedule.pause ?? null} mayOperate={mayOperate} />
          <section class="panel" aria-labelledby="facts">
            <header>
              <h2 id="facts">Schedule</h2>
            </header>
            <dl class="kv">
              <Fact name="When">
                <span class="mono">{timingText(spec.timing)}</span>
              </Fact>
              <Fact name="Zone">{spec.timeZone}</Fact>
              <Fact name="Job">{schedule.jobType}</Fact>
              <Fact name="Queue">{schedule.queue ?? "–"}</Fact>
              <Fact name="Overlap">{spec.concurrencyPolicy}</Fact>
              <Fact name="Missed">{spec.misfirePolicy}</Fact>
              {schedule.description === null ? null : <Fact name="For">{schedule.description}</Fact>}
              <Fact name="Declared">
                <Declared source={schedule.source} />
              </Fact>
              {declaredAt === null ? null : (
                <Fact name="In force since">
                  <Instant at={declaredAt} shape="day" />
                </Fact>
              )}
            </dl>
          </section>
        </div>
      </div>
    </>
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

const MARKS = { skipped: "enqueued", gone: "enqueued", waiting: "enqueued" } as const;

function PastFire({ fire, timeZone }: { readonly fire: FireRecord; readonly timeZone: string }) {
  const { look, word } = describeFire(fire);
  const tone = look === "skipped" || look === "gone" || look === "waiting" ? MARKS[look] : look;
  const late = fire.lateByMs >= LATE_MS && look !== "skipped" ? `, ${tookText(fire.lateByMs)} late` : "";
  return (
    <li>
      <i class={`mark ${tone}`} />
      <span class="mono" title={fire.at.toISOString()}>
        {zonedInstant(fire.at, timeZone)}
      </span>
      <span class="what" title={word}>
        {word}
        {late}
        {fire.olderSkips > 0 ? (
          <span class="muted"> and {wholeNumber(fire.olderSkips)} instants before it, skipped together</span>
        ) : null}
      </span>
      <span class="end mono">
        {fire.jobId === null ? null : <a href={`/jobs/${fire.jobId}`}>job</a>}
        {fire.jobId === null && fire.blockedBy !== null ? (
          <a href={`/jobs/${fire.blockedBy}`}>the job in its way</a>
        ) : null}
      </span>
    </li>
  );
}

function describeNone({ schedule }: ScheduleRecord): string {
  if (schedule.suspended) return "It is suspended: it does not fire, and nothing is owed for this time.";
  if (schedule.awaitsFinish) return "The next fire follows from the end of the run that is on its way.";
  return schedule.spec.timing.kind === "at" ? "It has fired." : "It never fires: no instant of its timing lies ahead.";
}

/** `Thu 2026-12-24 06:00`, with seconds where there are some. */
function zonedInstant(at: Date, timeZone: string): string {
  const text = new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short", timeStyle: "medium" }).format(at);
  const weekday = new Intl.DateTimeFormat("en", { timeZone, weekday: "short" }).format(at);
  return `${weekday} ${text.endsWith(":00") ? text.slice(0, -3) : text}`;
}
