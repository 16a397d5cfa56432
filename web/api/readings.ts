import type { Hono } from "hono";
import { NAME_PATTERN } from "../../runtime/core/ids.ts";
import type { Actions } from "../actions.ts";
import { expectNoBody } from "../body.ts";
import type { EventStreams } from "../events.ts";
import { PAGE, readCursor, readLimit, readQuery, writeCursor } from "../listing.ts";
import { PULSE_TOPICS } from "../live.ts";
import { addPath } from "../methods.ts";
import type { WebEnv, WebPorts } from "../ports.ts";
import { scheduleJson } from "./schedules.ts";

/** Figures, workers, job types, queues, schedules, events. */
export function addReadingRoutes(app: Hono<WebEnv>, ports: WebPorts, actions: Actions, streams: EventStreams): void {
  const { panel } = ports;

  addPath(app, "/api/stats", {
    async get(c) {
      readQuery(c, []);
      return c.json(await panel.loadStatistics());
    },
  });

  addPath(app, "/api/workers", {
    async get(c) {
      readQuery(c, []);
      return c.json({ items: (await panel.listWorkers()).items, nextCursor: null });
    },
  });

  addPath(app, "/api/job-types", {
    async get(c) {
      readQuery(c, []);
      return c.json({ items: await panel.listJobTypes(), nextCursor: null });
    },
  });

  addPath(app, "/api/queues", {
    async get(c) {
      readQuery(c, []);
      return c.json({ items: (await panel.listQueues()).items, nextCursor: null });
    },
  });

  addPath(app, "/api/recurring-jobs", {
    async get(c) {
      const query = readQuery(c, ["cursor", "limit"]);
      const page = await panel.listSchedules({
        after: readCursor(query.cursor, (key) => NAME_PATTERN.test(key)),
        limit: Math.min(readLimit(query.limit), PAGE.max),
      });
      const items = page.items.map(scheduleJson);
      return c.json({ items, nextCursor: writeCursor(page.next) });
    },
  });

  addPath(app, "/api/recurring-jobs/:name/trigger", {
    async post(c) {
      await expectNoBody(c);
      const jobId = await actions.trigger(c.req.param("name") ?? "");
      return c.json({ jobId }, 201, { Location: `/api/jobs/${jobId}` });
    },
  });

  addPath(app, "/api/events", {
    get(c) {
      readQuery(c, []);
      return streams.open(c, {
        topics: PULSE_TOPICS,
        greeting: { event: "ready", data: JSON.stringify({ topics: PULSE_TOPICS }) },
        messages: (topics) => topics.map((topic) => ({ event: topic, data: JSON.stringify({ changed: topic }) })),
      });
    },
  });
}
