-- To confirm: 'C', owner, number, fence
local function confirm(ballot, owner, number, field)
  local text = call('HGET', KEYS[1], field) or '0'
  local fence = tonumber(text)
  if not fence then return 'Ethe fence is not a number' end
  if stored[2 + ballot] ~= owner or fence > tonumber(number) then return 'R' .. text end
  local written = try('HSET', KEYS[1], field, number)
  return type(written) == 'table' and 'E' .. written.err or 'C'
end

