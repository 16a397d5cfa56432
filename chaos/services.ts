import { startRedis, type TestRedis } from "../test/support/redis.ts";
import { startRabbitServer } from "../test/support/services/rabbitmq-server.ts";
import { LOCK_NODES, type LockFault } from "./plan.ts";

/** The broker and the lock nodes of a run on the full stack. */
export interface Services {
  readonly brokerPort: number;
  /** Settings of a process that reaches the broker through a port of its own. */
  environment(brokerPort: number): Readonly<Record<string, string>>;
  /** Ends the broker, waits, and starts it again; what is durable stays. */
  restartBroker(how: "stop" | "kill", down: Promise<unknown>): Promise<void>;
  disturbLocks(node: number, how: LockFault, over: Promise<unknown>): Promise<void>;
  stop(): Promise<void>;
}

/** RabbitMQ, which takes ten seconds or more, and three Redis nodes that know nothing of one another. */
export async function startServices({ leaseMs }: { readonly leaseMs: number }): Promise<Services> {
  const ends: (() => Promise<void>)[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(ends.map((end) => end()));
  };
  try {
    const nodes: TestRedis[] = [];
    for (let node = 0; node < LOCK_NODES; node += 1) {
      const started = await startRedis();
      ends.push(() => started.stop());
      nodes.push(started);
    }
    const broker = await startRabbitServer();
    ends.push(() => broker.remove());
    const locks = Object.fromEntries(
      nodes.map(({ proxy }, node) => [`TURNO_RUNTIME_LOCKS_REDLOCK_URLS_${node}`, `redis://127.0.0.1:${proxy.port}`]),
    );
    return {
      brokerPort: broker.port,
      environment: (brokerPort) => ({
        TURNO_RUNTIME_BROKER_TRANSPORT: "rabbitmq",
        TURNO_RABBITMQ_URL: `amqp://guest:guest@127.0.0.1:${brokerPort}`,
        TURNO_RUNTIME_LOCKS_DRIVER: "redlock",
        TURNO_RUNTIME_LOCKS_REDLOCK_EXPIRY: `${Math.min(30, leaseMs / 2_000)}s`,
        ...locks,
      }),
      async restartBroker(how, down) {
        await broker.halt(how);
        await down;
        await broker.start();
      },
      async disturbLocks(node, how, over) {
        const server = nodes[node];
        if (server === undefined) throw new Error(`there is no lock node ${node}`);
        if (how === "restart") return server.restart();
        if (how === "freeze") server.freeze();
        else await server.proxy.setMode({ kind: "refuse" });
        await over;
        server.thaw();
        await server.proxy.setMode({ kind: "pass" });
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
