import { isIP } from "node:net";
import type { Options, SocketOptions } from "amqplib";
import { TurnoError } from "../../core/errors.ts";

/** Of both sides; silence of two to three of them ends a connection. */
const HEARTBEAT_S = 10;
const CONNECT_LIMIT_MS = 10_000;
/** No frame of a peer may be larger; the broker's own limit is 128 KiB. */
const FRAME_BYTES = 131_072;

export interface RabbitTls {
  /** Texts in PEM. */
  readonly ca: string | null;
  readonly cert: string | null;
  readonly key: string | null;
  readonly serverName: string | null;
}

/** What a connection is made with; holds the password, so it is neither printed nor kept in an error. */
export interface RabbitAddress {
  readonly connect: Options.Connect;
  readonly socket: SocketOptions;
  /** `host:port/vhost`, for messages. */
  readonly shown: string;
}

/** Throws TURNO_BROKER_ADDRESS; its message never holds the address itself. */
export function readRabbitAddress({
  url,
  vhost,
  tls,
}: {
  readonly url: string;
  readonly vhost: string | null;
  readonly tls: RabbitTls;
}): RabbitAddress {
  const parsed = parseUrl(url);
  const isTls = parsed.protocol === "amqps:";
  if (!isTls && Object.values(tls).some((value) => value !== null)) {
    throw refuse("certificates are given and the address begins with amqp://", "write amqps:// or leave tls out");
  }
  if ((tls.cert === null) !== (tls.key === null)) {
    throw refuse("only one of the certificate and its private key is given", "give both or neither");
  }
  const host = parsed.hostname.replace(/^\[|\]$/g, "");
  const port = parsed.port === "" ? (isTls ? 5671 : 5672) : Number(parsed.port);
  const home = vhost ?? decode(parsed.pathname.slice(1), "virtual host");
  const serverName = tls.serverName ?? (isIP(host) === 0 ? host : null);
  return {
    connect: {
      protocol: isTls ? "amqps" : "amqp",
      hostname: host,
      port,
      username: parsed.username === "" ? "guest" : decode(parsed.username, "user"),
      password: parsed.username === "" ? "guest" : decode(parsed.password, "password"),
      // The client undoes an escape here, too.
      vhost: encodeURIComponent(home === "" ? "/" : home),
      heartbeat: HEARTBEAT_S,
      frameMax: FRAME_BYTES,
    },
    socket: {
      noDelay: true,
      keepAlive: true,
      keepAliveDelay: 30_000,
      timeout: CONNECT_LIMIT_MS,
      ...(serverName === null ? {} : { servername: serverName }),
      ...(tls.ca === null ? {} : { ca: tls.ca }),
      ...(tls.cert === null || tls.key === null ? {} : { cert: tls.cert, key: tls.key }),
    },
    shown: `${parsed.hostname}:${port}/${home === "" || home === "/" ? "" : home}`,
  };
}

function parseUrl(url: string): URL {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    throw refuse("it is no URL", "write amqp://user:password@host:5672/vhost, special characters as %XX");
  }
  if (parsed.protocol !== "amqp:" && parsed.protocol !== "amqps:") {
    throw refuse(`it begins with ${parsed.protocol}//`, "write amqp:// or, for TLS, amqps://");
  }
  if (parsed.hostname === "") throw refuse("it names no host", "write amqp://user:password@host:5672/vhost");
  return parsed;
}

function decode(text: string, part: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw refuse(`its ${part} has a % that begins no escape`, "write a % itself as %25");
  }
}

function refuse(found: string, hint: string): TurnoError {
  return new TurnoError("TURNO_BROKER_ADDRESS", `expected an address of RabbitMQ, but ${found}`, { hint });
}
