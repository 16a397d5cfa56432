import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import type { Hono } from "hono";
import { readBody } from "../body.ts";
import { addPath } from "../methods.ts";
import type { WebEnv, WebPorts } from "../ports.ts";
import { ProblemError } from "../problem.ts";

/** Calls that come closer than this make one look. */
const QUIET_MS = 1_000;
/** GitHub, Gitea and Forgejo sign the body (HMAC-SHA256, in hex). */
const SIGNATURES = ["x-hub-signature-256", "x-gitea-signature", "x-forgejo-signature"];

/**
 * `POST /hooks/git`: a host of repositories says that something was pushed. Nothing of the body is believed, so a call
 * that is heard twice or repeated by a stranger makes a look, and no more.
 */
export function addGitHook(
  app: Hono<WebEnv>,
  { gitHookSecret, revisions, clock }: Pick<WebPorts, "gitHookSecret" | "revisions" | "clock">,
): void {
  if (gitHookSecret === null || gitHookSecret === undefined || gitHookSecret === "") return;
  let lastMs = Number.NEGATIVE_INFINITY;
  addPath(app, "/hooks/git", {
    async post(c) {
      const body = await readBody(c);
      if (!isSigned(body, (name) => c.req.header(name) ?? null, gitHookSecret)) {
        throw new ProblemError(
          401,
          "Expected a signature with the secret of spec.source.git.webhook, found none that fits.",
          {
            code: "TURNO_API_ACCESS",
          },
        );
      }
      const now = clock.monotonicMs();
      if (now - lastMs >= QUIET_MS) {
        lastMs = now;
        revisions.requestSync();
      }
      return c.json({ requested: true }, 202);
    },
  });
}

function isSigned(body: Uint8Array, header: (name: string) => string | null, secret: string): boolean {
  // GitLab has no signature: it sends the secret itself.
  const token = header("x-gitlab-token");
  if (token !== null) return sameText(token, secret);
  const expected = createHmac("sha256", secret).update(body).digest("hex");
  const presented = SIGNATURES.map(header).find((value) => value !== null) ?? "";
  return sameText(presented.replace(/^sha256=/, "").toLowerCase(), expected);
}

/** Takes the same time whatever the texts are: their hashes are compared. */
function sameText(left: string, right: string): boolean {
  const digest = (text: string) => createHash("sha256").update(text, "utf8").digest();
  return timingSafeEqual(digest(left), digest(right));
}
