/** What a file may be at most; values and text are counted after aliases are expanded. */
export const LOAD_LIMITS = { fileBytes: 256 * 1024, depth: 64, values: 100_000, textLength: 1024 * 1024 } as const;

/** JSON text of a payload in bytes of UTF-8. */
export const MAX_PAYLOAD_BYTES = 256 * 1024;
