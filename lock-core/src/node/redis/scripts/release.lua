-- To release: owner, place: '' for one that is not in line, 'leave', or since when it waits on
local gone, moved = {}, false
for ballot = 1, RELEASES do
  local holder, place = stored[2 + ballot], ARGV[word + 1]
  local ours = holder == ARGV[word]
  answer(ballot, ours and 8 or 9, 0)
  if ours then
    gone[#gone + 1] = KEYS[3 + ballot]
    if ballot <= PAIRS then stored[2 + RELEASES + ballot] = false end
  end
  if lines or (place ~= '' and place ~= 'leave') then
    rest().move_on(ballot, ours or not holder, place)
    moved = true
  end
  word = word + 2
end
if gone[1] then call('DEL', unpack(gone)) end
-- One that acquires what it released stands behind those to whom that was offered.
if moved and PAIRS > 0 then lines = rest().read_lines() end

