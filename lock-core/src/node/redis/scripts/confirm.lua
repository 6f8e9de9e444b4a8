-- lock, fence    owner, number
local function confirm(at, owner, number)
  number = tonumber(number)
  if not number then error('confirm: not a number', 0) end

  local fence = tonumber(call('GET', KEYS[at + 1]) or '0')
  if call('GET', KEYS[at]) ~= owner or fence > number then return 5, fence end
  call('SET', KEYS[at + 1], string.format('%.0f', number), 'PX', RETENTION)
  return 4, 0
end
