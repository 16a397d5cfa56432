import type { Child } from "hono/jsx";
import type { Declaration } from "../../runtime/protocol/ports/panel.ts";
import type { JobState } from "../../runtime/protocol/states.ts";
import { clockText, elapsedText, minuteText, shortCommit } from "./format.ts";

export type Tone = "enqueued" | "running" | "scheduled" | "succeeded" | "failed" | "cancelled";

const STATE_TONES: Readonly<Record<JobState, Tone>> = {
  Scheduled: "scheduled",
  Enqueued: "enqueued",
  Processing: "running",
  Succeeded: "succeeded",
  Failed: "failed",
  Cancelled: "cancelled",
};

export function stateTone(state: JobState): Tone {
  return STATE_TONES[state];
}

/** A mark with its word beside it: state is never colour alone. */
export function State({ tone, children }: { readonly tone: Tone; readonly children?: Child }) {
  return (
    <span class="state">
      <i class={`mark ${tone}`} />
      {children}
    </span>
  );
}

/** A time that counts on in the page: since it, how long ago, or until it. */
export function Counted({
  at,
  now,
  as,
}: {
  readonly at: Date;
  readonly now: Date;
  readonly as: "since" | "ago" | "until";
}) {
  const ms = now.getTime() - at.getTime();
  const text =
    as === "since"
      ? elapsedText(ms)
      : as === "ago"
        ? ms < 5000
          ? "just now"
          : `${elapsedText(ms).split(" ").slice(0, 2).join(" ")} ago`
        : ms >= 0
          ? "now"
          : `in ${elapsedText(-ms)}`;
  return (
    <time datetime={at.toISOString()} data-count={as} title={at.toISOString()}>
      {text}
    </time>
  );
}

/** An instant, shown in the reader's zone. `day` adds the date when it is not today. */
export function Instant({ at, shape }: { readonly at: Date; readonly shape: "minute" | "clock" | "day" }) {
  const text = shape === "minute" ? minuteText(at) : shape === "clock" ? clockText(at) : dayText(at);
  return (
    <time datetime={at.toISOString()} data-shape={shape} title={at.toISOString()}>
      {text}
    </time>
  );
}

function dayText(at: Date): string {
  return `${at.toISOString().slice(0, 10)}, ${clockText(at)}`;
}

/** An id that is copied by a click. */
export function Copied({ text, children }: { readonly text: string; readonly children?: Child }) {
  return (
    <button class="copy" type="button" data-copy={text} title={`Copy ${text}`}>
      {children ?? text}
    </button>
  );
}

/** Where a thing is declared: file and line, commit and author. */
export function Declared({ source }: { readonly source: Declaration | null }) {
  if (source === null) return <span class="muted">–</span>;
  const { commit, author, revision } = source;
  const origin =
    commit === null ? `revision ${revision}` : [shortCommit(commit), author].filter((part) => part !== null).join(" ");
  return (
    <>
      <span class="mono">
        {source.file}:{source.line}
      </span>
      <br />
      <span class="muted mono" title={commit ?? undefined}>
        {origin}
      </span>
    </>
  );
}
