import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { TurnoError } from "../runtime/core/errors.ts";
import type { Clock } from "../runtime/protocol/ports/surroundings.ts";

export const SCOPES = ["read", "operate", "admin"] as const;
/** What a key may do; each includes the ones before it. */
export type Scope = (typeof SCOPES)[number];

export interface ApiClient {
  readonly name: string;
  readonly scope: Scope;
}

export interface ApiKeys {
  /** The client that a key belongs to; takes the same time whatever the key. */
  authenticate(key: string): ApiClient | null;
  find(name: string): ApiClient | null;
}

/** `TURNO_API_KEYS=name:scope:sha256-of-key,…`; null or empty: no keys. Throws TURNO_API_KEYS. */
export function parseApiKeys(text: string | null): ApiKeys | null {
  if (text === null || text.trim() === "") return null;
  const entries = text.split(",").map((entry, index) => parseEntry(entry.trim(), index + 1));
  const names = new Set(entries.map((entry) => entry.client.name));
  if (names.size < entries.length) {
    throw new TurnoError("TURNO_API_KEYS", "expected every API key to have a name of its own, found one name twice");
  }
  const digests = new Set(entries.map((entry) => entry.digest.toString("hex")));
  if (digests.size < entries.length) {
    throw new TurnoError("TURNO_API_KEYS", "expected every API key to have a hash of its own, found one hash twice");
  }
  return {
    authenticate(key) {
      const presented = createHash("sha256").update(key, "utf8").digest();
      let found: ApiClient | null = null;
      for (const { client, digest } of entries) if (timingSafeEqual(digest, presented)) found = client;
      return found;
    },
    find: (name) => entries.find((entry) => entry.client.name === name)?.client ?? null,
  };
}

// The entry itself is never shown: somebody may have put the key where its hash belongs.
function parseEntry(entry: string, position: number): { readonly client: ApiClient; readonly digest: Buffer } {
  const [name, scope, hash, ...rest] = entry.split(":");
  const known = SCOPES.find((candidate) => candidate === scope);
  if (name === undefined || !/^[a-z0-9][a-z0-9._-]{0,63}$/.test(name) || known === undefined || rest.length > 0) {
    throw new TurnoError(
      "TURNO_API_KEYS",
      `API key ${position}: expected name:scope:sha256 with a scope of ${SCOPES.join(", ")}`,
    );
  }
  if (hash === undefined || !/^[0-9a-f]{64}$/i.test(hash)) {
    throw new TurnoError(
      "TURNO_API_KEYS",
      `API key ${position} (${name}): expected the SHA-256 of the key as 64 hex digits`,
      {
        hint: "printf %s KEY | sha256sum",
      },
    );
  }
  return { client: { name, scope: known }, digest: Buffer.from(hash, "hex") };
}

export function allows(client: ApiClient | null, needed: Scope): boolean {
  return client === null || SCOPES.indexOf(client.scope) >= SCOPES.indexOf(needed);
}

/** `X-Turno-Key`, or `Authorization: Bearer`. */
export function presentedKey(headers: Headers): string | null {
  const key = headers.get("x-turno-key");
  if (key !== null) return key;
  return /^Bearer +(\S+)$/i.exec(headers.get("authorization") ?? "")?.[1] ?? null;
}

export interface Sessions {
  open(client: ApiClient): string;
  /** The session's client, with the scope its key has now. */
  read(token: string): ApiClient | null;
}

/** How long a person stays logged in; a restart of the server ends every session. */
export const SESSION_MS = 12 * 60 * 60 * 1000;

/** Sessions are signed, not stored. Expiry counts on the monotonic clock of the process that signed them. */
export function createSessions(parts: {
  readonly secret: Uint8Array;
  readonly clock: Clock;
  readonly keys: ApiKeys;
}): Sessions {
  const sign = (body: string) => createHmac("sha256", parts.secret).update(body).digest("base64url");
  return {
    open(client) {
      const body = `${client.name}~${Math.ceil(parts.clock.monotonicMs() + SESSION_MS)}`;
      return `${body}~${sign(body)}`;
    },
    read(token) {
      const [name, expiry, signature, ...rest] = token.split("~");
      if (name === undefined || expiry === undefined || signature === undefined || rest.length > 0) return null;
      const expected = Buffer.from(sign(`${name}~${expiry}`));
      const presented = Buffer.from(signature);
      if (expected.length !== presented.length || !timingSafeEqual(expected, presented)) return null;
      return Number(expiry) > parts.clock.monotonicMs() ? parts.keys.find(name) : null;
    },
  };
}
