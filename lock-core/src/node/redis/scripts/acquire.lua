-- To acquire: ttl and tokens (how many numbers each is to have), once for all; and for each owner, last (the highest of the
-- numbers that are asked for), since (0 for one that does not wait)
local ttl, tokens = ARGV[word + 1], tonumber(ARGV[word + 2])
local granted, fences, count = {}, {KEYS[1]}, 0
for acquire = 1, ACQUIRES do
  local ballot, at = RELEASES + acquire, word + 3 * acquire
  local owner, last, since = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local holder, text = stored[2 + ballot], record[1 + acquire] or '0'
  local fence = tonumber(text)
  if stored[1] then
    answers[ballot] = 'Q' .. call('PTTL', KEYS[2])
  elseif not fence then
    answers[ballot] = 'Ethe fence is not a number'
  elseif holder == owner then
    answers[ballot] = text
  else
    local number, free_in = tonumber(last), nil
    if holder or looked_at[ballot] then free_in = kept_from(ballot, holder, tonumber(since)) end
    -- Nearly always the clock is ahead of what was counted, and the numbers are as they stand.
    if number - fence < tokens then
      number = fence + tokens
      last = string.format('%.0f', number)
    end
    if free_in then
      answers[ballot] = 'H' .. free_in
    elseif number > 9007199254740991 then
      -- Beyond 2^53 - 1 numbers are no longer exact: one more would be the same one again.
      answers[ballot] = 'Ethe fence is used up'
    else
      answers[ballot] = last
      count = count + 1
      granted[count] = acquire
      fences[2 * count], fences[2 * count + 1] = ARGV[5 + acquire], last
    end
  end
end

if count > 0 then
  -- The fences before the locks: a script that is cut short leaves numbers unused, never a lock without one.
  local written = try('HSET', unpack(fences))
  local failed = type(written) == 'table' and written
  for number = 1, count do
    local acquire = granted[number]
    local ballot, at = RELEASES + acquire, word + 3 * acquire
    -- NX: a key of another type is nobody's lock, and nothing to write over.
    local set = failed or try('SET', KEYS[3 + ballot], ARGV[at], 'NX', 'PX', ttl)
    if not set then
      answers[ballot] = 'H' .. call('PTTL', KEYS[3 + ballot])
    elseif set.err then
      answers[ballot] = 'E' .. set.err
    elseif looked_at[ballot] and ARGV[at + 2] ~= '0' then
      end_turn(ballot)
    end
  end
end

return table.concat(answers, '\n')
