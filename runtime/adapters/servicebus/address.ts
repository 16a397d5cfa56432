import { TurnoError } from "../../core/errors.ts";

/** Where a namespace is, and how Turno shows who it is; holds the key, so it is neither printed nor kept in an error. */
export type ServiceBusAddress =
  | {
      readonly kind: "key";
      readonly connectionString: string;
      readonly secrets: readonly string[];
      readonly shown: string;
    }
  | { readonly kind: "identity"; readonly host: string; readonly secrets: readonly string[]; readonly shown: string };

const KEYS = ["endpoint", "sharedaccesskeyname", "sharedaccesskey", "sharedaccesssignature", "usedevelopmentemulator"];
const HINT =
  "copy the connection string of a policy of the namespace, Endpoint=sb://…;SharedAccessKeyName=…;SharedAccessKey=…, or give only Endpoint=sb://…/ to use the machine's managed identity";

/** Throws TURNO_BROKER_ADDRESS; its message never holds the connection string itself. */
export function readServiceBusAddress(connectionString: string): ServiceBusAddress {
  const parts = new Map<string, string>();
  for (const part of connectionString.split(";")) {
    if (part.trim() === "") continue;
    const split = part.indexOf("=");
    if (split < 1) throw refuse("a part of it is not name=value", HINT);
    parts.set(part.slice(0, split).trim().toLowerCase(), part.slice(split + 1).trim());
  }
  const endpoint = parts.get("endpoint");
  if (endpoint === undefined) throw refuse("it has no Endpoint", HINT);
  const shown = hostOf(endpoint);
  if (parts.has("entitypath")) {
    throw refuse("it is that of a single queue (EntityPath)", "take the connection string of the namespace");
  }
  if ([...parts.keys()].some((key) => !KEYS.includes(key))) throw refuse("it has a part that is not known", HINT);
  const hasSignature = parts.has("sharedaccesssignature");
  const isKey = parts.has("sharedaccesskey") || parts.has("sharedaccesskeyname");
  if (!hasSignature && !isKey) return { kind: "identity", host: shown, secrets: [], shown };
  const secrets = [parts.get("sharedaccesskey"), parts.get("sharedaccesssignature")].filter(
    (secret): secret is string => secret !== undefined && secret !== "",
  );
  if (!hasSignature && (secrets.length === 0 || (parts.get("sharedaccesskeyname") ?? "") === "")) {
    throw refuse("it has only one of SharedAccessKeyName and SharedAccessKey", HINT);
  }
  return { kind: "key", connectionString, secrets, shown };
}

function hostOf(endpoint: string): string {
  let url: URL;
  try {
    url = new URL(endpoint);
  } catch {
    throw refuse("its Endpoint is no address", HINT);
  }
  if (url.protocol !== "sb:" || url.host === "") throw refuse("its Endpoint does not begin with sb://", HINT);
  return url.host;
}

function refuse(found: string, hint: string): TurnoError {
  return new TurnoError("TURNO_BROKER_ADDRESS", `expected a connection string of Service Bus, but ${found}`, { hint });
}
