// npm run services: RabbitMQ and three Redis nodes for tests, until Ctrl-C. Prints the variables under which tests find them.
import "./check-node.mjs";

const { installPackages } = await import("./install.mjs");
const { reportFailure } = await import("./project.mjs");

const started = [];
try {
  await installPackages();
  const { loadServices, provideTestServices } = await import("./test-services.mjs");
  await provideTestServices();
  const { startRabbitServer, startRedisServers } = await loadServices();
  const interrupted = new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(signal, resolve);
  });
  console.error("Starting RabbitMQ and Redis ...");
  const stopped = Symbol("stopped");
  const redis = await startRedisServers(3);
  started.push(redis);
  const starting = startRabbitServer();
  const rabbitmq = await Promise.race([starting, interrupted.then(() => stopped)]);
  started.push(rabbitmq === stopped ? await starting : rabbitmq);
  if (rabbitmq !== stopped) {
    console.log(`export TURNO_TEST_RABBITMQ=${rabbitmq.url}`);
    console.log(`export TURNO_TEST_REDIS=${redis.urls.join(",")}`);
    console.error("Ready; Ctrl-C ends them.");
    // Their ends are watched by nobody, so something has to keep this process.
    const alive = setInterval(() => {}, 60_000);
    await interrupted;
    clearInterval(alive);
  }
} catch (error) {
  reportFailure(error);
} finally {
  for (const service of started.reverse()) await service.remove();
}
