import { UnknownOutcomeError } from "../../runtime/protocol/ports/errors.ts";

/**
 * One call of the store that is under way. Its statement reaches the database at any later time or never, whatever
 * has become of its caller meanwhile; so does the answer.
 */
export interface Call {
  readonly caller: string;
  readonly method: string;
  readonly parameters: readonly unknown[];
  readonly sentMs: number;
  readonly run: () => Promise<unknown>;
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: Error) => void;
  /** Set when the statement has run. */
  answer: { readonly settled: unknown } | null;
  /** The caller still waits; it was neither told that the outcome is unknown nor has it crashed. */
  waiting: boolean;
}

/** Everything between the processes of a world and its database. */
export class Network {
  readonly calls: Call[] = [];
  readonly #nowMs: () => number;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** The store as one process reaches it: each call is only sent. */
  connect<Store extends object>(caller: string, store: Store): Store {
    return new Proxy(store, {
      get: (target, key) => {
        const method: unknown = Reflect.get(target, key);
        if (typeof method !== "function" || typeof key !== "string") return method;
        return (...parameters: unknown[]) =>
          new Promise((resolve, reject) => {
            const run = (): Promise<unknown> => method.apply(target, parameters) as Promise<unknown>;
            const sentMs = this.#nowMs();
            this.calls.push({
              caller,
              method: key,
              parameters,
              sentMs,
              run,
              resolve,
              reject,
              answer: null,
              waiting: true,
            });
          });
      },
    });
  }

  /** Runs its statement. Whatever the store throws is a mistake of the store. */
  async apply(call: Call): Promise<void> {
    call.answer = { settled: await call.run() };
    if (!call.waiting) this.#remove(call);
  }

  deliver(call: Call): void {
    this.#remove(call);
    if (call.answer !== null) call.resolve(call.answer.settled);
  }

  /** The connection breaks: the caller learns that nothing is known. What has not run may still do so. */
  cut(call: Call): void {
    call.waiting = false;
    if (call.answer !== null) this.#remove(call);
    call.reject(new UnknownOutcomeError("the connection to PostgreSQL was lost"));
  }

  /** The caller is gone, and nobody hears of its calls. */
  orphan(caller: string): void {
    for (const call of [...this.calls]) {
      if (call.caller !== caller) continue;
      call.waiting = false;
      if (call.answer !== null) this.#remove(call);
    }
  }

  #remove(call: Call): void {
    this.calls.splice(this.calls.indexOf(call), 1);
  }
}

/** Lets everything run that waits for nothing outside: the longest chain of the protocol has some ten links. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 16; turn++) await null;
}
