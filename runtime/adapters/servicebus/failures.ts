import { describeError, TurnoError } from "../../core/errors.ts";
import type { ServiceBusAddress } from "./address.ts";

/** Why there is no connection, in Turno's words; what Service Bus said stands in it, and no credentials. */
export function explainRefusal(error: unknown, address: ServiceBusAddress): TurnoError {
  const text = cleanText(error, address);
  if (codeOf(error) === "UnauthorizedAccess" || /Unauthorized|InvalidSignature|status.code.*401/i.test(text)) {
    return new TurnoError("TURNO_BROKER_ACCESS", `Service Bus at ${address.shown} refused access: ${text}`, {
      hint: "Correct the connection string, or give its policy (or the identity) the rights Send and Listen.",
    });
  }
  return new TurnoError("TURNO_BROKER_UNREACHABLE", `Service Bus at ${address.shown} did not answer: ${text}`, {
    hint: "Look at the namespace and the network; Turno goes on trying.",
  });
}

/** Why a queue cannot be used; null when it is the connection that fails, and not the queue. */
export function explainQueueRefusal(error: unknown, queue: string, address: ServiceBusAddress): TurnoError | null {
  const [namespace] = address.shown.split(".");
  switch (codeOf(error)) {
    case "MessagingEntityNotFound":
      return new TurnoError("TURNO_BROKER_QUEUE", `the queue ${queue} does not exist at ${address.shown}`, {
        hint: `Make it: az servicebus queue create --resource-group <group> --namespace-name ${namespace} --name ${queue} --lock-duration PT5M --max-delivery-count 2000`,
      });
    case "MessagingEntityDisabled":
      return new TurnoError("TURNO_BROKER_QUEUE", `the queue ${queue} at ${address.shown} is disabled`, {
        hint: `Enable it: az servicebus queue update --resource-group <group> --namespace-name ${namespace} --name ${queue} --status Active`,
      });
    case "UnauthorizedAccess":
      return new TurnoError(
        "TURNO_BROKER_ACCESS",
        `Service Bus refuses the queue ${queue}: ${cleanText(error, address)}`,
        {
          hint: "Give the policy (or the identity) the rights Send and Listen.",
        },
      );
    default:
      return null;
  }
}

/** It answers, and takes no messages for now; null: something else. */
export function explainBlock(error: unknown, address: ServiceBusAddress): string | null {
  const code = codeOf(error);
  return code === "ServiceBusy" || code === "QuotaExceeded" ? `${code}: ${cleanText(error, address)}` : null;
}

/** It was asked and gave no answer in time. */
export function isSilence(error: unknown): boolean {
  return codeOf(error) === "ServiceTimeout";
}

/** The answer to an operation that another side ended for good; anything else heals by waiting. */
export function isLasting(error: TurnoError): boolean {
  return error.code !== "TURNO_BROKER_UNREACHABLE";
}

export function cleanText(error: unknown, address: ServiceBusAddress): string {
  let text = describeError(error);
  for (const secret of address.secrets) text = text.replaceAll(secret, "***");
  return text;
}

function codeOf(error: unknown): string {
  const code: unknown = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  return typeof code === "string" ? code : "";
}
