-- To replace: 'P', owner, ttl, token, fence
local function replace(ballot, owner, ttl, token, field)
  local holder = stored[2 + ballot]
  if holder then return holder == owner and 'K' or 'G' end
  local fence = tonumber(call('HGET', KEYS[1], field) or '0')
  if not fence then return 'Ethe fence is not a number' end
  local written = fence < tonumber(token) and try('HSET', KEYS[1], field, token)
  -- NX: a key of another type is nobody's lock, and nothing to write over.
  if type(written) ~= 'table' then written = try('SET', KEYS[3 + ballot], owner, 'NX', 'PX', ttl) end
  if written and written.err then return 'E' .. written.err end
  return written and 'K' or 'G'
end

