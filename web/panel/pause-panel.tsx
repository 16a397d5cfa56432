import type { PauseView } from "../../runtime/protocol/ports/panel.ts";
import { Instant } from "./marks.tsx";

export interface PauseFacts {
  /** Path of the page that the buttons stand on. */
  readonly path: string;
  readonly pause: PauseView | null;
  readonly mayOperate: boolean;
}

/** What lays a pause over the schedule or queue whose page this is. */
export function PauseForm({ path }: Pick<PauseFacts, "path">) {
  return (
    <form class="body" method="post" action={`${path}/pause`}>
      <input name="reason" required maxlength={500} aria-label="Why" placeholder="Why" />{" "}
      <input name="until" aria-label="Until" placeholder="Until, such as 2026-12-24T18:00:00Z" />{" "}
      <button class="button" type="submit">
        Pause
      </button>
    </form>
  );
}

/** Who paused it, why and until when, with the button that takes it away; or what lays a pause. */
export function PausePanel({ path, pause, mayOperate }: PauseFacts) {
  if (pause === null && !mayOperate) return null;
  return (
    <section class="panel" aria-labelledby="pause">
      <header>
        <h2 id="pause">{pause === null ? "Pause" : "Paused"}</h2>
        {pause === null ? <span class="muted">nothing is owed for the time between</span> : null}
      </header>
      {pause === null ? (
        <PauseForm path={path} />
      ) : (
        <>
          <dl class="kv">
            <dt>By</dt>
            <dd>{pause.by}</dd>
            <dt>Why</dt>
            <dd>{pause.reason ?? "–"}</dd>
            <dt>Since</dt>
            <dd>
              <Instant at={new Date(pause.pausedAt)} shape="day" />
            </dd>
            <dt>Until</dt>
            <dd>{pause.until === null ? "it is resumed" : <Instant at={new Date(pause.until)} shape="day" />}</dd>
          </dl>
          {mayOperate ? (
            <form class="body" method="post" action={`${path}/resume`}>
              <button class="button" type="submit">
                Resume
              </button>
            </form>
          ) : null}
        </>
      )}
    </section>
  );
}
