import { devNull } from "node:os";
import { type SimpleGit, simpleGit } from "simple-git";
import { describeError, TurnoError } from "../../core/errors.ts";

/** What git gets to know to reach a remote. */
export interface GitAccess {
  /** From `parseGitAddress`. */
  readonly url: string;
  /** For https; sent to this address alone. */
  readonly token: string | null;
  /** File with the private key for ssh; null: those of the process's user. */
  readonly sshKeyFile: string | null;
  readonly knownHostsFile: string | null;
}

export interface GitCall {
  /** The bare repository. */
  readonly folder: string;
  /** Null: no remote may be reached. */
  readonly access: GitAccess | null;
  readonly signal: AbortSignal;
  /** Written to git's standard input. */
  readonly input?: string;
  /** File with allowed signers, for checking a signature. */
  readonly signers?: string;
}

/** Without any output for this long git is ended. */
const SILENCE_MS = 60_000;

/**
 * git with fixed arguments and an emptied environment: no file of the system, the user or the repository configures
 * it, and no hook, filter, helper, pager or prompt of theirs runs. Settings travel in the environment: arguments are
 * seen by every user of the machine, and a token is among them.
 */
export function openGit(call: GitCall): SimpleGit {
  const environment = gitEnvironment(call);
  return simpleGit({
    baseDir: call.folder,
    abort: call.signal,
    timeout: { block: SILENCE_MS },
    maxConcurrentProcesses: 1,
    allowEnvironment: Object.keys(environment),
    // Each stands for one of the fixed settings below; nothing of a file or a person reaches them.
    unsafe: {
      allowUnsafeConfigPaths: true,
      allowUnsafeConfigEnvCount: true,
      allowUnsafeHooksPath: true,
      allowUnsafeFsMonitor: true,
      allowUnsafeProtocolOverride: true,
      allowUnsafeAskPass: true,
      allowUnsafeSshCommand: true,
      allowUnsafeGpgProgram: true,
      allowUnsafeCredentialHelper: true,
      allowUnsafeTemplateDir: true,
    },
    // By itself it takes a failure without a word on standard error for success.
    errors: (error, { exitCode, stdErr }) =>
      error ?? (exitCode === 0 ? undefined : Buffer.concat([...stdErr, Buffer.from(`git ended with ${exitCode}`)])),
    ...(call.input === undefined ? {} : { input: () => call.input }),
  }).env(environment);
}

/** What git said, without its prefixes, as an error of this source. */
export function gitFailure(what: string, error: unknown): TurnoError {
  const said = describeError(error)
    .split(/\r?\n/)
    .map((line) => line.replace(/^(fatal|error|remote): /, "").trim())
    .filter((line) => line !== "")
    .slice(0, 4)
    .join("; ");
  return new TurnoError("TURNO_SOURCE_UNREACHABLE", `${what}: ${said.slice(0, 600)}`, { cause: error });
}

function gitEnvironment({ access, signers, folder }: GitCall): Record<string, string> {
  const settings: (readonly [key: string, value: string])[] = [
    ["core.hooksPath", devNull],
    ["core.fsmonitor", "false"],
    ["core.attributesFile", devNull],
    ["core.bigFileThreshold", "1m"],
    ["credential.helper", ""],
    ["protocol.allow", "never"],
    ["transfer.fsckObjects", "true"],
    ["fetch.fsckObjects", "true"],
    // Mistakes of old tools, of no consequence for what is read.
    ["fetch.fsck.zeroPaddedFilemode", "warn"],
    ["fetch.fsck.badTimezone", "warn"],
    ["fetch.fsck.missingSpaceBeforeDate", "warn"],
    ["fetch.recurseSubmodules", "false"],
    ["submodule.recurse", "false"],
    ["gc.auto", "0"],
    ["maintenance.auto", "false"],
    ["safe.directory", folder],
  ];
  if (access !== null) {
    const transport = access.url.slice(0, access.url.indexOf(":"));
    settings.push([`protocol.${transport}.allow`, "always"], ["http.followRedirects", "false"]);
    settings.push(["http.lowSpeedLimit", "1000"], ["http.lowSpeedTime", "30"]);
    if (access.token !== null) {
      const credentials = Buffer.from(`x-access-token:${access.token}`).toString("base64");
      settings.push([`http.${access.url}.extraHeader`, `Authorization: Basic ${credentials}`]);
    }
  }
  if (signers !== undefined) settings.push(["gpg.format", "ssh"], ["gpg.ssh.allowedSignersFile", signers]);
  return {
    ...ownVariables(),
    HOME: folder,
    LC_ALL: "C",
    GIT_DIR: folder,
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_SYSTEM: devNull,
    GIT_CONFIG_GLOBAL: devNull,
    GIT_ATTR_NOSYSTEM: "1",
    GIT_TERMINAL_PROMPT: "0",
    GIT_ASKPASS: "",
    GIT_OPTIONAL_LOCKS: "0",
    GIT_NO_REPLACE_OBJECTS: "1",
    GIT_NO_LAZY_FETCH: "1",
    GIT_LFS_SKIP_SMUDGE: "1",
    GIT_PROTOCOL_FROM_USER: "0",
    GIT_SSH_COMMAND: sshCommand(access),
    GIT_CONFIG_COUNT: String(settings.length),
    ...Object.fromEntries(
      settings.flatMap(([key, value], index) => [
        [`GIT_CONFIG_KEY_${index}`, key],
        [`GIT_CONFIG_VALUE_${index}`, value],
      ]),
    ),
  };
}

/** Never asks, never learns a host by itself, takes no settings of the user's. */
function sshCommand(access: GitAccess | null): string {
  const options = ["-F", devNull, "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=20"];
  if (access !== null && access.sshKeyFile !== null) options.push("-i", access.sshKeyFile, "-o", "IdentitiesOnly=yes");
  if (access !== null && access.knownHostsFile !== null) {
    options.push("-o", `UserKnownHostsFile=${access.knownHostsFile}`, "-o", `GlobalKnownHostsFile=${devNull}`);
  }
  return ["ssh", ...options].map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(" ");
}

/** What programs need to start at all, and proxies. */
function ownVariables(): Record<string, string> {
  const names = ["PATH", "Path", "SystemRoot", "TMPDIR", "TEMP", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"];
  return Object.fromEntries(
    names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  );
}
