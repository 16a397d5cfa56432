import { describeError, TurnoError } from "../../core/errors.ts";

const UNHEALED = /UNABLE_TO|CERT|SELF_SIGNED|ERR_TLS|ERR_SSL|ERR_OSSL/;

/** Why there is no connection, in Turno's words; what the broker said stands in it, and no credentials. */
export function explainRefusal(error: unknown, address: string): TurnoError {
  const text = describeError(error);
  const code = codeOf(error);
  const failure = (turnoCode: "TURNO_BROKER_ACCESS" | "TURNO_BROKER_ADDRESS", found: string, hint: string) =>
    new TurnoError(turnoCode, `RabbitMQ at ${address} ${found}`, { cause: error, hint });
  if (/ACCESS_REFUSED|ACCESS-REFUSED/.test(text)) {
    if (/Login was refused/.test(text)) {
      return failure(
        "TURNO_BROKER_ACCESS",
        "refused the user or the password",
        "Correct the address; the user guest may only come from the broker's own machine.",
      );
    }
    return failure("TURNO_BROKER_ACCESS", `refused access: ${text}`, "Give the user the rights of docs/operations.md.");
  }
  // The client does not pass on why the broker ended the opening of the virtual host.
  if (/vhost .*not found|access to vhost|Expected ConnectionOpenOk/.test(text)) {
    return failure(
      "TURNO_BROKER_ACCESS",
      "has no such virtual host, or does not let the user into it",
      "Make the virtual host with rabbitmqctl add_vhost and give the user its rights with rabbitmqctl set_permissions.",
    );
  }
  if (UNHEALED.test(code) || /does not match certificate/.test(text)) {
    return failure(
      "TURNO_BROKER_ADDRESS",
      `has another certificate than expected, or does not accept Turno's: ${text}`,
      "Look at tls.ca, tls.serverName, tls.cert and tls.key.",
    );
  }
  const seen = text === "" ? code : text;
  return new TurnoError("TURNO_BROKER_UNREACHABLE", `RabbitMQ at ${address} did not answer: ${seen}`, {
    cause: error,
    hint: "Start it, or correct the address; Turno goes on trying.",
  });
}

/** Why a queue cannot be used. */
export function explainQueueRefusal(error: unknown, queue: string): TurnoError {
  const text = describeError(error);
  if (/PRECONDITION.FAILED|inequivalent arg/.test(text)) {
    return new TurnoError(
      "TURNO_BROKER_QUEUE",
      `expected the queue ${queue} as Turno declares it, found one of that name with other arguments: ${text}`,
      {
        cause: error,
        hint: "Delete it with rabbitmqctl delete_queue, and Turno makes it anew and sends what it held again; or choose another broker.prefix.",
      },
    );
  }
  if (/ACCESS.REFUSED/.test(text)) {
    return new TurnoError("TURNO_BROKER_ACCESS", `RabbitMQ does not let the user use the queue ${queue}: ${text}`, {
      cause: error,
      hint: "Give the user the rights of docs/operations.md.",
    });
  }
  return new TurnoError("TURNO_BROKER_UNREACHABLE", `the queue ${queue} could not be declared: ${text}`, {
    cause: error,
    hint: "Turno goes on trying.",
  });
}

/** The answer to an operation that another side ended for good; anything else heals by waiting. */
export function isLasting(error: TurnoError): boolean {
  return error.code !== "TURNO_BROKER_UNREACHABLE";
}

function codeOf(error: unknown): string {
  const code: unknown = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  return typeof code === "string" ? code : "";
}
