import { createHash } from "node:crypto";

/** As redlock's own, but a node that lost its data learns the lock again. */
export const EXTEND_SCRIPT = `
for _, key in ipairs(KEYS) do
  local value = redis.call("get", key)
  if value and value ~= ARGV[1] then return 0 end
end
for _, key in ipairs(KEYS) do
  redis.call("set", key, ARGV[1], "PX", ARGV[2])
end
return #KEYS
`;

/** As redlock's own: deletes a key only while it has this value. Stands here so that a node can tell it from the others. */
export const RELEASE_SCRIPT = `
local count = 0
for _, key in ipairs(KEYS) do
  if redis.call("get", key) == ARGV[1] then
    redis.call("del", key)
    count = count + 1
  end
end
return count
`;

/** How Redis, and so redlock, calls the release. */
export const RELEASE_HASH = createHash("sha1").update(RELEASE_SCRIPT).digest("hex");
