import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

/**
 * What happens between one process and its database. `black-hole` and one direction of `one-way` deliver nothing and reset
 * nothing; what was held goes on its way when the mode ends, as TCP would send it again. `cut` resets each connection
 * after so many more bytes of answers, so that the reply to a commit is lost.
 */
export type NetworkMode =
  | { readonly kind: "pass" }
  | { readonly kind: "latency"; readonly ms: number }
  | { readonly kind: "slow"; readonly bytesPerSecond: number }
  | { readonly kind: "black-hole" }
  | { readonly kind: "one-way"; readonly silent: Direction }
  | { readonly kind: "reset" }
  | { readonly kind: "refuse" }
  | { readonly kind: "cut"; readonly afterBytes: number };

/** `up`: from the process to the database; `down`: the answers. */
export type Direction = "up" | "down";

/** Where the proxy leads: a Unix socket's path, or a port of this machine. */
export type Upstream = { readonly path: string } | { readonly port: number };

const PASS: NetworkMode = { kind: "pass" };

interface Link {
  readonly client: Socket;
  readonly upstream: Socket;
  /** Bytes of answers that may still pass in the mode `cut`. */
  allowance: number;
}

/** A TCP listener on 127.0.0.1 in front of a server, whose behaviour can be changed at any time. */
export class FaultProxy {
  readonly #upstream: Upstream;
  readonly #links = new Set<Link>();
  readonly #clients = new Set<Socket>();
  #waiting: (() => void)[] = [];
  #server: Server;
  #mode: NetworkMode = PASS;
  #closed = false;
  #port = 0;

  private constructor(upstream: Upstream) {
    this.#upstream = upstream;
    this.#server = this.#newServer();
  }

  /** Listens on the first free port of a range. */
  static async open(
    upstream: Upstream,
    { first, last }: { readonly first: number; readonly last: number },
  ): Promise<FaultProxy> {
    const proxy = new FaultProxy(upstream);
    for (let port = first; port <= last; port += 1) {
      if (await proxy.#listen(port)) return proxy;
    }
    throw new Error(`expected a free port on 127.0.0.1 between ${first} and ${last}, found none`);
  }

  get port(): number {
    return this.#port;
  }

  get mode(): NetworkMode {
    return this.#mode;
  }

  /** Connections open now. */
  get connections(): number {
    return this.#clients.size;
  }

  async setMode(mode: NetworkMode): Promise<void> {
    const before = this.#mode;
    this.#mode = mode;
    if (mode.kind === "cut") for (const link of this.#links) link.allowance = mode.afterBytes;
    if (mode.kind === "reset" || mode.kind === "refuse") this.#resetAll();
    this.#wake();
    if (mode.kind === "refuse") await this.#stopListening();
    else if (before.kind === "refuse") await this.#listenAgain();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#resetAll();
    this.#wake();
    await this.#stopListening();
  }

  #newServer(): Server {
    return createServer({ allowHalfOpen: true }, (client) => void this.#accept(client));
  }

  async #listen(port: number): Promise<boolean> {
    this.#server = this.#newServer();
    this.#server.listen(port, "127.0.0.1");
    try {
      await once(this.#server, "listening");
      this.#port = port;
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EADDRINUSE") return false;
      throw error;
    }
  }

  async #listenAgain(): Promise<void> {
    for (let attempt = 0; attempt < 100; attempt += 1) {
      if (await this.#listen(this.#port)) return;
      await delay(50);
    }
    throw new Error(`port ${this.#port} was free and is taken now: another program uses it`);
  }

  async #stopListening(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = once(this.#server, "close");
    this.#server.close();
    await closed;
  }

  async #accept(client: Socket): Promise<void> {
    this.#clients.add(client);
    client.on("error", () => {});
    client.once("close", () => this.#clients.delete(client));
    if (this.#mode.kind === "reset" || this.#closed) {
      reset(client);
      return;
    }
    await this.#gate("up");
    if (client.destroyed || this.#closed) return;
    const upstream = connect({ host: "127.0.0.1", ...this.#upstream, allowHalfOpen: true });
    upstream.on("error", () => reset(client));
    const link: Link = { client, upstream, allowance: this.#mode.kind === "cut" ? this.#mode.afterBytes : 0 };
    this.#links.add(link);
    await Promise.all([this.#pump(link, "up"), this.#pump(link, "down")]);
    this.#links.delete(link);
  }

  async #pump(link: Link, direction: Direction): Promise<void> {
    const [source, target] = direction === "up" ? [link.client, link.upstream] : [link.upstream, link.client];
    try {
      for await (const data of source) {
        const chunk = data as Buffer;
        await this.#gate(direction);
        await this.#hinder(chunk.length);
        // A fault may have begun while the chunk was on its way.
        await this.#gate(direction);
        if (direction === "down" && this.#isCut(link, chunk)) return;
        if (!target.writable) return;
        if (!target.write(chunk)) await Promise.race([once(target, "drain"), once(target, "close")]);
      }
      await this.#gate(direction);
      target.end();
    } catch {
      // The other side learns of it as it would from the network; never before a black hole ends.
      await this.#gate(direction);
      reset(link.client);
      link.upstream.destroy();
    }
  }

  /** Writes what may still pass of the chunk and resets the connection when that is not all of it. */
  #isCut(link: Link, chunk: Buffer): boolean {
    if (this.#mode.kind !== "cut") return false;
    link.allowance -= chunk.length;
    if (link.allowance >= 0) return false;
    reset(link.client);
    link.upstream.destroy();
    return true;
  }

  async #hinder(length: number): Promise<void> {
    if (this.#mode.kind === "latency") await delay(this.#mode.ms);
    if (this.#mode.kind === "slow") await delay((length / this.#mode.bytesPerSecond) * 1_000);
  }

  /** Resolves when data may pass in the direction. */
  async #gate(direction: Direction): Promise<void> {
    while (!this.#closed && this.#holds(direction)) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  #holds(direction: Direction): boolean {
    if (this.#mode.kind === "black-hole") return true;
    return this.#mode.kind === "one-way" && this.#mode.silent === direction;
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }

  #resetAll(): void {
    for (const client of this.#clients) reset(client);
    for (const { upstream } of this.#links) upstream.destroy();
  }
}

function reset(socket: Socket): void {
  if (socket.destroyed) return;
  // libuv refuses a reset while an orderly end is under way (uv_tcp_close_reset), and Node then never closes the handle.
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}
