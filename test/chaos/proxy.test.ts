import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { claimPorts, freePort, type PortBlock } from "../../chaos/ports.ts";
import { FaultProxy } from "../../chaos/proxy.ts";
import { eventually } from "../support/up.ts";

let folder: string;
let server: Server;
let block: PortBlock;
let proxy: FaultProxy;
const accepted: Socket[] = [];
const clients: Socket[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "turno-proxy-"));
  const path = join(folder, "echo.sock");
  server = createServer((socket) => {
    accepted.push(socket);
    socket.on("error", () => {});
    socket.pipe(socket);
  });
  server.listen(path);
  await once(server, "listening");
  block = await claimPorts();
  proxy = await FaultProxy.open({ path }, block);
});

afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy();
  await proxy.close();
  await block.release();
  for (const socket of accepted.splice(0)) socket.destroy();
  server.close();
  await rm(folder, { recursive: true, force: true });
});

test("data passes both ways", async () => {
  const client = await open();
  expect(await echo(client, "hello")).toBe("hello");
});

test("a black hole resets nothing, accepts connections, and what it held arrives when it ends", async () => {
  const client = await open();
  await echo(client, "before");
  await proxy.setMode({ kind: "black-hole" });
  const late = answer(client);
  client.write("held");
  const second = await open();
  const lateToo = answer(second);
  second.write("held too");
  await proxy.setMode({ kind: "black-hole" });
  expect(accepted.length).toBe(1);
  expect([client.destroyed, second.destroyed]).toEqual([false, false]);
  await proxy.setMode({ kind: "pass" });
  expect([await late, await lateToo]).toEqual(["held", "held too"]);
});

test("one way lets the questions through and keeps the answers", async () => {
  const client = await open();
  await echo(client, "before");
  await proxy.setMode({ kind: "one-way", silent: "down" });
  const [upstream] = accepted;
  const arrived = once(upstream as Socket, "data");
  const answered = answer(client);
  client.write("asked");
  expect(String((await arrived)[0])).toBe("asked");
  expect(client.bytesRead).toBe("before".length);
  await proxy.setMode({ kind: "pass" });
  expect(await answered).toBe("asked");
});

test("a client that dies behind a black hole leaves its connection to the server open until the hole ends", async () => {
  const client = await open();
  await echo(client, "before");
  await proxy.setMode({ kind: "black-hole" });
  const upstream = accepted[0] as Socket;
  const late = once(upstream, "data");
  await new Promise((resolve) => client.write("written before it died", resolve));
  client.destroy();
  expect(upstream.destroyed).toBe(false);
  const ended = once(upstream, "close");
  await proxy.setMode({ kind: "pass" });
  expect(String((await late)[0])).toBe("written before it died");
  await ended;
});

test("a reset ends every connection, and each new one at once", async () => {
  const client = await open();
  await echo(client, "before");
  const failed = failure(client);
  await proxy.setMode({ kind: "reset" });
  expect(await failed).toBe("ECONNRESET");
  expect(await failure(connect(proxy.port, "127.0.0.1"))).toBe("ECONNRESET");
  await proxy.setMode({ kind: "pass" });
  expect(await echo(await open(), "again")).toBe("again");
});

test("a refusal takes no connection, and the same port serves again after it", async () => {
  const { port } = proxy;
  await proxy.setMode({ kind: "refuse" });
  expect(await failure(connect(port, "127.0.0.1"))).toBe("ECONNREFUSED");
  await proxy.setMode({ kind: "pass" });
  expect(proxy.port).toBe(port);
  expect(await echo(await open(), "again")).toBe("again");
});

test("a cut lets so many bytes of answers through and resets the connection with the next", async () => {
  const client = await open();
  await echo(client, "before");
  await proxy.setMode({ kind: "cut", afterBytes: 8 });
  expect(await echo(client, "12345678")).toBe("12345678");
  const failed = failure(client);
  client.write("9");
  expect(await failed).toBe("ECONNRESET");
  expect(client.bytesRead).toBe("before12345678".length);
});

test("two runs never share ports, not even one that nobody listens on for the moment", async () => {
  await proxy.setMode({ kind: "refuse" });
  const other = await claimPorts();
  try {
    const port = await freePort(other);
    expect(port < block.first || port > block.last).toBe(true);
  } finally {
    await other.release();
  }
});

test("latency and a slow line deliver everything in its order, later", async () => {
  const client = await open();
  for (const mode of [{ kind: "latency", ms: 30 } as const, { kind: "slow", bytesPerSecond: 200 } as const]) {
    await proxy.setMode(mode);
    const began = performance.now();
    expect(await echo(client, "123456")).toBe("123456");
    expect(performance.now() - began).toBeGreaterThanOrEqual(55);
  }
});

test("a server that is away resets the client", async () => {
  server.close();
  await rm(join(folder, "echo.sock"), { force: true });
  expect(await failure(connect(proxy.port, "127.0.0.1"))).toBe("ECONNRESET");
  await eventually("the client to be forgotten", async () => proxy.connections === 0);
});

test("a connection that its server is just ending is gone after a reset, too", async () => {
  for (let round = 0; round < 5; round += 1) {
    const client = await open();
    client.on("error", () => {});
    await echo(client, "before");
    const gone = new Promise((resolve) => client.once("close", resolve));
    client.resume();
    accepted.at(-1)?.end();
    await proxy.setMode({ kind: "reset" });
    await gone;
    await proxy.setMode({ kind: "pass" });
  }
  await eventually("every connection to be forgotten", async () => proxy.connections === 0);
});

async function open(): Promise<Socket> {
  const client = connect(proxy.port, "127.0.0.1");
  clients.push(client);
  await once(client, "connect");
  return client;
}

async function answer(client: Socket): Promise<string> {
  return String((await once(client, "data"))[0]);
}

function echo(client: Socket, text: string): Promise<string> {
  const answered = answer(client);
  client.write(text);
  return answered;
}

async function failure(client: Socket): Promise<string> {
  clients.push(client);
  const [error] = (await once(client, "error")) as [NodeJS.ErrnoException];
  return String(error.code);
}
