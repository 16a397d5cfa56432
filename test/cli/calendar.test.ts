import ICAL from "ical.js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { EXIT } from "../../runtime/cli/io.ts";
import { type CommandProject, createCommandProject } from "./run.ts";

const schedule = (name: string, timing: string, more = "") => `apiVersion: turno/v1
kind: Schedule
metadata: { name: ${name}, description: "Closes; the day, ${name} ${"ö".repeat(60)}" }
spec: { job: greet, ${timing}, payload: { name: Ada }${more} }
`;

let project: CommandProject;
beforeAll(async () => {
  project = await createCommandProject();
  const documents = [
    schedule("daily", 'cron: "30 2 * * *", timeZone: Europe/Berlin'),
    schedule("often", 'cron: "* * * * *"'),
    schedule("after-runs", "every: { interval: 40s, from: finish }"),
    schedule("off", 'cron: "0 9 * * *"', ", suspend: true"),
  ];
  await project.write("turno.d/s.yaml", documents.join("---\n"));
});
afterAll(() => project.remove());

describe("turno calendar", () => {
  test("lays a month of one schedule out in its own zone, with its clock change", async () => {
    const ran = await project.run("calendar", "daily", "--month", "2026-03");
    expect(ran).toMatchObject({ code: EXIT.done, err: "" });
    const lines = ran.out.split("\n");
    expect(lines.slice(0, 4)).toEqual([
      "March 2026  Europe/Berlin",
      "Mon       Tue       Wed       Thu       Fri       Sat       Sun",
      "                                                            1 █",
      "                                                            02:30",
    ]);
    expect(ran.out).toContain("29! █");
    expect(ran.out).toContain("03:00\n");
    expect(ran.out).toMatch(/\n! 2026-03-29 clock change, 02:00 → 03:00\n$/);
  });

  test("counts all schedules that are not suspended, and names what cannot be foreseen", async () => {
    const { out } = await project.run("calendar", "--month", "2026-04");
    expect(out).toContain("April 2026  UTC");
    expect(out).toContain("1441 fires");
    expect(out).toContain("  after-runs fires when its runs end\n");
    const months = JSON.parse((await project.run("calendar", "--month", "2026-12", "--months", "2", "--json")).out);
    expect(months.map(({ month }: { month: string }) => month)).toEqual(["2026-12", "2027-01"]);
    expect(months[0].days[0]).toMatchObject({ date: "2026-12-01", fires: 1441, clockChange: null });
    expect(months[0].days[0].schedules[0]).toEqual({ name: "daily", fires: ["2026-12-01T01:30:00Z"] });
  });

  test("exports an iCalendar that others can read, without what fires too often", async () => {
    const ran = await project.run("calendar", "--month", "2026-03", "--ics");
    expect(ran).toMatchObject({ code: EXIT.done, err: "turno calendar: left out, since they fire too often: often\n" });
    for (const line of ran.out.split("\r\n")) expect(Buffer.byteLength(line)).toBeLessThanOrEqual(75);
    const events = new ICAL.Component(ICAL.parse(ran.out)).getAllSubcomponents("vevent");
    expect(events).toHaveLength(31);
    const last = new ICAL.Event(events[28] as ICAL.Component);
    expect(last.summary).toBe("daily");
    expect(last.description).toContain("Closes; the day, daily ö");
    expect(last.startDate.toString()).toBe("2026-03-29T01:00:00Z");
    expect(new Set(events.map((event) => event.getFirstPropertyValue("uid"))).size).toBe(31);
  });

  test.each([
    [["calendar", "--month", "2026-13"], /a month such as 2026-12/, EXIT.usage],
    [["calendar", "--months", "25"], /--months from 1 to 24/, EXIT.usage],
    [["calendar", "--tz", "Berlin"], /a time zone such as/, EXIT.usage],
    [["calendar", "--ics", "--json"], /--ics or --json, found both/, EXIT.usage],
    [["calendar", "none"], /TURNO_SCHEDULE_NOT_FOUND/, EXIT.failed],
  ])("%j is refused", async (args, message, code) => {
    const ran = await project.run(...args);
    expect(ran.err).toMatch(message);
    expect(ran).toMatchObject({ code, out: "" });
  });
});
