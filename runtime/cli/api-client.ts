import { TurnoError } from "../core/errors.ts";

/** A JSON request to the API, over the network or in this process; both give the same shapes. */
export type ApiRequest = (path: string, init: RequestInit) => Promise<Response>;

export interface ApiAnswer {
  readonly status: number;
  readonly body: unknown;
}

export interface ApiClient {
  /** GET; throws TURNO_SERVER_ERROR with the problem's text for every status from 400. */
  get<Body>(path: string): Promise<Body>;
  post<Body>(path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<Body>;
  close(): Promise<void>;
}

interface Problem {
  readonly title?: string;
  readonly detail?: string;
  readonly errors?: readonly { readonly pointer: string; readonly detail: string }[];
}

export function createApiClient(request: ApiRequest, close: () => Promise<void>): ApiClient {
  const call = async <Body>(path: string, init: RequestInit): Promise<Body> => {
    const response = await request(path, init);
    const text = await response.text();
    const body: unknown = text === "" ? null : JSON.parse(text);
    if (response.status >= 400)
      throw new TurnoError("TURNO_SERVER_ERROR", problemText(response.status, body as Problem | null));
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

/** The API at a URL. The key goes only to that origin: redirects are not followed. */
export function createRemoteClient(options: { readonly url: string; readonly apiKey: string | null }): ApiClient {
  const base = new URL(options.url);
  return createApiClient(
    async (path, init) => {
      try {
        return await fetch(new URL(path, base), {
          ...init,
          redirect: "error",
          signal: AbortSignal.timeout(30_000),
          headers: { ...init.headers, ...(options.apiKey === null ? {} : { "x-turno-key": options.apiKey }) },
        });
      } catch (error) {
        throw new TurnoError(
          "TURNO_SERVER_ERROR",
          `no answer from the Turno server at ${base.origin}: is it running?`,
          { cause: error },
        );
      }
    },
    async () => {},
  );
}

function problemText(status: number, problem: Problem | null): string {
  const fields = (problem?.errors ?? []).map(({ pointer, detail }) => `  ${pointer}: ${detail}`);
  const head = [problem?.title ?? `status ${status}`, problem?.detail].filter((part) => part !== undefined).join(": ");
  return [head, ...fields].join("\n");
}
