import { unreachable } from "../../core/assert.ts";
import type { RealmWork, RunReport, ToRealm } from "./messages.ts";

/** Hands what a realm says of a run to the run's work; true: the run is over. */
export function hear(work: RealmWork, message: RunReport, reply: (message: ToRealm) => void): boolean {
  switch (message[0]) {
    case "returned":
      work.settle({ kind: "returned", result: message[2], resultError: null });
      return true;
    case "done":
      work.settle(message[2]);
      return true;
    case "progress":
      work.onProgress(message[2], message[3]);
      return false;
    case "enqueue":
      work.enqueue(message[2], message[3], (answer) => reply(["enqueued", message[1], message[2], answer]));
      return false;
    case "restarted":
      work.restarted();
      return false;
    default:
      return unreachable(message);
  }
}
