import type { EnqueueOptions } from "../../handler.ts";
import { type EnqueueRequest, MAX_CHILD_BYTES, MAX_CHILDREN, readEnqueue } from "./enqueue-request.ts";
import type { EnqueueAnswer } from "./messages.ts";

/** Why `ctx.enqueue` rejected; the attempt fails with it when the handler did not wait for the answer. */
export class EnqueueError extends Error {
  override readonly name = "EnqueueError";
}

interface Waiting {
  readonly resolve: (child: { readonly id: string }) => void;
  readonly refuse: (problem: string) => void;
}

/** The calls of `ctx.enqueue` of one run, in the realm. */
export class ChildCalls {
  readonly #send: (number: number, request: EnqueueRequest) => void;
  readonly #waiting = new Map<number, Waiting>();
  /** What was refused, and whose promise nobody has looked at. */
  #unheard = new Map<HeardPromise<unknown>, string>();
  #calls = 0;
  #bytes = 0;
  #over = false;
  #whenAnswered: (() => void) | null = null;

  constructor(send: (number: number, request: EnqueueRequest) => void) {
    this.#send = send;
  }

  enqueue(type: string, payload: unknown, options: EnqueueOptions): Promise<{ readonly id: string }> {
    let refuse: (problem: string) => void = () => {};
    let resolve: Waiting["resolve"] = () => {};
    const promise = new HeardPromise<{ readonly id: string }>((resolveIt, reject) => {
      resolve = resolveIt;
      refuse = (problem) => reject(new EnqueueError(problem));
    });
    // Nobody may be listening: that must not end the thread, and fails the attempt below.
    Promise.prototype.then.call(promise, undefined, () => {});
    const refused = (problem: string): void => {
      this.#unheard.set(promise, problem);
      refuse(problem);
    };
    try {
      this.#start(readEnqueue(type, payload, options), { resolve, refuse: refused });
    } catch (error) {
      refused(`${JSON.stringify(String(type))} is not enqueued: ${(error as Error).message}`);
    }
    return promise;
  }

  answer(number: number, answer: EnqueueAnswer): void {
    const waiting = this.#waiting.get(number);
    this.#waiting.delete(number);
    if ("id" in answer) waiting?.resolve(answer);
    else waiting?.refuse(answer.problem);
    if (this.#waiting.size === 0) this.#whenAnswered?.();
  }

  /** The handler is called once more in the same attempt; numbers go on, so that late answers find nobody. */
  forget(): void {
    this.#waiting.clear();
    this.#unheard = new Map();
    this.#bytes = 0;
  }

  /** The run is over: what is still asked for comes too late. */
  close(): void {
    this.#over = true;
    for (const { refuse } of [...this.#waiting.values()]) refuse("the execution is over");
    this.#waiting.clear();
  }

  /** The handler has returned. Resolves when all is answered: the first refusal that it cannot have heard of, or null. */
  async settled(): Promise<string | null> {
    this.#over = true;
    for (const promise of this.#unheard.keys()) if (promise.heard) this.#unheard.delete(promise);
    if (this.#waiting.size > 0) {
      await new Promise<void>((resolve) => {
        this.#whenAnswered = resolve;
      });
    }
    const [problem = null] = this.#unheard.values();
    return problem;
  }

  #start(request: EnqueueRequest, waiting: Waiting): void {
    if (this.#over) throw new Error("the handler has ended; call ctx.enqueue before that");
    if (this.#calls >= MAX_CHILDREN) throw new RangeError(`one execution may enqueue ${MAX_CHILDREN} jobs at most`);
    const bytes = this.#bytes + request.payload.length;
    if (bytes > MAX_CHILD_BYTES) {
      throw new RangeError(`the payloads of what one execution enqueues may take ${MAX_CHILD_BYTES} bytes together`);
    }
    this.#bytes = bytes;
    this.#calls += 1;
    this.#waiting.set(this.#calls, waiting);
    this.#send(this.#calls, request);
  }
}

/** Tells whether anybody has looked at it. */
class HeardPromise<Value> extends Promise<Value> {
  heard = false;

  /** What comes of it are plain promises. */
  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  // biome-ignore lint/suspicious/noThenProperty: awaiting calls it, and that is what is to be noticed
  override then<Result = Value, Failure = never>(
    onValue?: ((value: Value) => Result | PromiseLike<Result>) | null,
    onError?: ((error: unknown) => Failure | PromiseLike<Failure>) | null,
  ): Promise<Result | Failure> {
    this.heard = true;
    return super.then(onValue, onError);
  }
}
