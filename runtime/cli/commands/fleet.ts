import type { Command } from "commander";
import { humanDuration } from "../../core/duration.ts";
import type { CommandIo } from "../io.ts";
import { formatTable, shortInstant } from "../table.ts";
import { type ClientOptions, closing, type OpenClient, show, withClientOptions } from "./jobs.ts";

interface ScheduleBody {
  readonly name: string;
  readonly job: string;
  readonly timing:
    | { readonly kind: "cron"; readonly expression: string; readonly others?: readonly string[] }
    | { readonly kind: "every"; readonly intervalMs: number; readonly from: string }
    | { readonly kind: "at"; readonly at: string };
  readonly timeZone: string;
  readonly suspended: boolean;
  readonly pause?: { readonly until: string | null } | null;
  readonly nextFireAt: string | null;
  readonly lastFireAt: string | null;
  readonly awaitsFinish: boolean;
  readonly source: { readonly file: string; readonly line: number; readonly commit: string | null } | null;
}

interface WorkerBody {
  readonly id: string;
  readonly name: string;
  readonly status: string;
  readonly queues: readonly { readonly name: string; readonly concurrency: number }[];
  readonly registeredAt: string;
  readonly heartbeatAt: string;
  readonly duties: readonly string[];
  readonly running: readonly unknown[];
  readonly clockSkewMs: number | null;
  readonly handlersCutOff: number;
  readonly handlersStuck: number;
  readonly leasesFailing: boolean;
}

interface Page<Item> {
  readonly items: readonly Item[];
  readonly nextCursor: string | null;
}

/** `schedules`, `trigger`, `workers`: what is planned and who is there. */
export function addFleetCommands(program: Command, io: CommandIo, openClient: OpenClient): void {
  withClientOptions(program.command("schedules").description("list schedules with their next fires")).action(
    async (options: ClientOptions) => {
      await using client = closing(await openClient(options));
      const items: ScheduleBody[] = [];
      for (let cursor: string | null = ""; cursor !== null; ) {
        const query: string = cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`;
        const page: Page<ScheduleBody> = await client.get(`/api/recurring-jobs?limit=200${query}`);
        items.push(...page.items);
        cursor = page.nextCursor;
      }
      const text = formatTable({
        headings: ["NAME", "JOB", "TIMING", "ZONE", "NEXT FIRE", "LAST FIRE", "SOURCE"],
        rows: items.map((schedule) => [
          schedule.name,
          schedule.job,
          timingText(schedule.timing),
          schedule.timeZone,
          nextText(schedule),
          shortInstant(schedule.lastFireAt),
          schedule.source === null ? "-" : `${schedule.source.file}:${schedule.source.line}`,
        ]),
        empty: "no schedules are declared; add one to turno.d/",
      });
      show(io, options, items, text);
    },
  );

  withClientOptions(
    program.command("trigger <schedule>").description("fire a schedule now, whatever its timing"),
  ).action(async (name: string, options: ClientOptions) => {
    await using client = closing(await openClient(options));
    const { jobId } = await client.post<{ jobId: string }>(`/api/recurring-jobs/${encodeURIComponent(name)}/trigger`);
    show(io, options, { jobId }, `${jobId}  fired ${name}\n`);
  });

  withClientOptions(program.command("workers").description("list workers, what they serve and what they run")).action(
    async (options: ClientOptions) => {
      await using client = closing(await openClient(options));
      const page = await client.get<Page<WorkerBody>>("/api/workers");
      const text = formatTable({
        headings: ["NAME", "STATUS", "UP", "RUNNING", "QUEUES", "LEADS", "CLOCK", "NOTES"],
        rows: page.items.map((worker) => [
          worker.name,
          worker.status,
          humanDuration(Math.max(0, Date.parse(worker.heartbeatAt) - Date.parse(worker.registeredAt))),
          String(worker.running.length),
          worker.queues.map((queue) => `${queue.name}×${queue.concurrency}`).join(" "),
          worker.duties.length === 0 ? "-" : worker.duties.join(" "),
          skewText(worker.clockSkewMs),
          notesText(worker),
        ]),
        empty: "no workers are registered; start one with: turno worker",
      });
      show(io, options, page.items, text);
    },
  );
}

/** The worker's clock against the database's: `+1.2 s` is ahead of it. */
function skewText(skewMs: number | null): string {
  if (skewMs === null) return "-";
  const text = humanDuration(Math.abs(skewMs));
  return skewMs === 0 ? text : `${skewMs > 0 ? "-" : "+"}${text}`;
}

function notesText({ leasesFailing, handlersStuck, handlersCutOff }: WorkerBody): string {
  const notes = [
    ...(leasesFailing ? ["cannot renew its leases"] : []),
    ...(handlersStuck > 0 ? [`${handlersStuck} handlers cannot be ended`] : []),
    ...(handlersCutOff > 0 ? [`${handlersCutOff} handlers cut off`] : []),
  ];
  return notes.length === 0 ? "-" : notes.join(", ");
}

function timingText(timing: ScheduleBody["timing"]): string {
  if (timing.kind === "cron") return [timing.expression, ...(timing.others ?? [])].join(", ");
  if (timing.kind === "at") return `at ${shortInstant(timing.at)}`;
  return `every ${humanDuration(timing.intervalMs)}${timing.from === "finish" ? " from finish" : ""}`;
}

function nextText(schedule: ScheduleBody): string {
  if (schedule.pause)
    return schedule.pause.until === null ? "paused" : `paused until ${shortInstant(schedule.pause.until)}`;
  if (schedule.suspended) return "suspended";
  if (schedule.awaitsFinish) return "after its run";
  return schedule.nextFireAt === null ? "never" : shortInstant(schedule.nextFireAt);
}
