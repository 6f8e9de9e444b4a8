-- lock, fence    owner, ttl, token
local function replace(at, owner, ttl, token)
  local number = tonumber(token)
  if not (number and tonumber(ttl)) then error('replace: not a number', 0) end

  local holder = call('GET', KEYS[at])
  if holder == owner then return 6, 0 end
  if holder then return 7, 0 end

  local fence = tonumber(call('GET', KEYS[at + 1]) or '0')
  call('SET', KEYS[at + 1], string.format('%.0f', math.max(fence, number)), 'PX', RETENTION)
  call('SET', KEYS[at], owner, 'PX', ttl)
  return 6, 0
end
