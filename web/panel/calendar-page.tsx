import type { FireLoad } from "./fire-load.ts";
import { wholeNumber } from "./format.ts";

const QUARTER_MS = 900_000;
const HOURS = Array.from({ length: 24 }, (_, hour) => hour);
/** Zones that are offered; others by the address. */
const MAX_ZONES = 6;
/** Schedules that are named as left out. */
const MAX_FREQUENT = 5;
const CELL = { width: 26, height: 22, gap: 2, left: 92, top: 20 } as const;

/** The fires of the coming days as a map of hours, and the instants that many schedules share. */
export function CalendarPage({ load, timeZone }: { readonly load: FireLoad; readonly timeZone: string }) {
  const days = layOutDays(load, timeZone);
  const most = Math.max(0, ...days.flatMap(({ hours }) => hours));
  const total = days.reduce((sum, { fires }) => sum + fires, 0);
  const zones = [...new Set([...load.timeZones.slice(0, MAX_ZONES), "UTC", timeZone])];
  return (
    <>
      <div class="title">
        <h1>Calendar</h1>
        <span class="muted">
          {wholeNumber(total)} fires of {wholeNumber(load.schedules)} schedules in {days.length} days
        </span>
        <span class="actions">
          <a class="button" href="/schedules">
            Schedules
          </a>
        </span>
      </div>
      <nav class="tabs" aria-label="Time zones">
        {zones.map((zone) => (
          <a href={`/calendar?tz=${encodeURIComponent(zone)}`} aria-current={zone === timeZone ? "page" : undefined}>
            {zone}
          </a>
        ))}
      </nav>
      <section class="panel" aria-labelledby="load">
        <header>
          <h2 id="load">Fires by hour</h2>
          <span class="muted">on the clocks of {timeZone}</span>
          {load.peak === null ? null : (
            <span class="end muted">
              at most {wholeNumber(load.peak.fires)} a minute, {zonedMinute(load.peak.at, timeZone)}
            </span>
          )}
        </header>
        {total === 0 ? (
          <p class="empty">
            Nothing fires in these days. <a href="/schedules">All schedules</a> show their next fires.
          </p>
        ) : (
          <HeatMap days={days} most={most} />
        )}
        {load.frequent.length > 0 ? (
          <p class="empty">
            Left out, since they fire all the time: {load.frequent.slice(0, MAX_FREQUENT).join(", ")}
            {load.frequent.length > MAX_FREQUENT ? ` and ${load.frequent.length - MAX_FREQUENT} more` : ""}.
          </p>
        ) : null}
        {load.isPart ? <p class="empty">There are more schedules than are looked at here.</p> : null}
      </section>
      <section class="panel" aria-labelledby="shared">
        <header>
          <h2 id="shared">At the same instant</h2>
          <span class="muted">most schedules first</span>
        </header>
        {load.shared.length === 0 ? (
          <p class="empty">No two schedules fire at the same instant.</p>
        ) : (
          <ul class="list">
            {load.shared.map(({ at, schedules, names }) => (
              <li>
                <span class="mono" title={at.toISOString()}>
                  {zonedMinute(at, timeZone)}
                </span>
                <span class="what" title={names.join(", ")}>
                  {names.map((name, index) => (
                    <>
                      {index === 0 ? "" : ", "}
                      <a href={`/schedules/${encodeURIComponent(name)}`}>{name}</a>
                    </>
                  ))}
                  {schedules > names.length ? <span class="muted"> and {schedules - names.length} more</span> : null}
                </span>
                <span class="end">{schedules} schedules</span>
              </li>
            ))}
          </ul>
        )}
      </section>
    </>
  );
}

interface HeatDay {
  /** `2026-12-24`. */
  readonly date: string;
  readonly weekday: string;
  readonly hours: readonly number[];
  readonly fires: number;
}

/** Days and hours on the clocks of a zone; an hour that comes twice counts for one cell. */
function layOutDays({ from, until, quarters }: FireLoad, timeZone: string): readonly HeatDay[] {
  const format = new Intl.DateTimeFormat("sv-SE", {
    timeZone,
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    hourCycle: "h23",
  });
  const weekdays = new Intl.DateTimeFormat("en", { timeZone: "UTC", weekday: "short" });
  const days = new Map<string, number[]>();
  const first = from.getTime() - (from.getTime() % QUARTER_MS);
  for (let quarter = first; quarter <= until.getTime(); quarter += QUARTER_MS) {
    const [date = "", hour = "0"] = format.format(quarter).split(" ");
    const hours = days.get(date) ?? HOURS.map(() => 0);
    days.set(date, hours);
    hours[Number(hour)] = (hours[Number(hour)] ?? 0) + (quarters.get(quarter) ?? 0);
  }
  return [...days].map(([date, hours]) => ({
    date,
    weekday: weekdays.format(new Date(`${date}T12:00:00Z`)),
    hours,
    fires: hours.reduce((sum, count) => sum + count, 0),
  }));
}

function HeatMap({ days, most }: { readonly days: readonly HeatDay[]; readonly most: number }) {
  const width = CELL.left + HOURS.length * (CELL.width + CELL.gap) + 60;
  const height = CELL.top + days.length * (CELL.height + CELL.gap);
  const x = (hour: number) => CELL.left + hour * (CELL.width + CELL.gap);
  const y = (row: number) => CELL.top + row * (CELL.height + CELL.gap);
  return (
    <div class="scroll">
      <svg
        class="heat"
        viewBox={`0 0 ${width} ${height}`}
        role="img"
        aria-label={`Fires by day and hour, at most ${most} in an hour`}
      >
        {HOURS.filter((hour) => hour % 3 === 0).map((hour) => (
          <text x={x(hour)} y="13">{`${String(hour).padStart(2, "0")}:00`}</text>
        ))}
        {days.map((day, row) => (
          <g>
            <text x="0" y={y(row) + 15}>
              {`${day.weekday} ${day.date.slice(5)}`}
            </text>
            {day.hours.map((count, hour) => (
              <rect
                class={`heat-${levelOf(count, most)}`}
                x={x(hour)}
                y={y(row)}
                width={CELL.width}
                height={CELL.height}
                rx="2"
              >
                <title>{`${day.date} ${String(hour).padStart(2, "0")}:00: ${count} ${count === 1 ? "fire" : "fires"}`}</title>
              </rect>
            ))}
            <text class="sum" x={x(24) + 6} y={y(row) + 15}>
              {wholeNumber(day.fires)}
            </text>
          </g>
        ))}
      </svg>
    </div>
  );
}

/** From 0, no fire, to 5, the hour with most; in between by the logarithm. */
function levelOf(count: number, most: number): number {
  if (count === 0) return 0;
  return most <= 1 ? 3 : 1 + Math.round((4 * Math.log(count)) / Math.log(most));
}

/** `Thu 2026-12-24 06:00`. */
function zonedMinute(at: Date, timeZone: string): string {
  const text = new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short", timeStyle: "medium" }).format(at);
  const weekday = new Intl.DateTimeFormat("en", { timeZone, weekday: "short" }).format(at);
  return `${weekday} ${text.endsWith(":00") ? text.slice(0, -3) : text}`;
}
