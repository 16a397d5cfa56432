import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import { createTestApp } from "./fake-ports.ts";

const SECRET = "a secret of the test";
const BODY = '{"ref":"refs/heads/main"}';
const sign = (body: string, secret = SECRET) => createHmac("sha256", secret).update(body).digest("hex");

function open(options: { readonly gitHookSecret?: string | null } = { gitHookSecret: SECRET }) {
  const asked: string[] = [];
  let nowMs = 0;
  const { app } = createTestApp({
    ...options,
    revisions: {
      list: async () => [],
      find: async () => null,
      rollBack: async () => ({ words: [], revision: null }),
      status: async () => [],
      requestSync: () => void asked.push("look"),
    },
    clock: { monotonicMs: () => nowMs, sleep: () => new Promise(() => undefined) },
  });
  const call = async (headers: Readonly<Record<string, string>>, body = BODY): Promise<number> => {
    const response = await app.request("http://localhost/hooks/git", { method: "POST", headers, body });
    return response.status;
  };
  return { asked, call, pass: (ms: number) => (nowMs += ms) };
}

describe("POST /hooks/git", () => {
  it.each([
    ["GitHub", { "x-hub-signature-256": `sha256=${sign(BODY)}` }],
    ["Gitea", { "x-gitea-signature": sign(BODY) }],
    ["Forgejo", { "x-forgejo-signature": sign(BODY) }],
    ["GitLab", { "x-gitlab-token": SECRET }],
  ])("makes the reconcilers look when %s calls", async (_, headers) => {
    const { asked, call } = open();
    expect(await call(headers as unknown as Record<string, string>)).toBe(202);
    expect(asked).toEqual(["look"]);
  });

  it.each([
    ["no signature", {}],
    ["an empty one", { "x-hub-signature-256": "" }],
    ["one of another secret", { "x-hub-signature-256": `sha256=${sign(BODY, "other")}` }],
    ["one of another body", { "x-gitea-signature": sign("{}") }],
    ["a wrong token", { "x-gitlab-token": `${SECRET}x` }],
    ["a wrong token beside a good signature", { "x-gitlab-token": "x", "x-hub-signature-256": `sha256=${sign(BODY)}` }],
  ])("turns %s away", async (_, headers) => {
    const { asked, call } = open();
    expect(await call(headers as unknown as Record<string, string>)).toBe(401);
    expect(asked).toEqual([]);
  });

  it("looks once for a burst of calls", async () => {
    const { asked, call, pass } = open();
    const headers = { "x-gitlab-token": SECRET };
    for (let count = 0; count < 5; count++) await call(headers);
    pass(1_000);
    await call(headers);
    expect(asked).toHaveLength(2);
  });

  it("takes a body of at most 1 MiB", async () => {
    const { asked, call } = open();
    expect(await call({ "x-gitlab-token": SECRET }, "x".repeat(1024 * 1024 + 1))).toBe(413);
    expect(asked).toEqual([]);
  });

  it("is not there without a secret", async () => {
    for (const gitHookSecret of [null, ""]) {
      expect(await open({ gitHookSecret }).call({ "x-gitlab-token": "" })).toBe(404);
    }
  });
});
