import { TurnoError } from "../../core/errors.ts";

/** Where one Redis is. `url` may hold a password and is never shown; `name` is its host and port. */
export interface NodeAddress {
  readonly url: string;
  readonly name: string;
  readonly isTls: boolean;
}

const NODE_COUNTS: readonly number[] = [1, 3, 5];

/** Throws TURNO_CONFIG_SETTING, which tells a node by its place in the list and never by its URL. */
export function parseNodeAddresses(urls: readonly string[]): readonly NodeAddress[] {
  if (!NODE_COUNTS.includes(urls.length)) {
    throw refuse(
      `locks.redlock.urls: expected 1, 3 or 5 independent Redis nodes, found ${urls.length}. ` +
        "A lock needs more than half of them, so an even number adds cost and no safety.",
    );
  }
  const addresses = urls.map((url, index) => parseNodeAddress(url, `locks.redlock.urls[${index}]`));
  for (const [index, { name }] of addresses.entries()) {
    if (addresses.findIndex((address) => address.name === name) < index) {
      throw refuse(`locks.redlock.urls[${index}]: expected independent Redis nodes, found ${name} twice.`);
    }
  }
  return addresses;
}

function parseNodeAddress(url: string, place: string): NodeAddress {
  const parsed = URL.canParse(url) ? new URL(url) : null;
  if (parsed === null || !["redis:", "rediss:"].includes(parsed.protocol) || parsed.hostname === "") {
    throw refuse(`${place}: expected redis://host:port, or rediss:// for TLS, found something else.`);
  }
  return {
    url,
    name: `${parsed.hostname}:${parsed.port === "" ? "6379" : parsed.port}`,
    isTls: parsed.protocol === "rediss:",
  };
}

function refuse(message: string): TurnoError {
  return new TurnoError("TURNO_CONFIG_SETTING", message);
}
