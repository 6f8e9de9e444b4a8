-- KEYS: lock, fence, meta    ARGV: epoch, owner, number, fence retention (ms)
if redis.call('HGET', KEYS[3], 'epoch') ~= ARGV[1] then return {'UNADMITTED'} end

local number, retention = tonumber(ARGV[3]), tonumber(ARGV[4])
if not (number and retention) then return redis.error_reply('ERR confirm: not a number') end

local fence = tonumber(redis.call('GET', KEYS[2]) or '0')
if redis.call('GET', KEYS[1]) ~= ARGV[2] or fence > number then
  return {'REFUSED', string.format('%.0f', fence)}
end
redis.call('SET', KEYS[2], string.format('%.0f', number), 'PX', retention)
return {'CONFIRMED'}
