import { createHash } from "node:crypto";
import { join, relative } from "node:path";
import { createTransport, type SendMailOptions } from "nodemailer";
import { defineHandler, PermanentError, TransientError } from "turno";
import { folderFrom, projectRoot, writeWhole } from "./lib/folders.ts";

interface Payload {
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

interface Settings {
  readonly from?: string;
}

/** Sends a mail through the server of TURNO_SMTP_URL; without one, leaves it as a file in the outbox folder. */
export default defineHandler<Payload>(async ({ to, subject, text }, ctx) => {
  const { from = "turno@example.com" } = ctx.settings as Settings;
  // The same in every attempt, so that a server or reader can tell a repetition.
  const id = createHash("sha256").update(ctx.idempotencyKey).digest("hex").slice(0, 32);
  const mail: SendMailOptions = {
    from,
    to,
    subject,
    text,
    messageId: `<${id}@example.com>`,
    disableFileAccess: true,
    disableUrlAccess: true,
  };
  const url = process.env.TURNO_SMTP_URL;
  if (url === undefined) {
    const file = join(folderFrom("TURNO_OUTBOX_DIR", ".turno/outbox"), `${id}.eml`);
    await writeWhole(file, await render(mail));
    ctx.log.info("mail left in the outbox", { to: maskAddress(to), file });
    return { sent: "outbox", to: maskAddress(to), messageId: mail.messageId, file: relative(projectRoot(), file) };
  }
  const response = await sendBySmtp(url, mail, ctx.signal);
  ctx.log.info("mail sent", { to: maskAddress(to), response });
  return { sent: "smtp", to: maskAddress(to), messageId: mail.messageId, response };
});

/** `ana.souza@example.com` → `a***@example.com`: enough to recognize, too little to collect. */
export function maskAddress(address: string): string {
  const at = address.lastIndexOf("@");
  return at < 1 ? "***" : `${address.slice(0, 1)}***${address.slice(at)}`;
}

async function render(mail: SendMailOptions): Promise<Buffer> {
  const transport = createTransport({ streamTransport: true, buffer: true, newline: "windows" });
  const { message } = await transport.sendMail(mail);
  return message as Buffer;
}

async function sendBySmtp(url: string, mail: SendMailOptions, signal: AbortSignal): Promise<string> {
  const { hostname, port, protocol, username, password } = new URL(url);
  const transport = createTransport({
    host: hostname,
    port: Number(port) || (protocol === "smtps:" ? 465 : 587),
    secure: protocol === "smtps:",
    ...(username === "" ? {} : { auth: { user: decodeURIComponent(username), pass: decodeURIComponent(password) } }),
    connectionTimeout: 10_000,
    greetingTimeout: 10_000,
    socketTimeout: 30_000,
  });
  const onAbort = () => transport.close();
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    const { response, rejected } = await transport.sendMail(mail);
    if (rejected.length > 0) throw new PermanentError("the mail server refused the recipient");
    return response;
  } catch (error) {
    throw classify(error);
  } finally {
    signal.removeEventListener("abort", onAbort);
    transport.close();
  }
}

/** Codes of 500 and more are the server's last word (RFC 5321, 4.2.1); the rest may pass. */
function classify(error: unknown): unknown {
  if (error instanceof PermanentError) return error;
  const { responseCode, code, message } = error as { responseCode?: number; code?: string; message?: string };
  if (responseCode !== undefined && responseCode >= 500) {
    return new PermanentError(`the mail server refused with ${responseCode}`);
  }
  if (code === "EAUTH") return new PermanentError("the mail server refused the user or password of TURNO_SMTP_URL");
  return new TransientError(`the mail server did not take the mail: ${message ?? code ?? "no reason given"}`);
}
