-- To extend: 'E', owner, ttl
local function extend(ballot, owner, ttl)
  local lock = KEYS[3 + ballot]
  if stored[2 + ballot] ~= owner then return 'G' end
  if call('PTTL', lock) < tonumber(ttl) then call('PEXPIRE', lock, ttl) end
  return 'K'
end

