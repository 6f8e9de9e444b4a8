read_lines()
for ballot = 1, RELEASES do
  if waits_on or looked_at[ballot] then move_on(ballot, PLACE) end
end
-- One that acquires what it released stands behind those to whom that was offered.
if PAIRS > 0 then read_lines() end

for ballot = RELEASES + ACQUIRES + 1, #KEYS - 3 do
  local kind, words = ARGV[next_word], {unpack(ARGV, next_word + 1, next_word + 4)}
  if kind == 'L' then
    -- To leave the queue: 'L'. A position that is given up may have been the one that the free key waits for.
    answers[ballot] = 'L'
    move_on(ballot, 'leave')
    next_word = next_word + 1
  elseif kind == 'E' then
    answers[ballot] = extend(ballot, words[1], words[2])
    next_word = next_word + 3
  elseif kind == 'C' then
    answers[ballot] = confirm(ballot, words[1], words[2], words[3])
    next_word = next_word + 4
  else
    answers[ballot] = replace(ballot, words[1], words[2], words[3], words[4])
    next_word = next_word + 5
  end
end

end

