-- lock, fence, queue, turn    owner, ttl, hint, last (of the tokens, if the hint is the first), since (0 for one that does not wait)
local quarantine

local function acquire(at, from)
  quarantine = quarantine or call('PTTL', KEYS[2])
  if quarantine ~= -2 then return 3, quarantine end

  local owner, ttl, hint, last, since = ARGV[from], ARGV[from + 1], ARGV[from + 2], ARGV[from + 3], ARGV[from + 4]
  local number = tonumber(last)
  if not (number and tonumber(ttl)) then error('acquire: not a number', 0) end

  local values = call('MGET', KEYS[at], KEYS[at + 1], KEYS[at + 2], KEYS[at + 3])
  local holder, fence, queue, turn = values[1], values[2] or '0', values[3], values[4]
  if holder == owner then return 1, tonumber(fence) end
  if holder or queue or turn then
    local free_in = rest().kept_from(at, holder, queue, turn, tonumber(since))
    if free_in then return 2, free_in end
  end

  -- Nearly always the clock is ahead of what was counted, and the numbers are as they stand.
  if #hint < #fence or (#hint == #fence and hint <= fence) then
    number = tonumber(fence) + 1 + (number - tonumber(hint))
    last = string.format('%.0f', number)
  end
  -- Beyond 2^53 - 1 numbers are no longer exact: one more would be the same one again.
  if number > 9007199254740991 then error('acquire: the fence is used up', 0) end
  -- The fence before the key: a script that is cut short leaves a number unused, never a lock without one.
  call('SET', KEYS[at + 1], last, 'PX', RETENTION)
  -- NX: a key of another type is nobody's lock, and nothing to write over.
  if not call('SET', KEYS[at], owner, 'NX', 'PX', ttl) then return 2, call('PTTL', KEYS[at]) end
  if (queue or turn) and since ~= '0' then rest().end_turn(at, queue, turn) end
  return 1, number
end

