-- Checks that no later holder has claimed a resource. Appended commands run only then.
--
-- KEYS[1]  the largest token that the resource has seen
-- ARGV[1]  the token of the caller
--
-- Both are integers from 1 to 2^53 - 1, which Lua compares exactly. Anything else is an error: 'nan' or '1e300', once stored, would
-- refuse every later holder.
do
    local function is_token(text)
        return type(text) == 'string' and string.find(text, '^[1-9]%d*$') and tonumber(text) <= 9007199254740991
    end
    local seen = redis.call('GET', KEYS[1])
    if not is_token(ARGV[1]) then return redis.error_reply('NOTATOKEN the caller has no token from 1 to 9007199254740991') end
    if seen and not is_token(seen) then return redis.error_reply('NOTATOKEN the key of the largest token holds something else') end
    if seen and tonumber(seen) > tonumber(ARGV[1]) then return redis.error_reply('STALETOKEN ' .. seen) end
end
