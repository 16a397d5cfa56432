import type { ClaimedJob, Finish, Ownership } from "../../runtime/protocol/ports/jobs.ts";
import type { LostJob, Renewal } from "../../runtime/protocol/ports/leases.ts";
import type { StepOutcome } from "../../runtime/protocol/ports/schedules.ts";
import type { Call } from "./connection.ts";

/** The last digits of an id, as the table of a failing seed shows it. */
export function shortId(id: string): string {
  return `${id.slice(0, 8).replace(/^0+/, "")}-${id.slice(-4).replace(/^0+/, "")}`;
}

/** What a call asked and got, in a few words; empty where nothing happened. */
export function describeAnswer({ method, args }: Call, answer: unknown): string {
  switch (method) {
    case "claimJobs":
      return (answer as { readonly jobs: readonly ClaimedJob[] }).jobs.map(describeClaim).join(" ");
    case "claimRecovered":
    case "claimDelivery":
      return answer === null ? "" : answer === "limited" ? "limited" : describeClaim(answer as ClaimedJob);
    case "finishJob": {
      const { jobId, token, next, reason } = args[1] as Finish;
      return `${shortId(jobId)}#${token} ${next} (${reason}): ${String(answer)}`;
    }
    case "returnClaims":
      return (args[1] as readonly Ownership[]).map(describeOwnership).join(" ");
    case "markStarted":
    case "reportProgress":
      return (args[1] as readonly Ownership[]).map(describeOwnership).join(" ");
    case "findOwned":
      return (answer as readonly Ownership[]).map(describeOwnership).join(" ");
    case "renewLeases": {
      const { renewed, lost } = answer as Renewal;
      const cancelled = renewed.filter(({ cancelRequested }) => cancelRequested);
      return [
        `renewed ${renewed.map(({ token }) => `#${token}`).join(" ")}`,
        ...(lost.length > 0 ? [`lost ${lost.map(({ token }) => `#${token}`).join(" ")}`] : []),
        ...(cancelled.length > 0 ? [`cancel ${cancelled.map(({ token }) => `#${token}`).join(" ")}`] : []),
      ].join(", ");
    }
    case "recoverJobs":
      return (answer as readonly LostJob[])
        .map(({ jobId, token, next }) => `${shortId(jobId)}#${token} ${next}`)
        .join(" ");
    case "applySteps":
      return (answer as readonly StepOutcome[]).map(({ name, kind, fired }) => `${name} ${kind} ${fired}`).join(" ");
    case "promoteDue": {
      const { promoted } = answer as { readonly promoted: number };
      return promoted === 0 ? "" : `${promoted} promoted`;
    }
    case "cancelJob":
    case "requeueJob":
      return `${shortId(String(args[0]))} ${(answer as { readonly kind: string }).kind}`;
    case "insertJobs":
    case "insertJobsOnce":
      return (args[0] as readonly { readonly id: string }[]).map(({ id }) => shortId(id)).join(" ");
    case "holdTerm":
      return `${(args[0] as { readonly duty: string }).duty} ${String(answer)}`;
    default:
      return "";
  }
}

function describeClaim({ id, token, execution, recovered }: ClaimedJob): string {
  return `${shortId(id)}#${token} run ${execution}${recovered ? " recovered" : ""}`;
}

function describeOwnership({ jobId, token }: Ownership): string {
  return `${shortId(jobId)}#${token}`;
}
