-- KEYS: lock, fence, meta    ARGV: epoch, owner, ttl (ms), number, fence retention (ms)
if redis.call('HGET', KEYS[3], 'epoch') ~= ARGV[1] then return {'UNADMITTED'} end

local ttl, number, retention = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
if not (ttl and number and retention) then return redis.error_reply('ERR replace: not a number') end

local holder = redis.call('GET', KEYS[1])
if holder == ARGV[2] then return {'KEPT'} end
if holder then return {'GONE'} end
local fence = tonumber(redis.call('GET', KEYS[2]) or '0')
redis.call('SET', KEYS[2], string.format('%.0f', math.max(fence, number)), 'PX', retention)
redis.call('SET', KEYS[1], ARGV[2], 'PX', ttl)
return {'KEPT'}
