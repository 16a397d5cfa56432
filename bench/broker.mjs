// node bench/broker.mjs [messages]: what the RabbitMQ adapter alone does, on a broker of its own: confirmed publishes and
// acknowledged deliveries a second, each median of three rounds. Uses dist/, so build first.
import { openRabbitBroker } from "../dist/runtime/adapters/rabbitmq/broker.js";
import { silentLogger } from "../dist/runtime/core/logger.js";
import { loadServices } from "../scripts/test-services.mjs";

const ROUNDS = 3;
const BATCH = 500;
const PREFETCH = 500;
const messages = Number(process.argv[2] ?? 20_000);

const { startRabbitServer } = await loadServices();
const server = await startRabbitServer();
const tls = { ca: null, cert: null, key: null, serverName: null };
const options = { url: server.url, vhost: null, tls, prefix: "bench", installation: "one", logger: silentLogger };
const [producer, worker] = [await openRabbitBroker(options), await openRabbitBroker(options)];
try {
  const rates = { published: [], delivered: [] };
  for (let round = 0; round < ROUNDS; round += 1) {
    const queue = `round-${round}`;
    rates.published.push(await rateOf(() => publish(queue)));
    rates.delivered.push(await rateOf(() => consume(queue)));
  }
  for (const [name, values] of Object.entries(rates)) {
    const [median] = values.sort((left, right) => left - right).slice(Math.floor(ROUNDS / 2));
    console.log(`${name.padEnd(10)} ${Math.round(median)}/s   rounds: ${values.map(Math.round).join(", ")}`);
  }
} finally {
  await Promise.all([producer.close(), worker.close()]);
  await server.remove();
}

async function rateOf(work) {
  const began = performance.now();
  await work();
  return messages / ((performance.now() - began) / 1_000);
}

/** As the relay does: one batch after another. */
async function publish(queue) {
  for (let sent = 0; sent < messages; sent += BATCH) {
    const batch = Array.from({ length: Math.min(BATCH, messages - sent) }, (_, index) => dispatch(queue, sent + index));
    const outcomes = await producer.publish(batch);
    if (outcomes.some((outcome) => outcome !== "confirmed")) throw new Error(`not all were confirmed: ${outcomes}`);
  }
}

async function consume(queue) {
  let subscription;
  await new Promise((resolve) => {
    let left = messages;
    subscription = worker.subscribe(queue, PREFETCH, (delivery) => {
      void delivery.acknowledge();
      left -= 1;
      if (left === 0) resolve();
    });
  });
  await subscription.stop();
}

function dispatch(queue, number) {
  const jobId = `01900000-0000-7000-8000-${String(number).padStart(12, "0")}`;
  return { kind: "dispatch", jobId, token: BigInt(number), queue };
}
