import { ERROR_CODES, type ErrorCode, TurnoError } from "../core/errors.ts";

/** A JSON request to the API, over the network or in this process; both give the same shapes. */
export type ApiRequest = (path: string, init: RequestInit) => Promise<Response>;

export interface ApiClient {
  /** GET; throws a TurnoError with the problem's code and text for every status from 400. */
  get<Body>(path: string): Promise<Body>;
  post<Body>(path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<Body>;
  close(): Promise<void>;
}

/** The server is away, or cannot do it now: the same request may work later. */
export class ApiAwayError extends TurnoError {
  override readonly name = "ApiAwayError";
}

interface Problem {
  readonly title?: string;
  readonly detail?: string;
  readonly code?: string;
  readonly errors?: readonly { readonly pointer: string; readonly detail: string }[];
}

const REQUEST_LIMIT_MS = 30_000;

export function createApiClient(request: ApiRequest, close: () => Promise<void>): ApiClient {
  const call = async <Body>(path: string, init: RequestInit): Promise<Body> => {
    const response = await request(path, init);
    const body = await readBody(response);
    if (response.status >= 400) throw toError(response.status, body as Problem | null);
    return body as Body;
  };
  return {
    get: (path) => call(path, { method: "GET" }),
    post: (path, body, headers) =>
      call(path, {
        method: "POST",
        headers: body === undefined ? { ...headers } : { "content-type": "application/json", ...headers },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
    close,
  };
}

/** The API at a URL, whose path is kept. The key goes only to that origin: redirects are not followed. */
export function createRemoteClient(options: { readonly url: string; readonly apiKey: string | null }): ApiClient {
  const { apiKey } = options;
  const base = readBase(options.url);
  if (apiKey !== null && !/^[\x21-\x7e]+$/.test(apiKey)) {
    throw new TurnoError("TURNO_USAGE", "expected a key of printable characters in TURNO_API_KEY, found another text");
  }
  return createApiClient(
    async (path, init) => {
      try {
        return await fetch(`${base.origin}${base.pathname.replace(/\/+$/, "")}${path}`, {
          ...init,
          redirect: "error",
          signal: AbortSignal.timeout(REQUEST_LIMIT_MS),
          headers: { ...init.headers, ...(apiKey === null ? {} : { "x-turno-key": apiKey }) },
        });
      } catch (error) {
        throw new ApiAwayError(
          "TURNO_SERVER_ERROR",
          `no answer from the Turno server at ${base.origin}: ${why(error)}`,
          {
            cause: error,
            hint: "is it running, and is its address right?",
          },
        );
      }
    },
    async () => {},
  );
}

function readBase(url: string): URL {
  const base = URL.canParse(url) ? new URL(url) : null;
  if (base !== null && (base.protocol === "http:" || base.protocol === "https:")) return base;
  throw new TurnoError(
    "TURNO_USAGE",
    `expected an address such as http://localhost:8080 after --server, found "${url}"`,
  );
}

/** What fetch hides behind "fetch failed". */
function why(error: unknown): string {
  const { name, message, cause } = error as { name?: unknown; message?: unknown; cause?: unknown };
  if (name === "TimeoutError") return `it took longer than ${REQUEST_LIMIT_MS / 1000} s`;
  const inner = (cause as { message?: unknown; code?: unknown } | undefined) ?? {};
  if (inner.message === "unexpected redirect") return "it answers with a redirect, which is not followed";
  return String(inner.message || inner.code || message);
}

async function readBody(response: Response): Promise<unknown> {
  const text = await response.text().catch((error: unknown) => {
    throw new ApiAwayError("TURNO_SERVER_ERROR", `the server's answer was cut off: ${why(error)}`, { cause: error });
  });
  if (text === "") return null;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new TurnoError(
      "TURNO_SERVER_ERROR",
      `expected the API of Turno to answer with JSON, found status ${response.status} with ${response.headers.get("content-type") ?? "no type"}`,
      { cause: error, hint: "does --server name a Turno server, without the path of a page?" },
    );
  }
}

/** A request that the API cannot read was put together from this command's own arguments. */
function toError(status: number, problem: Problem | null): TurnoError {
  const text = problemText(status, problem);
  const code = isErrorCode(problem?.code) ? problem.code : "TURNO_SERVER_ERROR";
  if (status === 503) return new ApiAwayError(code, text);
  return new TurnoError(
    (status === 400 || status === 422) && code === "TURNO_API_REQUEST" ? "TURNO_USAGE" : code,
    text,
  );
}

function isErrorCode(code: unknown): code is ErrorCode {
  return typeof code === "string" && Object.hasOwn(ERROR_CODES, code);
}

function problemText(status: number, problem: Problem | null): string {
  const fields = (problem?.errors ?? []).map(({ pointer, detail }) => `  ${pointer}: ${detail}`);
  return [problem?.detail ?? problem?.title ?? `the server answered with status ${status}`, ...fields].join("\n");
}
