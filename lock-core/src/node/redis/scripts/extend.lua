-- KEYS: lock, fence, meta    ARGV: epoch, owner, ttl (ms)
if redis.call('HGET', KEYS[3], 'epoch') ~= ARGV[1] then return {'UNADMITTED'} end

local ttl = tonumber(ARGV[3])
if not ttl then return redis.error_reply('ERR extend: not a number') end

if redis.call('GET', KEYS[1]) ~= ARGV[2] then return {'GONE'} end
if redis.call('PTTL', KEYS[1]) < ttl then redis.call('PEXPIRE', KEYS[1], ttl) end
return {'KEPT'}
