/** Address of a repository, taken apart and put together again: nothing of it can be an option or a command. */
export type GitAddress =
  | {
      readonly ok: true;
      /** Without credentials for http; with the user for ssh. */
      readonly url: string;
      readonly transport: "https" | "http" | "ssh";
    }
  | { readonly ok: false; readonly message: string };

const SCP_FORM = /^([A-Za-z0-9_][A-Za-z0-9._-]*)@([A-Za-z0-9][A-Za-z0-9.-]*):([A-Za-z0-9_~][^:]*)$/;
const HOST = /^([A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9a-f:]+\])$/;
const USER = /^[A-Za-z0-9_][A-Za-z0-9._-]*$/;
const PATH = /^\/[A-Za-z0-9_~][A-Za-z0-9._~%@+/-]*$/;
const LOOPBACK = ["127.0.0.1", "[::1]", "localhost"];

/** Reads https and ssh addresses, `user@host:path` among them, and http ones on loopback; everything else is refused. */
export function parseGitAddress(text: string): GitAddress {
  const [, scpUser, scpHost, scpPath] = SCP_FORM.exec(text) ?? [];
  const url = readUrl(scpUser === undefined ? text : `ssh://${scpUser}@${scpHost}/${scpPath}`);
  if (url === null) return refuse("expected an address such as https://git.example.com/ops/schedules.git");
  const { protocol, hostname, username, password, pathname, search, hash } = url;
  if (protocol !== "https:" && protocol !== "ssh:" && protocol !== "http:") {
    return refuse(`expected an address with https:// or ssh://, found ${protocol.slice(0, 20)}`);
  }
  if (protocol === "http:" && !LOOPBACK.includes(hostname)) {
    return refuse("expected https://, since http:// is not protected; it is taken on loopback only");
  }
  if (password !== "" || (username !== "" && protocol !== "ssh:")) {
    return refuse("expected an address without credentials; auth.tokenFrom names where they lie");
  }
  if (!HOST.test(hostname)) return refuse("expected the name of a host");
  if (username !== "" && !USER.test(username)) return refuse("expected a plain user name");
  if (!PATH.test(pathname) || pathname.split("/").includes("..") || search !== "" || hash !== "") {
    return refuse("expected a plain path after the host, such as /ops/schedules.git");
  }
  const user = username === "" ? "" : `${username}@`;
  const transport = protocol === "https:" ? "https" : protocol === "ssh:" ? "ssh" : "http";
  return { ok: true, url: `${transport}://${user}${url.host}${pathname}`, transport };
}

function readUrl(text: string): URL | null {
  // A parser of URLs forgives blanks and backslashes, which git does not read in the same way.
  if (/[\s\\\p{Cc}]/u.test(text)) return null;
  try {
    return new URL(text);
  } catch {
    return null;
  }
}

function refuse(message: string): GitAddress {
  return { ok: false, message };
}
