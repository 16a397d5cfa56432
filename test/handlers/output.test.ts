import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { forwardLines } from "../../runtime/adapters/handlers/output.ts";

async function linesOf(chunks: readonly (string | Buffer)[]): Promise<readonly string[]> {
  const stream = new PassThrough();
  const lines: string[] = [];
  forwardLines(stream, (line) => lines.push(line));
  for (const chunk of chunks) stream.write(chunk);
  stream.end();
  await new Promise((resolve) => stream.once("close", resolve));
  return lines;
}

test("what code prints is handed on line by line, wherever the chunks are cut", async () => {
  expect(await linesOf(["a\nb", "c\r\n\n", "last"])).toEqual(["a", "bc", "last"]);
  const [first, second] = [Buffer.from("é").subarray(0, 1), Buffer.from("é\n").subarray(1)];
  expect(await linesOf([first, second])).toEqual(["é"]);
});

test("of a line without an end the beginning is kept, and the lines after it are whole", async () => {
  const lines = await linesOf([...Array.from({ length: 100 }, () => "x".repeat(1024)), "\nnext\n"]);
  expect(lines.map(({ length }) => length)).toEqual([16 * 1024, 4]);
});
