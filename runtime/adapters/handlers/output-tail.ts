import { storableText } from "../../core/storable.ts";

/** The end of a stream, and how many bytes before it were let go. */
export interface Tail {
  /** Storable text with every secret replaced by `***`. */
  text(secrets: readonly string[]): string;
  dropped(): number;
}

/** Keeps the end of a stream, at most `limit` bytes, whatever its length. */
export function captureTail(stream: NodeJS.ReadableStream | null, limit: number): Tail {
  const chunks: Buffer[] = [];
  let kept = 0;
  let total = 0;
  stream?.on("data", (chunk: Buffer) => {
    chunks.push(chunk);
    kept += chunk.length;
    total += chunk.length;
    for (let first = chunks[0]; first !== undefined && kept - first.length >= limit; first = chunks[0]) {
      chunks.shift();
      kept -= first.length;
    }
  });
  stream?.on("error", () => {});
  return {
    text(secrets) {
      const bytes = Buffer.concat(chunks);
      const tail = bytes.subarray(Math.max(0, bytes.length - limit)).toString("utf8");
      let text = storableText(tail, limit * 3 + 16);
      for (const secret of secrets) text = text.replaceAll(secret, "***");
      // The cut may have gone through a secret, whose rest nobody would recognize.
      return total <= limit ? text : text.slice(Math.max(0, ...secrets.map(({ length }) => length - 1)));
    },
    dropped: () => Math.max(0, total - limit),
  };
}
