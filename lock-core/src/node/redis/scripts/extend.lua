-- lock    owner, ttl
local function extend(at, owner, ttl)
  local life = tonumber(ttl)
  if not life then error('extend: not a number', 0) end

  if call('GET', KEYS[at]) ~= owner then return 7, 0 end
  if call('PTTL', KEYS[at]) < life then call('PEXPIRE', KEYS[at], ttl) end
  return 6, 0
end
