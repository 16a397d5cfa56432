import type { FireView, ScheduleView } from "../../runtime/protocol/ports/panel.ts";
import { writeCursor } from "../listing.ts";
import { describeFire } from "./fire-text.ts";
import { timingText, zonedText } from "./format.ts";
import { Counted, Declared } from "./marks.tsx";

/** Fires of a schedule's strip. */
export const FIRES_SHOWN = 24;
/** A fire that came later than this stands out. */
const LATE_MS = 60_000;

export interface SchedulesFacts {
  readonly now: Date;
  readonly schedules: readonly ScheduleView[];
  readonly fires: ReadonlyMap<string, readonly FireView[]>;
  readonly next: string | null;
  readonly firstPage: boolean;
  readonly mayOperate: boolean;
}

export function SchedulesPage({ now, schedules, fires, next, firstPage, mayOperate }: SchedulesFacts) {
  const paused = schedules.filter(({ pause }) => (pause ?? null) !== null).length;
  const suspended = schedules.filter((schedule) => schedule.suspended).length - paused;
  return (
    <>
      <div class="title">
        <h1>Schedules</h1>
        <span class="muted">
          {next === null && firstPage ? `${schedules.length} declared` : "by name"}
          {suspended > 0 ? `, ${suspended} suspended` : ""}
          {paused > 0 ? `, ${paused} paused` : ""}
        </span>
        <span class="actions">
          <a class="button" href="/calendar">
            Calendar
          </a>
        </span>
      </div>
      <section class="panel" aria-label="Schedules">
        {schedules.length === 0 ? (
          <p class="empty">
            No schedule is declared. Put a <code>kind: Schedule</code> document with a <code>cron</code>,{" "}
            <code>every</code> or <code>at</code> into <code>turno.d/</code>; it is in force within a second of the
            save.
          </p>
        ) : (
          <div class="scroll">
            <table>
              <thead>
                <tr>
                  <th>Schedule</th>
                  <th>When</th>
                  <th class="wide">Last {FIRES_SHOWN} fires</th>
                  <th>Next</th>
                  <th class="wide">Declared</th>
                  {mayOperate ? <th class="wide" aria-label="Actions" /> : null}
                </tr>
              </thead>
              <tbody>
                {schedules.map((schedule) => (
                  <ScheduleRow
                    schedule={schedule}
                    fires={fires.get(schedule.name) ?? []}
                    now={now}
                    mayOperate={mayOperate}
                  />
                ))}
              </tbody>
            </table>
          </div>
        )}
      </section>
      <nav class="pager" aria-label="Pages">
        {firstPage ? null : (
          <a class="button" href="/schedules">
            First
          </a>
        )}
        {next === null ? null : (
          <a class="button" href={`/schedules?cursor=${writeCursor(next)}`} rel="next">
            More
          </a>
        )}
      </nav>
    </>
  );
}

function ScheduleRow(props: {
  readonly schedule: ScheduleView;
  readonly fires: readonly FireView[];
  readonly now: Date;
  readonly mayOperate: boolean;
}) {
  const { schedule, fires, now } = props;
  const path = encodeURIComponent(schedule.name);
  return (
    <tr id={`schedule-${schedule.name}`}>
      <td>
        <a class="clip" href={`/schedules/${path}`} title={`${schedule.name}: its fires`}>
          {schedule.name}
        </a>
        {schedule.jobType === schedule.name ? null : (
          <span class="muted clip" title={schedule.jobType}>
            {schedule.jobType}
          </span>
        )}
      </td>
      <td>
        <span class="mono">{timingText(schedule.spec.timing)}</span>
        <br />
        <span class="muted">
          {schedule.spec.timing.kind === "every" && schedule.spec.timing.from === "finish"
            ? "from the finish"
            : schedule.spec.timeZone}
        </span>
      </td>
      <td class="wide">{fires.length === 0 ? <span class="muted">none yet</span> : <Strip fires={fires} />}</td>
      <td>
        <Next schedule={schedule} now={now} />
      </td>
      <td class="wide">
        <Declared source={schedule.source} />
      </td>
      {props.mayOperate ? (
        <td class="wide right">
          <form method="post" action={`/schedules/${path}/trigger`}>
            <button class="button small" type="submit" title={`Run ${schedule.name} now, whatever its timing`}>
              Run now
            </button>
          </form>
        </td>
      ) : null}
    </tr>
  );
}

/** Oldest on the left; a bar a fire. */
function Strip({ fires }: { readonly fires: readonly FireView[] }) {
  return (
    <div class="fires">
      {[...fires].reverse().map((fire) => {
        const { look, word } = describeFire(fire);
        const late = fire.lateByMs > LATE_MS && look !== "skipped";
        const shape = late ? `${look} late` : look;
        const title = `${fire.at.toISOString().replace(".000Z", "Z")}: ${word}${late ? ", late" : ""}`;
        return fire.jobId === null ? (
          <i class={shape} title={title} />
        ) : (
          <a class={shape} href={`/jobs/${fire.jobId}`} title={title}>
            <span class="unseen">{title}</span>
          </a>
        );
      })}
    </div>
  );
}

function Next({ schedule, now }: { readonly schedule: ScheduleView; readonly now: Date }) {
  const { pause = null } = schedule;
  if (pause !== null) {
    return (
      <>
        <span title={pause.reason ?? undefined}>paused</span>
        <br />
        <span class="muted">by {pause.by}</span>
      </>
    );
  }
  if (schedule.suspended) {
    return (
      <>
        suspended
        <br />
        <span class="muted">in its file</span>
      </>
    );
  }
  if (schedule.awaitsFinish) return <>when its run ends</>;
  if (schedule.nextFireAt === null) {
    return schedule.spec.timing.kind === "at" ? <>has fired</> : <>never fires</>;
  }
  return (
    <>
      <span title={schedule.nextFireAt.toISOString()}>
        {zonedText(schedule.nextFireAt, schedule.spec.timeZone, now)}
      </span>
      <br />
      <span class="muted">
        <Counted at={schedule.nextFireAt} now={now} as="until" />
      </span>
    </>
  );
}
