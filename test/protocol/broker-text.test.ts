import { describe, expect, it } from "vitest";
import { readBrokerMessage } from "../../runtime/protocol/ports/broker-text.ts";

const dispatch = (token: string) =>
  JSON.stringify({ v: 1, kind: "dispatch", jobId: "01890000-0000-7000-8000-000000000000", token, queue: "default" });

describe("a broker's text", () => {
  it("names the largest token that PostgreSQL has, and none beyond it, which would fail every claim beside it", () => {
    expect(readBrokerMessage(dispatch("9223372036854775807"))).toMatchObject({ token: 9223372036854775807n });
    expect(readBrokerMessage(dispatch("9223372036854775808"))).toBe('its "token" is not a number as text');
    expect(readBrokerMessage(dispatch("-1"))).toBe('its "token" is not a number as text');
  });
});
