-- To confirm: 'C', owner, number, fence
local function confirm(ballot, owner, number, field)
  local text = call('HGET', KEYS[1], field) or '0'
  local fence = tonumber(text)
  if not fence then return answer(ballot, -1, 'the fence is not a number') end
  if stored[2 + ballot] ~= owner or fence > tonumber(number) then return answer(ballot, 5, text) end
  local written = try('HSET', KEYS[1], field, number)
  if type(written) == 'table' then return answer(ballot, -1, written.err) end
  answer(ballot, 4, 0)
end

