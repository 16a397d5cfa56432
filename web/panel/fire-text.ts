import type { FireView } from "../../runtime/protocol/ports/panel.ts";

/** How a fire is drawn in a strip, and what became of it in words. */
export interface FireText {
  readonly look: "skipped" | "gone" | "succeeded" | "failed" | "cancelled" | "running" | "waiting";
  readonly word: string;
}

export function describeFire(fire: FireView): FireText {
  switch (fire.outcome) {
    case "missed":
      return { look: "skipped", word: "missed: nobody led when it was due" };
    case "superseded":
      return { look: "skipped", word: "missed, a newer one ran in its place" };
    case "overlapped":
      return { look: "skipped", word: "skipped, another run of it was in its way" };
    case "calendar":
      return { look: "skipped", word: "left out by a calendar" };
    default:
      return describeRun(fire);
  }
}

const HOW: Partial<Record<FireView["outcome"], string>> = {
  manual: "by hand, ",
  "on-start": "on start, ",
  backfill: "backfilled, ",
};

function describeRun({ state, outcome }: FireView): FireText {
  const how = HOW[outcome] ?? "";
  switch (state) {
    case null:
      return { look: "gone", word: `${how}its job has been cleaned up` };
    case "Succeeded":
      return { look: "succeeded", word: `${how}succeeded` };
    case "Failed":
      return { look: "failed", word: `${how}failed` };
    case "Cancelled":
      return { look: "cancelled", word: `${how}cancelled` };
    case "Processing":
      return { look: "running", word: `${how}running` };
    default:
      return { look: "waiting", word: `${how}waiting` };
  }
}
