-- Whether there is more to do than to release, and to acquire what is free and not waited for. A script runs from its first line
-- at every call, and to make a function takes as long as a command: those that are needed only then are made only then.
local waits_on = PLACE == 'keep'
local next_word = word + 1
if ACQUIRES > 0 then next_word = next_word + 2 + 3 * ACQUIRES end
-- The locks that may be waited for: a line for each name, or '*' where there were too many. And which ballots are for such.
local waited, looked_at, busy = stored[2], {}, waits_on or ARGV[next_word]
if waited then
  for ballot = 1, #KEYS - 3 do
    if waited == '*' or string.find(waited, '\n' .. KEYS[3 + ballot] .. '\n', 1, true) then
      looked_at[ballot], busy = true, true
    end
  end
end
for at = 3 + RELEASES, 2 + RELEASES + ACQUIRES do busy = busy or stored[at] end

local kept_from, end_turn
-- All that follows, up to the end of end_of_busy.lua.
if busy then

