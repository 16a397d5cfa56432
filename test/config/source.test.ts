import { describe, expect, it } from "vitest";
import { loadProject } from "../../runtime/config/load-project.ts";
import { parseGitAddress } from "../../runtime/core/git-address.ts";

function load(source: string) {
  const text = `apiVersion: turno/v1\nkind: Project\nmetadata: { name: test }\nspec:\n  include: []\n  source: ${source}\n`;
  const { state, problems } = loadProject(new Map([["turno.yaml", text]]));
  const errors = problems.filter(({ severity }) => severity === "error");
  return { state, errors: errors.map(({ path, message }) => ({ path, message })) };
}

describe("spec.source", () => {
  it("names a branch of a repository, with the rest filled in", () => {
    const { state } = load("{ git: { url: 'git@git.example.com:ops/schedules.git' } }");
    expect(state?.project.spec.source).toEqual({
      git: {
        url: "ssh://git@git.example.com/ops/schedules.git",
        ref: "main",
        path: null,
        intervalMs: 30_000,
        auth: { tokenFrom: null, sshKeyFrom: null, knownHostsFrom: null },
        signers: null,
      },
      nonFastForward: "allow",
    });
  });

  it.each([
    ["ref", "{ url: 'https://h.example/r.git', ref: '--upload-pack=touch pwned' }"],
    ["ref", "{ url: 'https://h.example/r.git', ref: '-c core.sshCommand=id' }"],
    ["ref", "{ url: 'https://h.example/r.git', ref: 'a/../b' }"],
    ["ref", "{ url: 'https://h.example/r.git', ref: 'main:refs/heads/x' }"],
    ["path", "{ url: 'https://h.example/r.git', path: ../../etc }"],
    ["path", "{ url: 'https://h.example/r.git', path: /etc }"],
    ["url", "{ url: 'ext::sh -c touch% pwned' }"],
    ["url", "{ url: 'file:///etc' }"],
    ["url", "{ url: /etc }"],
    ["url", "{ url: '--upload-pack=touch pwned' }"],
    ["url", "{ url: 'ssh://-oProxyCommand=id/x' }"],
    ["url", "{ url: 'http://git.example.com/r.git' }"],
    ["url", "{ url: 'https://h.example/a/../../r.git?x=1' }"],
    ["interval", "{ url: 'https://h.example/r.git', interval: 10ms }"],
    ["auth/tokenFrom", "{ url: 'https://h.example/r.git', auth: { tokenFrom: ghp_literal } }"],
    ["auth/sshKeyFrom", "{ url: 'https://h.example/r.git', auth: { sshKeyFrom: env:KEY } }"],
    ["auth/tokenFrom", "{ url: 'ssh://git@h.example/r.git', auth: { tokenFrom: env:KEY } }"],
  ])("refuses a %s that git would take for something else: %s", (field, git) => {
    expect(load(`{ git: ${git} }`).errors).toMatchObject([{ path: `/spec/source/git/${field}` }]);
  });

  it("takes no credentials in an address, and never repeats them", () => {
    const { errors } = load("{ git: { url: 'https://me:hunter2@h.example/r.git' } }");
    expect(errors).not.toEqual([]);
    expect(JSON.stringify(errors)).not.toContain("hunter2");
  });
});

describe("an address", () => {
  it.each([
    ["https://Git.Example.com/a/b.git", "https://git.example.com/a/b.git"],
    ["https://git.example.com:8443/a", "https://git.example.com:8443/a"],
    ["ssh://git@h.example:2222/a.git", "ssh://git@h.example:2222/a.git"],
    ["http://127.0.0.1:4000/a.git", "http://127.0.0.1:4000/a.git"],
  ])("%s is written %s", (text, url) => {
    expect(parseGitAddress(text)).toMatchObject({ ok: true, url });
  });

  it.each([
    "git://h.example/a",
    "https://h.example/",
    "https://h.example/-x",
    "https://h.example/a b",
    "https://h.example\\a",
    "fd::7",
    "a@-h:b",
  ])("%s is none", (text) => {
    expect(parseGitAddress(text).ok).toBe(false);
  });
});
