-- Reads what the node has of some locks. Writes nothing.
--
-- KEYS   the lock key of each; the record of the node; and on a server that insists on their declaration, what is beside the locks
-- ARGV   the epoch that the node has to be in, or '' for any; for each lock its fence, and then for each its mark: the names of fields of
--        the record
--
-- Replies with an array for each lock: the value of its key, or nil; its remaining time in ms, negative if there is none; its fence;
-- how many wait; the owners that were evicted, or nil; and the readers that hold it, each followed by its remaining time in ms. 'T'
-- instead of the array if the key is of another type. 'U' instead of everything if the node is in another epoch.

local call, try, LOCKS = redis.call, redis.pcall, (#ARGV - 1) / 2
local RECORD = KEYS[LOCKS + 1]
local record = call('HMGET', RECORD, 'epoch', unpack(ARGV, 2))
if ARGV[1] ~= '' and record[1] ~= ARGV[1] then return 'U' end

local PREFIX_LENGTH = #RECORD - #'{node}'
local function key(lock_key, name)
  return string.sub(lock_key, 1, PREFIX_LENGTH) .. '{' .. string.sub(lock_key, PREFIX_LENGTH + 1) .. '}:' .. name
end

local function readers_of(lock_key)
  local time, readers = call('TIME'), try('ZRANGE', key(lock_key, 'readers'), -MAX_READERS_SEEN, -1, 'WITHSCORES')
  local now, alive = time[1] * 1000 + math.floor(time[2] / 1000), {}
  for n = #readers, 2, -2 do
    local remaining = tonumber(readers[n]) - now
    if remaining < 0 then break end
    alive[#alive + 1] = readers[n - 1]
    alive[#alive + 1] = remaining
  end
  return alive
end

local looked = {}
for n = 1, LOCKS do
  local lock_key = KEYS[n]
  local holder = try('GET', lock_key)
  if type(holder) == 'table' then
    looked[n] = 'T'
  else
    local waiters, evicted = 0, false
    if record[1 + LOCKS + n] then
      -- The slots of a resource have one queue, as waiting.lua says.
      waiters = try('ZCARD', key((string.gsub(lock_key, '{%d+}$', '{}')), 'queue'))
      evicted = call('GET', key(lock_key, 'evicted'))
    end
    local remaining = holder and call('PTTL', lock_key) or -2
    local readers = holder == SHARED and readers_of(lock_key) or {}
    looked[n] = {holder, remaining, record[1 + n] or '0', type(waiters) == 'number' and waiters or 0, evicted, readers}
  end
end
return looked
