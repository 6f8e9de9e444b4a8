-- Writes the record of the node, if the present one is the expected one.
--
-- KEYS   the record of the node
-- ARGV   the id and the version of the present record ('' and '' for no record); whether the id of
--        the new record ends with the time of this node ('new' or ''); what each fence is raised to ('' for nothing); the
--        quarantines that begin, 'member ms member ms', or ''; then the fields of the record, each a name and a value.
--        The field `member` comes first, and `epoch` last.
--
-- Replies with {'WRITTEN', member, quarantines}, or {'CHANGED'} if the present record is not the expected one. Nothing is written
-- then, so of two clients that change a record at the same time one succeeds.

local call, RECORD = redis.call, KEYS[1]
local found = call('HMGET', RECORD, 'member', 'version')
if (found[1] or '') ~= ARGV[1] or (found[2] or '') ~= ARGV[2] then return {'CHANGED'} end

local time = call('TIME')
local now = time[1] * 1000000 + time[2]

local fields = {RECORD, unpack(ARGV, 6)}
if ARGV[3] == 'new' then fields[3] = fields[3] .. string.format('-%.0f', now) end
local quarantines
for n = 2, #fields, 2 do
  if fields[n] == 'quarantines' then quarantines = n + 1 end
end
if not quarantines then return redis.error_reply('ERR record: no quarantines') end
for member, ms in string.gmatch(ARGV[5], '(%S+) (%d+)') do
  local entry = string.format('%s %.0f', member, now + ms * 1000)
  fields[quarantines] = fields[quarantines] == '' and entry or fields[quarantines] .. ' ' .. entry
end

-- The fences first, and a script that is cut short leaves a node without an epoch.
local floor = tonumber(ARGV[4])
if floor then
  call('HSET', RECORD, 'epoch', '')
  local names = {}
  for fence = 0, FENCES - 1 do names[#names + 1] = string.format('%.0f', fence) end
  for from = 1, FENCES, 1024 do
    local last = math.min(from + 1023, FENCES)
    local present, raised = call('HMGET', RECORD, unpack(names, from, last)), {RECORD}
    for n = from, last do
      local fence = present[n - from + 1]
      if not fence or tonumber(fence) < floor then
        raised[#raised + 1] = names[n]
        raised[#raised + 1] = ARGV[4]
      end
    end
    if raised[2] then call('HSET', unpack(raised)) end
  end
end

call('HSET', unpack(fields))
return {'WRITTEN', fields[3], fields[quarantines]}
