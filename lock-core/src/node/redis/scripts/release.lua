-- lock, queue, turn    owner, place: '' for one that is not in line, 'leave', or since when it waits on
local function release(at, from)
  local place, values = ARGV[from + 1], call('MGET', KEYS[at], KEYS[at + 1], KEYS[at + 2])
  local holder, queue, turn = values[1], values[2], values[3]
  local ours = holder == ARGV[from]
  if ours then call('DEL', KEYS[at]) end
  if queue or turn or (place ~= '' and place ~= 'leave') then
    rest().move_on(at, ours or not holder, queue, turn, place)
  end
  return ours and 8 or 9, 0
end

