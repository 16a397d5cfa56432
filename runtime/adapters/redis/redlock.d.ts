/**
 * The part of redlock 5.0.0-beta.2 that is used here: its package names no types under `nodenext`, and its own ones ask
 * for whole ioredis clients where it calls two methods.
 */
declare module "redlock" {
  export interface Client {
    evalsha(hash: string, keyCount: number, keysAndArguments: readonly (string | number)[]): Promise<unknown>;
    eval(script: string, keyCount: number, keysAndArguments: readonly (string | number)[]): Promise<unknown>;
  }
  export interface ExecutionStats {
    readonly membershipSize: number;
    readonly quorumSize: number;
    readonly votesFor: ReadonlySet<Client>;
    readonly votesAgainst: ReadonlyMap<Client, Error>;
  }
  export class ResourceLockedError extends Error {}
  /** No majority; each attempt resolves once all nodes have voted. */
  export class ExecutionError extends Error {
    readonly attempts: readonly Promise<ExecutionStats>[];
  }
  export interface Lock {
    readonly value: string;
    /** Milliseconds of the wall clock. */
    expiration: number;
  }
  export default class Redlock {
    constructor(
      clients: Iterable<Client>,
      settings: { readonly retryCount: number; readonly driftFactor: number },
      scripts: { readonly extendScript: () => string; readonly releaseScript: () => string },
    );
    acquire(resources: string[], duration: number): Promise<Lock>;
    extend(lock: Lock, duration: number): Promise<Lock>;
    release(lock: Lock): Promise<unknown>;
  }
}
