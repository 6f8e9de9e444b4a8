-- KEYS: lock, fence, meta, quarantine    ARGV: epoch, owner, ttl, hint, fence retention (times in ms)
if redis.call('HGET', KEYS[3], 'epoch') ~= ARGV[1] then return {'UNADMITTED'} end
local quarantine = redis.call('PTTL', KEYS[4])
if quarantine ~= -2 then return {'QUARANTINED', tostring(quarantine)} end

local ttl, hint, retention = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
if not (ttl and hint and retention) then return redis.error_reply('ERR acquire: not a number') end

local fence = tonumber(redis.call('GET', KEYS[2]) or '0')
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[2] then return {'GRANTED', string.format('%.0f', fence)} end
if holder then return {'HELD', tostring(redis.call('PTTL', KEYS[1]))} end

-- Beyond 2^53 - 1 numbers are no longer exact: one more would be the same one again.
local number = math.max(fence + 1, hint)
if number > 9007199254740991 then return redis.error_reply('ERR acquire: the fence is used up') end
number = string.format('%.0f', number)
-- The fence before the key: a script that is cut short leaves a number unused, never a lock without one.
redis.call('SET', KEYS[2], number, 'PX', retention)
redis.call('SET', KEYS[1], ARGV[2], 'PX', ttl)
return {'GRANTED', number}
