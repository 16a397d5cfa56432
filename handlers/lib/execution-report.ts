/** Executions of one queue that ended within one minute. */
export interface QueueMinute {
  readonly minute: Date;
  readonly queue: string;
  readonly succeeded: number;
  readonly failed: number;
  readonly cancelled: number;
  /** Ended executions with any outcome, failed attempts that were retried included. */
  readonly executions: number;
  /** How long they ran together. */
  readonly ranMs: number;
}

export interface ReportData {
  readonly minutes: readonly QueueMinute[];
  readonly from: Date;
  readonly to: Date;
}

type Count = "succeeded" | "failed" | "cancelled" | "executions" | "ranMs";

const OUTCOMES = [
  { member: "succeeded", label: "Succeeded", colour: "#2f7d5d" },
  { member: "failed", label: "Failed", colour: "#c4422b" },
  { member: "cancelled", label: "Cancelled", colour: "#8a8f98" },
] as const;

const WIDTH = 960;
const HEIGHT = 300;
const PLOT = { left: 56, right: 12, top: 12, bottom: 34 };
const MAX_BARS = 72;

export function sumBy(minutes: readonly QueueMinute[], member: Count): number {
  return minutes.reduce((sum, minute) => sum + minute[member], 0);
}

/** One line per minute and queue, with a header; RFC 4180. */
export function renderCsv(minutes: readonly QueueMinute[]): string {
  const rows = minutes.map((row) => [
    row.minute.toISOString(),
    row.queue,
    row.succeeded,
    row.failed,
    row.cancelled,
    row.executions,
    averageMs([row]),
  ]);
  const header = ["minute", "queue", "succeeded", "failed", "cancelled", "executions", "average_ms"];
  return [header, ...rows].map((cells) => `${cells.map(csvCell).join(",")}\r\n`).join("");
}

/** A page that needs nothing but itself: no script, no font, no address of another server. */
export function renderPage({ minutes, from, to }: ReportData): string {
  const queues = [...new Set(minutes.map(({ queue }) => queue))].sort();
  const rows = [
    ...queues.map((queue) =>
      renderRow(
        queue,
        minutes.filter((row) => row.queue === queue),
      ),
    ),
    renderRow("All queues", minutes),
  ];
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Executions ${formatTime(from)} to ${formatTime(to)}</title>
<style>
  body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1d2126; background: #fff; }
  h1 { font-size: 1.3rem; margin: 0; } p { margin: .25rem 0 1rem; color: #59616b; }
  svg { width: 100%; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: #59616b; }
  table { border-collapse: collapse; width: 100%; margin-top: 1rem; font-variant-numeric: tabular-nums; }
  th, td { padding: .35rem .5rem; text-align: right; border-bottom: 1px solid #e3e6ea; } th:first-child, td:first-child { text-align: left; }
  tr:last-child td { font-weight: 600; } .key { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 1em; }
</style>
</head>
<body>
<h1>Executions</h1>
<p>${formatTime(from)} to ${formatTime(to)}, UTC${OUTCOMES.map(({ label, colour }) => ` <span class="key" style="background:${colour}"></span>${label}`).join("")}</p>
${renderChart({ minutes, from, to })}
<table>
<thead><tr><th>Queue</th>${OUTCOMES.map(({ label }) => `<th>${label}</th>`).join("")}<th>Executions</th><th>Average</th></tr></thead>
<tbody>
${rows.join("\n")}
</tbody>
</table>
</body>
</html>
`;
}

function renderRow(name: string, minutes: readonly QueueMinute[]): string {
  const counts = [...OUTCOMES.map(({ member }) => sumBy(minutes, member)), sumBy(minutes, "executions")];
  const cells = [...counts.map(String), `${averageMs(minutes)} ms`];
  return `<tr><td>${escapeHtml(name)}</td>${cells.map((cell) => `<td>${cell}</td>`).join("")}</tr>`;
}

/** Stacked bars over time; each bar holds as many whole minutes as make at most 72 of them. */
function renderChart({ minutes, from, to }: ReportData): string {
  const spanMs = Math.max(60_000, to.getTime() - from.getTime());
  const barMs = Math.ceil(spanMs / 60_000 / MAX_BARS) * 60_000;
  const count = Math.ceil(spanMs / barMs);
  const bars = Array.from({ length: count }, (): Record<string, number> => ({ succeeded: 0, failed: 0, cancelled: 0 }));
  for (const row of minutes) {
    // The minute that `from` lies in began before it.
    const bar = bars[Math.min(count - 1, Math.max(0, Math.floor((row.minute.getTime() - from.getTime()) / barMs)))];
    if (bar === undefined) continue;
    for (const { member } of OUTCOMES) bar[member] = (bar[member] ?? 0) + row[member];
  }
  const top = niceCeiling(Math.max(1, ...bars.map((bar) => Object.values(bar).reduce((sum, value) => sum + value, 0))));
  const plotWidth = WIDTH - PLOT.left - PLOT.right;
  const plotHeight = HEIGHT - PLOT.top - PLOT.bottom;
  const step = plotWidth / count;
  const yOf = (value: number) => PLOT.top + plotHeight * (1 - value / top);

  const shapes = bars.flatMap((bar, index) => {
    let below = 0;
    return OUTCOMES.flatMap(({ member, label, colour }) => {
      const value = bar[member] ?? 0;
      if (value === 0) return [];
      below += value;
      const x = (PLOT.left + index * step + step * 0.1).toFixed(1);
      const height = Math.max(1, (plotHeight * value) / top).toFixed(1);
      const at = formatTime(new Date(from.getTime() + index * barMs));
      return [
        `<rect x="${x}" y="${yOf(below).toFixed(1)}" width="${(step * 0.8).toFixed(1)}" height="${height}" fill="${colour}"><title>${at}: ${value} ${label.toLowerCase()}</title></rect>`,
      ];
    });
  });
  const grid = [0, 0.5, 1].map((share) => {
    const y = yOf(top * share).toFixed(1);
    return `<line x1="${PLOT.left}" x2="${WIDTH - PLOT.right}" y1="${y}" y2="${y}" stroke="#e3e6ea"/><text x="${PLOT.left - 8}" y="${y}" text-anchor="end" dominant-baseline="middle">${top * share}</text>`;
  });
  const times = [0, 0.25, 0.5, 0.75, 1].map((share) => {
    const anchor = share === 0 ? "start" : share === 1 ? "end" : "middle";
    const at = new Date(from.getTime() + spanMs * share);
    return `<text x="${PLOT.left + plotWidth * share}" y="${HEIGHT - 10}" text-anchor="${anchor}">${formatTime(at).slice(11)}</text>`;
  });
  return `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="Executions over time">
${[...grid, ...shapes, ...times].join("\n")}
</svg>`;
}

/** 1, 2 or 5 times a power of ten, even so that half of it is whole. */
function niceCeiling(value: number): number {
  const magnitude = 10 ** Math.floor(Math.log10(value));
  const factor = [1, 2, 5, 10].find((candidate) => candidate * magnitude >= value) ?? 10;
  return Math.max(2, factor * magnitude);
}

function averageMs(minutes: readonly QueueMinute[]): number {
  const executions = sumBy(minutes, "executions");
  return executions === 0 ? 0 : Math.round(sumBy(minutes, "ranMs") / executions);
}

function formatTime(at: Date): string {
  return at.toISOString().slice(0, 16).replace("T", " ");
}

function csvCell(value: string | number): string {
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
