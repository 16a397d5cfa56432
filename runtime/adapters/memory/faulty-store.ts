import { RejectedError, UnknownOutcomeError } from "../../protocol/ports/errors.ts";

/**
 * What a call meets: `up`; `away`: no connection; `lost-request`: the connection breaks before the statement ran;
 * `lost-reply`: after it committed; `serialization`: refused, to be tried again; `hanging`: no answer until it is `up`.
 */
export type Weather = "up" | "away" | "lost-request" | "lost-reply" | "serialization" | "hanging";

/** One process's connection to a store that others reach undisturbed. */
export interface Connection<Store> {
  readonly store: Store;
  /** Of every call from now on. */
  weather: Weather;
  /** Of the next calls of one method, one each; then `weather` holds again. */
  readonly next: Map<string, Weather[]>;
  /** Names of the methods that were called, in order. */
  readonly calls: string[];
}

type Method = (...parameters: unknown[]) => Promise<unknown>;

/** Puts a connection between a process and its store that can be cut and mended. */
export function connect<Store extends object>(store: Store): Connection<Store> {
  const waiting: (() => void)[] = [];
  let weather: Weather = "up";
  const connection = {
    get weather() {
      return weather;
    },
    set weather(value: Weather) {
      weather = value;
      if (value !== "hanging") for (const resume of waiting.splice(0)) resume();
    },
    next: new Map<string, Weather[]>(),
    calls: [] as string[],
  };
  const through =
    (name: string, method: Method): Method =>
    async (...parameters) => {
      connection.calls.push(name);
      let met = connection.next.get(name)?.shift() ?? weather;
      if (met === "hanging") {
        await new Promise<void>((resume) => waiting.push(resume));
        met = weather;
      }
      if (met === "away") throw new RejectedError("PostgreSQL did not answer: connect ECONNREFUSED");
      if (met === "lost-request") throw new UnknownOutcomeError("the connection to PostgreSQL was lost: ECONNRESET");
      if (met === "serialization") throw new RejectedError("could not serialize access", { sqlState: "40001" });
      const answer = await method.apply(store, parameters);
      if (met === "lost-reply") throw new UnknownOutcomeError("the connection to PostgreSQL was lost: ECONNRESET");
      return answer;
    };
  const wrapped = new Map<string, Method>();
  const proxy = new Proxy(store, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key);
      if (typeof value !== "function" || typeof key !== "string") return value;
      let method = wrapped.get(key);
      if (method === undefined) wrapped.set(key, (method = through(key, value as Method)));
      return method;
    },
  });
  return Object.assign(connection, { store: proxy });
}
