  local function others()
    for ballot = RELEASES + ACQUIRES + 1, #KEYS - 3 do
      local kind, words = ARGV[word], {unpack(ARGV, word + 1, word + 4)}
      if kind == 'E' then
        extend(ballot, words[1], words[2])
        word = word + 3
      elseif kind == 'C' then
        confirm(ballot, words[1], words[2], words[3])
        word = word + 4
      else
        replace(ballot, words[1], words[2], words[3], words[4])
        word = word + 5
      end
    end
  end

  return {read_lines = read_lines, kept_from = kept_from, end_turn = end_turn, move_on = move_on, others = others}
end

local made
local function rest()
  made = made or make_the_rest()
  return made
end

lines = stored[2] and rest().read_lines()

