import type { ProblemError } from "../problem.ts";

export function LoginForm({ next, wrong }: { readonly next: string; readonly wrong: boolean }) {
  return (
    <>
      <h1>Turno</h1>
      <p>This installation asks for an API key. The browser keeps a session for twelve hours, never the key.</p>
      <form method="post" action="/login">
        <input type="hidden" name="next" value={next} />
        <label>
          Key
          <input type="password" name="key" required autocomplete="current-password" autofocus />
        </label>
        {wrong ? (
          <p class="wrong" role="alert">
            No key matches. Keys are listed, as hashes, in TURNO_API_KEYS.
          </p>
        ) : null}
        <button class="button primary" type="submit">
          Log in
        </button>
      </form>
    </>
  );
}

export function ProblemPage({ problem }: { readonly problem: ProblemError }) {
  return (
    <>
      <h1>{problem.title}</h1>
      <p>{problem.message}</p>
      <a class="button" href="/">
        To the overview
      </a>
    </>
  );
}
