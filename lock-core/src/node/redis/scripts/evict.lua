-- Evicts holders of a lock: deletes its key if one of them has it, and bars their owners from it.
--
-- KEYS   the lock key; the record of the node
-- ARGV   epoch; its fence, and whether there is a queue or a tombstone: the names of fields of the record; the token, which the fence
--        becomes; for how many ms the owners are barred; the values of the lock key that are evicted
--
-- Replies with D if one of them had the lock, F if it is free, H if somebody else holds it, R and the fence if that is not below the
-- token, and U if the node is in another epoch. Of H, R and U, nothing was written.
--
-- The order of the writes: a script that is cut short leaves a tombstone for a lock that is still held, never a lock that is free and
-- whose owner may have it again.

local call = redis.call
local LOCK, RECORD, FENCE, MARK, TOKEN = KEYS[1], KEYS[2], ARGV[2], ARGV[3], ARGV[4]
local record = call('HMGET', RECORD, 'epoch', FENCE, MARK)
if record[1] ~= ARGV[1] then return 'U' end

-- A key of another type is nobody's lock, and not ours to delete.
local holder = redis.pcall('GET', LOCK)
local owners, is_evicted = {}, not holder
for n = 6, #ARGV do
  is_evicted = is_evicted or holder == ARGV[n]
  -- A stranger does not look whether it is barred.
  if string.sub(ARGV[n], 1, #OWNER_PREFIX) == OWNER_PREFIX then owners[#owners + 1] = ARGV[n] end
end
if not is_evicted then return 'H' end
local fence = tonumber(record[2] or '0')
if not fence then return redis.error_reply('ERR the fence is not a number') end
if fence >= tonumber(TOKEN) then return 'R' .. (record[2] or '0') end

-- The tombstone, for as long as it was asked for, or as those that were evicted before are barred. The mark comes first: without it,
-- nobody would look for the tombstone.
local mark = record[3]
if owners[1] then
  local prefix_length = #RECORD - #'{node}'
  local key = string.sub(LOCK, 1, prefix_length) .. '{' .. string.sub(LOCK, prefix_length + 1) .. '}:evicted'
  local evicted = call('GET', key) or ''
  for _, owner in ipairs(owners) do
    if not string.find(evicted, owner, 1, true) then evicted = evicted .. (evicted == '' and '' or ' ') .. owner end
  end
  local _, count = string.gsub(evicted, '%S+', '')
  if count > MAX_EVICTED then return redis.error_reply('ERR too many owners were evicted') end
  local barred_for, time = math.max(tonumber(ARGV[5]), call('PTTL', key)), call('TIME')
  local ends = time[1] * 1000 + math.ceil(time[2] / 1000) + barred_for
  if ends > (tonumber(mark) or 0) then
    mark = string.format('%.0f', ends)
    call('HSET', RECORD, MARK, mark)
  end
  call('SET', key, evicted, 'PX', barred_for)
end

call('HSET', RECORD, FENCE, TOKEN)
if holder then call('DEL', LOCK) end
load_queue('', RECORD, {[LOCK] = MARK}, {[LOCK] = mark}).released(LOCK, false, 'none')
return holder and 'D' or 'F'
