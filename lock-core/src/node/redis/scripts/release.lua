-- To release: place, once for all: '' if they are not in line, 'leave', or since when they wait on; and for each owner
local gone, PLACE = {}, nil
if RELEASES > 0 then
  word = word + 1
  PLACE = ARGV[word]
end
for ballot = 1, RELEASES do
  if stored[2 + ballot] == ARGV[word + ballot] then
    answers[ballot] = 'D'
    gone[#gone + 1] = KEYS[3 + ballot]
    if ballot <= PAIRS then stored[2 + RELEASES + ballot] = false end
  else
    answers[ballot] = 'N'
  end
end
if gone[1] then call('DEL', unpack(gone)) end
word = word + RELEASES

