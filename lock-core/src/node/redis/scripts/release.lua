-- To release: place, once for all: '' if they are not in line, 'leave', or 'keep'; and for each owner, and if it is 'keep' since
-- when it waits on
local gone, count, PLACE, step = {}, 0, nil, 1
if RELEASES > 0 then
  word = word + 1
  PLACE = ARGV[word]
  if PLACE == 'keep' then step = 2 end
end
-- The owner of a ballot stands so many steps behind this word.
local before_releases = word + 1 - step
for ballot = 1, RELEASES do
  if stored[2 + ballot] == ARGV[before_releases + step * ballot] then
    answers[ballot] = 'D'
    count = count + 1
    gone[count] = KEYS[3 + ballot]
    if ballot <= PAIRS then stored[2 + RELEASES + ballot] = false end
  else
    answers[ballot] = 'N'
  end
end
if count > 0 then call('DEL', unpack(gone)) end
word = word + step * RELEASES

