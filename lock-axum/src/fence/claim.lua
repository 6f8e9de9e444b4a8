-- Claims a resource. Appended commands run only if the token is not stale.
--
-- KEYS[1]  the largest token that the resource has seen
-- ARGV[1]  the token of the caller
--
-- A token is at most 2^53 - 1, so that Lua compares it exactly.
local seen = redis.call('GET', KEYS[1])
if seen and tonumber(seen) > tonumber(ARGV[1]) then return redis.error_reply('STALETOKEN ' .. seen) end
redis.call('SET', KEYS[1], ARGV[1])
