-- KEYS: lock, fence, meta    ARGV: epoch, owner
if redis.call('HGET', KEYS[3], 'epoch') ~= ARGV[1] then return {'UNADMITTED'} end

if redis.call('GET', KEYS[1]) ~= ARGV[2] then return {'NOT_OWNER'} end
redis.call('DEL', KEYS[1])
return {'RELEASED'}
