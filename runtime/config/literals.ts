import type { ErrorCode } from "../core/error-codes.ts";
import type { Json, JsonObject } from "../core/json.ts";
import { describeKeyTemplate } from "./job-keys.ts";
import type { ObjectKind } from "./objects.ts";
import type { Path } from "./problems.ts";
import { isMapping } from "./schema-walk.ts";

export interface LiteralProblem {
  readonly code: ErrorCode;
  readonly severity: "error" | "warning";
  readonly path: Path;
  readonly message: string;
  readonly hint: string | null;
}

const REFERENCE = /\$\{(env|file):([^}]*)\}/g;
/** Shapes that nothing but a secret has. */
const SECRETS: readonly (readonly [pattern: RegExp, name: string])[] = [
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----/, "a private key"],
  [/\b(?:AKIA|ASIA)[A-Z0-9]{16}\b/, "an access key of AWS"],
  [/\bgh[pousr]_[A-Za-z0-9]{30,}/, "a token of GitHub"],
  [/\bglpat-[A-Za-z0-9_-]{20,}/, "a token of GitLab"],
  [/\bxox[abprs]-[A-Za-z0-9-]{10,}/, "a token of Slack"],
  [/\bsk_live_[A-Za-z0-9]{10,}/, "a key of Stripe"],
  [/\bSharedAccessKey=[^;\s]+/i, "a key of Azure"],
];
const SECRET_KEY =
  /^(password|passwd|passphrase|secret|clientsecret|token|accesstoken|apikey|accesskey|secretkey|privatekey)$/;

/** Expressions, misplaced references and literal secrets in the texts of a document. */
export function findLiteralProblems(kind: ObjectKind, document: JsonObject): readonly LiteralProblem[] {
  const problems: LiteralProblem[] = [];
  const { spec } = document;
  const command = kind === "Job" && isMapping(spec) && spec.handler === "builtin/command";
  walk(document, [], (text, path) => {
    if (path[0] === "metadata" && path[1] === "description") return;
    const runtime = kind === "Project" && path[0] === "spec" && path[1] === "runtime";
    // The command's environment is put together by the worker when it starts it.
    const environment = command && path[1] === "settings" && path[2] === "env";
    const allowed = runtime ? "env and file" : environment ? "env" : "none";
    const found =
      describeExpression(text, kind, path) ?? describeReference(text, allowed) ?? describeSecret(text, path, kind);
    if (found !== null) problems.push({ severity: "error", ...found, path });
  });
  return problems;
}

type Found = Pick<LiteralProblem, "code" | "message" | "hint"> & { readonly severity?: "warning" };

/** Fields of a job whose texts may hold expressions. */
const EXPRESSION_FIELDS = ["spec.concurrencyKey", "spec.unique.key"];

function describeExpression(text: string, kind: ObjectKind, path: Path): Found | null {
  if (!text.includes("${{")) return null;
  const code = "TURNO_CONFIG_EXPRESSION";
  if (kind === "Job" && EXPRESSION_FIELDS.includes(path.join("."))) {
    const message = describeKeyTemplate(text);
    return message === null ? null : { code, message, hint: null };
  }
  const message = `expected an expression (\${{ … }}) only in ${EXPRESSION_FIELDS.join(" and ")} of a Job, found one here`;
  return { code, message, hint: null };
}

function describeReference(text: string, allowed: "env and file" | "env" | "none"): Found | null {
  const code = "TURNO_CONFIG_REFERENCE";
  if (allowed === "none") {
    const found = text.match(REFERENCE)?.[0];
    if (found === undefined) return null;
    const message = `references such as ${found.slice(0, 60)} are allowed only under spec.runtime and in the env of builtin/command`;
    return { code, message, hint: null };
  }
  const isGood = (source: string, name: string) =>
    source === "env" ? /^[A-Za-z_]\w*$/.test(name) : allowed === "env and file" && name.trim() !== "";
  const rest = text.replaceAll(REFERENCE, (_, source: string, name: string) => (isGood(source, name) ? "" : "${"));
  if (!rest.includes("${")) return null;
  if (allowed === "env") {
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it quotes what is to stand in the file.
    return { code, message: "expected ${env:NAME} in a command's env, found another reference", hint: null };
  }
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it quotes what is to stand in the file.
  return { code, message: "expected ${env:NAME} or ${file:/path}, found another reference", hint: null };
}

/** Never quotes the text. */
function describeSecret(text: string, path: Path, kind: ObjectKind): Found | null {
  const code = "TURNO_CONFIG_SECRET";
  const runtime = kind === "Project" && path[1] === "runtime";
  const hint = runtime
    ? // biome-ignore lint/suspicious/noTemplateCurlyInString: it quotes what is to stand in the file.
      "Write ${env:NAME} or ${file:/path} in its place."
    : "Let the handler read it from its environment, and name the variable here.";
  const literal = text.replaceAll(REFERENCE, "");
  const known = SECRETS.find(([pattern]) => pattern.test(literal));
  if (known !== undefined)
    return { code, message: `expected no secret in a file, found what looks like ${known[1]}`, hint };
  if (/[a-z][a-z0-9+.-]*:\/\/[^/\s:@]*:[^/\s@]+@/i.test(literal) || /(?:^|[\s?&])password=[^\s&]+/i.test(literal)) {
    return { code, message: "expected no secret in a file, found an address with a password", hint };
  }
  const key = String(path.at(-1) ?? "")
    .toLowerCase()
    .replaceAll(/[_-]/g, "");
  const data = path[1] === "settings" || path[1] === "payload";
  if (
    !data ||
    (kind === "Job") === (path[1] === "payload") ||
    !SECRET_KEY.test(key) ||
    // A reference in it is where the secret comes from.
    literal !== text ||
    /^$|^(env|file):/.test(text)
  )
    return null;
  return {
    code,
    severity: "warning",
    message: `the field "${String(path.at(-1))}" looks like a secret in a file`,
    hint,
  };
}

function walk(value: Json, path: Path, visit: (text: string, path: Path) => void): void {
  if (typeof value === "string") visit(value, path);
  else if (value !== null && typeof value === "object") {
    for (const [key, member] of Object.entries(value)) {
      walk(member, [...path, Array.isArray(value) ? Number(key) : key], visit);
    }
  }
}
