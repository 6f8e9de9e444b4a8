-- To replace: 'P', owner, ttl, token, fence
local function replace(ballot, owner, ttl, token, field)
  local holder = stored[2 + ballot]
  if holder then return answer(ballot, holder == owner and 6 or 7, 0) end
  local fence = tonumber(call('HGET', KEYS[1], field) or '0')
  if not fence then return answer(ballot, -1, 'the fence is not a number') end
  local written = fence < tonumber(token) and try('HSET', KEYS[1], field, token)
  -- NX: a key of another type is nobody's lock, and nothing to write over.
  if type(written) ~= 'table' then written = try('SET', KEYS[3 + ballot], owner, 'NX', 'PX', ttl) end
  if written and written.err then return answer(ballot, -1, written.err) end
  answer(ballot, written and 6 or 7, 0)
end

