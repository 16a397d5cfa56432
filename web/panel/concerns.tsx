import type { Child } from "hono/jsx";
import { unreachable } from "../../runtime/core/assert.ts";
import type { Concern, SyncView } from "../../runtime/protocol/ports/panel.ts";
import { tookText, wholeNumber } from "./format.ts";
import { describeSync } from "./layout.tsx";
import { Counted, type Tone } from "./marks.tsx";

/** One thing that a person should look at, and where. */
export function ConcernItem({ concern, now }: { readonly concern: Concern; readonly now: Date }) {
  const { tone, href, what, end } = describe(concern, now);
  return (
    <li>
      <i class={`mark ${tone}`} />
      <a class="what" href={href}>
        {what}
      </a>
      <span class="end">{end}</span>
    </li>
  );
}

/** Why edits of the files are not in force; what was applied before them still is. */
export function SyncItem({ sync, now }: { readonly sync: SyncView; readonly now: Date }) {
  const { problem, lastOkAt } = sync;
  if (problem === null) return null;
  const others = problem.count - 1;
  return (
    <li>
      <i class="mark failed" />
      <span class="what" title={problem.message}>
        <b>{describeSync(sync)}</b> {problem.message}
        {others > 0 ? <span class="muted"> and {wholeNumber(others)} more</span> : null}
      </span>
      <span class="end">
        {lastOkAt === null ? (
          "never in force yet"
        ) : (
          <>
            for <Counted at={lastOkAt} now={now} as="since" />
          </>
        )}
      </span>
    </li>
  );
}

interface Described {
  readonly tone: Tone;
  readonly href: string;
  readonly what: Child;
  readonly end: Child;
}

/** The worst of it. */
function describeAilment({
  leasesFailing,
  handlersStuck,
  clockSkewMs,
}: Extract<Concern, { readonly kind: "worker-ailing" }>): string {
  if (leasesFailing) return "cannot renew its leases";
  if (handlersStuck > 0) return `cannot end ${handlersStuck === 1 ? "a handler" : `${handlersStuck} handlers`}`;
  const ms = clockSkewMs ?? 0;
  return `has a clock that is ${tookText(Math.abs(ms))} ${ms > 0 ? "behind" : "ahead"}`;
}

function describe(concern: Concern, now: Date): Described {
  const jobs = (count: number) => `${wholeNumber(count)} ${count === 1 ? "job" : "jobs"}`;
  const waiting = (count: number) => `${jobs(count)} ${count === 1 ? "waits" : "wait"}`;
  switch (concern.kind) {
    case "no-worker":
      return {
        tone: "failed",
        href: "/workers",
        what: (
          <>
            <b>{concern.queue}</b>: no worker takes from it
          </>
        ),
        end: waiting(concern.queued),
      };
    case "worker-silent":
      return {
        tone: "failed",
        href: "/workers",
        what: (
          <>
            <b>{concern.worker}</b> gives no sign of life
          </>
        ),
        end: <Counted at={concern.since} now={now} as="since" />,
      };
    case "worker-ailing":
      return {
        tone: "failed",
        href: "/workers",
        what: (
          <>
            <b>{concern.worker}</b> {describeAilment(concern)}
          </>
        ),
        end: "see its log",
      };
    case "restart-needed":
      return {
        tone: "scheduled",
        href: "/workers",
        what: (
          <>
            <b title={concern.workers.join(", ")}>
              {concern.workers.length === 1 ? concern.workers[0] : `${wholeNumber(concern.workers.length)} workers`}
            </b>
            : restart needed, spec.runtime has changed
          </>
        ),
        end: <Counted at={concern.since} now={now} as="ago" />,
      };
    case "near-timeout":
      return {
        tone: "failed",
        href: `/jobs/${concern.jobId}`,
        what: (
          <>
            <b>{concern.type}</b> over its time-out soon
          </>
        ),
        end: <Counted at={concern.deadline} now={now} as="until" />,
      };
    case "held":
      return {
        tone: "scheduled",
        href: `/jobs?state=Scheduled&type=${encodeURIComponent(concern.type)}`,
        what: (
          <>
            <b>{concern.type}</b>:{" "}
            {concern.hold === "no-handler" ? "no worker has its handler" : `held, ${concern.hold}`}
          </>
        ),
        end: `${concern.count >= 1000 ? "1,000+ jobs" : jobs(concern.count)} held`,
      };
    case "unloadable":
      return {
        tone: "failed",
        href: "/workers",
        what: (
          <>
            <b>{concern.worker}</b> cannot load {concern.bundles === 1 ? "a handler" : `${concern.bundles} handlers`}
          </>
        ),
        end: "see its log",
      };
    case "dead-letters":
      return {
        tone: "failed",
        href: `/jobs?state=Failed&type=${encodeURIComponent(concern.type)}`,
        what: (
          <>
            <b>{concern.type}</b>: {concern.count === 1 ? "a job" : jobs(concern.count)} failed for good
          </>
        ),
        end: <Counted at={concern.last} now={now} as="ago" />,
      };
    case "missed":
      return {
        tone: "scheduled",
        href: "/schedules",
        what: (
          <>
            <b>{concern.schedule}</b> missed {concern.count === 1 ? "a fire" : `${wholeNumber(concern.count)} fires`}
          </>
        ),
        end: <Counted at={concern.last} now={now} as="ago" />,
      };
    case "queue-suspended":
      return {
        tone: "scheduled",
        href: "/queues",
        what: (
          <>
            <b>{concern.queue}</b> is suspended
          </>
        ),
        end: waiting(concern.queued),
      };
    case "never-fires":
      return {
        tone: "scheduled",
        href: "/schedules",
        what: (
          <>
            <b>{concern.schedule}</b> never fires
          </>
        ),
        end: "its date cannot come",
      };
    default:
      return unreachable(concern);
  }
}
