import { once } from "node:events";
import { createServer, type Server } from "node:net";

/** Below the range that systems give to outgoing connections, so that a port is still free after a refusal. */
const FIRST_BLOCK = 20_000;
const LAST_BLOCK = 31_900;
const BLOCK_SIZE = 50;

/** Ports of one run. Others that run at the same time leave them alone, also while nobody listens on one. */
export interface PortBlock {
  readonly first: number;
  readonly last: number;
  release(): Promise<void>;
}

/** The first block whose own port is free; it is held, and so is the block, until the release. */
export async function claimPorts(): Promise<PortBlock> {
  for (let base = FIRST_BLOCK; base <= LAST_BLOCK; base += BLOCK_SIZE) {
    const holder = await listen(base);
    if (holder === null) continue;
    return { first: base + 1, last: base + BLOCK_SIZE - 1, release: () => close(holder) };
  }
  throw new Error(`expected a free port among every fiftieth from ${FIRST_BLOCK} to ${LAST_BLOCK}, found none`);
}

/** A port of the block on which nobody listens now. */
export async function freePort({ first, last }: Pick<PortBlock, "first" | "last">): Promise<number> {
  for (let port = first; port <= last; port += 1) {
    const server = await listen(port);
    if (server === null) continue;
    await close(server);
    return port;
  }
  throw new Error(`expected a free port from ${first} to ${last}, found none`);
}

/** So many ports of the block on which nobody listens now, each another. */
export async function freePorts(block: Pick<PortBlock, "first" | "last">, count: number): Promise<readonly number[]> {
  const ports: number[] = [];
  for (let first = block.first; ports.length < count; first = (ports.at(-1) ?? first) + 1) {
    ports.push(await freePort({ first, last: block.last }));
  }
  return ports;
}

async function listen(port: number): Promise<Server | null> {
  const server = createServer();
  server.listen(port, "127.0.0.1");
  try {
    await once(server, "listening");
    return server;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EADDRINUSE") return null;
    throw error;
  }
}

async function close(server: Server): Promise<void> {
  const closed = once(server, "close");
  server.close();
  await closed;
}
