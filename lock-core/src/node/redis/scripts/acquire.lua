-- To acquire: owner, ttl, last (the highest of the tokens that are asked for), tokens (how many), since (0 for one that does
-- not wait)
local granted, fences = {}, {KEYS[1]}
for acquire = 1, ACQUIRES do
  local ballot = RELEASES + acquire
  local holder, text, free_in = stored[2 + ballot], record[1 + acquire] or '0', nil
  local fence = tonumber(text)
  if stored[1] then
    answer(ballot, 3, call('PTTL', KEYS[2]))
  elseif not fence then
    answer(ballot, -1, 'the fence is not a number')
  elseif holder == ARGV[word] then
    answer(ballot, 1, text)
  else
    if holder or lines then free_in = rest().kept_from(ballot, holder, tonumber(ARGV[word + 4])) end
    local last, tokens = ARGV[word + 2], tonumber(ARGV[word + 3])
    local number = tonumber(last)
    -- Nearly always the clock is ahead of what was counted, and the numbers are as they stand.
    if number - fence < tokens then
      number = fence + tokens
      last = string.format('%.0f', number)
    end
    if free_in then
      answer(ballot, 2, free_in)
    elseif number > 9007199254740991 then
      -- Beyond 2^53 - 1 numbers are no longer exact: one more would be the same one again.
      answer(ballot, -1, 'the fence is used up')
    else
      answer(ballot, 1, last)
      granted[#granted + 1] = acquire
      fences[#fences + 1] = ARGV[5 + acquire]
      fences[#fences + 1] = last
    end
  end
  word = word + 5
end

if granted[1] then
  -- The fences before the locks: a script that is cut short leaves numbers unused, never a lock without one.
  local written = try('HSET', unpack(fences))
  for _, acquire in ipairs(granted) do
    local ballot, at, set = RELEASES + acquire, 1 + ACQUIRES + 2 * RELEASES + 5 * acquire, written
    -- NX: a key of another type is nobody's lock, and nothing to write over.
    if type(written) ~= 'table' then set = try('SET', KEYS[3 + ballot], ARGV[at], 'NX', 'PX', ARGV[at + 1]) end
    if not set then
      answer(ballot, 2, call('PTTL', KEYS[3 + ballot]))
    elseif set.err then
      answer(ballot, -1, set.err)
    elseif lines and ARGV[at + 4] ~= '0' then
      rest().end_turn(ballot)
    end
  end
end

