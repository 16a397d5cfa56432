import { Command } from "commander";
import { describe, expect, test } from "vitest";
import { addNextCommand, type LoadSchedule } from "../../runtime/cli/commands/next.ts";
import { type CommandIo, EXIT, type ExitCode } from "../../runtime/cli/io.ts";

const loadSchedule: LoadSchedule = async (name) => {
  if (name === "nightly") {
    return { timing: { kind: "cron", expression: "30 2 * * *", timeZone: "Europe/Berlin" }, timeZone: "Europe/Berlin" };
  }
  if (name === "poll") return { timing: { kind: "every", intervalMs: 40_000, from: "finish" }, timeZone: "UTC" };
  if (name === "once") return { timing: { kind: "at", at: "2026-01-01T00:00:00Z" }, timeZone: "UTC" };
  return null;
};

async function run(...args: readonly string[]): Promise<{ out: string; err: string; code: ExitCode | null }> {
  const seen: { out: string; err: string; code: ExitCode | null } = { out: "", err: "", code: null };
  const io: CommandIo = {
    cwd: "/",
    env: {},
    colour: false,
    errIsTerminal: false,
    interactive: false,
    out: (text) => {
      seen.out += text;
    },
    err: (text) => {
      seen.err += text;
    },
    signal: new AbortController().signal,
  };
  const program = new Command().exitOverride();
  const setExitCode = (code: ExitCode): void => {
    seen.code = code;
  };
  addNextCommand(program, io, setExitCode, loadSchedule, () => new Date("2026-03-28T12:00:00Z"));
  await program.parseAsync(["next", ...args], { from: "user" });
  return seen;
}

describe("turno next", () => {
  test("lists the next fires of a declared schedule in its zone, from now on", async () => {
    const { out, code } = await run("nightly", "--count", "2");
    expect(out).toBe(
      "2026-03-29T03:00:00+02:00  2026-03-29T01:00:00Z  in 13 h  (02:30 does not exist on this day: fires at the end of the gap)\n" +
        "2026-03-30T02:30:00+02:00  2026-03-30T00:30:00Z  in 1 d 12 h\n",
    );
    expect(code).toBe(EXIT.done);
  });

  test("prints the fires of any expression as JSON", async () => {
    const { out } = await run(
      ...[
        "--cron",
        "0 9 * * MON",
        "--tz",
        "America/New_York",
        "--from",
        "2026-03-02T00:00:00Z",
        "--count",
        "2",
        "--json",
      ],
    );
    expect(JSON.parse(out)).toEqual([
      { at: "2026-03-02T14:00:00Z", local: "2026-03-02T09:00:00-05:00", note: null },
      { at: "2026-03-09T13:00:00Z", local: "2026-03-09T09:00:00-04:00", note: null },
    ]);
  });

  test("shows five fires when nothing else is asked for", async () => {
    expect(JSON.parse((await run("nightly", "--json")).out)).toHaveLength(5);
  });

  test("says that a date never comes, has passed, or hangs on the end of a run", async () => {
    expect((await run("--cron", "0 0 30 2 *", "--tz", "UTC")).out).toBe("never fires\n");
    expect((await run("--cron", "0 0 30 2 *", "--tz", "UTC", "--json")).out).toBe("[]\n");
    expect((await run("once")).out).toBe("never fires again\n");
    expect((await run("poll")).out).toContain("40 s after the end of each run");
  });

  test.each([
    [[], "give the name of a schedule, or --cron and --tz"],
    [["nightly", "--cron", "0 0 * * *"], "not both"],
    [["nightly", "--tz", "UTC"], "a schedule has its own zone"],
    [["--cron", "0 0 * * *"], "--cron needs --tz"],
    [["nightly", "--count", "0"], "--count from 1 to 1000"],
    [["nightly", "--count", "1e3"], "--count from 1 to 1000"],
  ])("with %j says what is wrong and prints nothing else", async (args, message) => {
    const { out, err, code } = await run(...args);
    expect({ out, code }).toEqual({ out: "", code: EXIT.usage });
    expect(err).toContain(message);
  });

  test.each([
    [["weekly"], "TURNO_SCHEDULE_NOT_FOUND"],
    [["--cron", "61 * * * *", "--tz", "UTC"], "TURNO_USAGE"],
    [["--cron", "0 0 * * *", "--tz", "Europe/Atlantis"], "TURNO_USAGE"],
    [["nightly", "--from", "tomorrow"], "TURNO_USAGE"],
  ])("with %j fails with %s", async (args, code) => {
    await expect(run(...args)).rejects.toMatchObject({ code });
  });
});
