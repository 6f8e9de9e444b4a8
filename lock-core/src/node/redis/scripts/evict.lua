-- Ledger: evicts holders of a lock. Unless somebody else holds it, its key has the value NOBODY for a moment, and the owners are barred
-- from it. NOBODY begins as owner ids do, so the other scripts take it for a lock that another owner holds.
--
-- KEYS   the lock key; the record of the node; and on a server that insists on their declaration, what is beside the lock
-- ARGV   epoch; its fence and its mark: the names of fields of the record; the token, which the fence becomes; for how many ms the
--        owners are barred; who is evicted: values of the lock key, or readers
--
-- Replies with D if one of them had the lock, F if it is free, H if somebody else holds it, R and the fence if that is not below the
-- token, and U if the node is in another epoch. On H, R and U, nothing was written.
--
-- It must guarantee that no owner has the lock, or can have it again, once this has replied D or F. Hence the order of the writes: a
-- script that is cut short leaves a tombstone for a lock that is still held, never a lock that is free and whose owner may have it again.

local function load_beside(...)
  -- include ledger_beside.lua
end

local call, try = redis.call, redis.pcall
local LOCK, RECORD, FENCE, MARK, TOKEN = KEYS[1], KEYS[2], ARGV[2], ARGV[3], ARGV[4]
local record = call('HMGET', RECORD, 'epoch', FENCE, MARK)
if record[1] ~= ARGV[1] then return 'U' end

local beside = load_beside('', RECORD, {[LOCK] = MARK}, {[LOCK] = record[3] or nil})
local key, now = beside.key, beside.now()

-- Whether nobody has the lock but those that are evicted. A key of another type is nobody's lock, and not ours to delete.
local function has_no_other_holder(holder, named)
  if holder ~= SHARED then return not holder or holder == NOBODY or named[holder] end
  local readers = try('ZRANGE', key(LOCK, 'readers'), 0, -1, 'WITHSCORES')
  -- What cannot be read may be anybody's.
  if readers.err then return false end
  for n = #readers, 2, -2 do
    if tonumber(readers[n]) < now then break end
    if not named[readers[n - 1]] then return false end
  end
  return true
end

local holder = try('GET', LOCK)
local owners, named = {}, {}
for n = 6, #ARGV do
  named[ARGV[n]] = true
  -- A stranger does not look whether it is barred.
  if string.sub(ARGV[n], 1, #OWNER_PREFIX) == OWNER_PREFIX then owners[#owners + 1] = ARGV[n] end
end
if not has_no_other_holder(holder, named) then return 'H' end
local fence = tonumber(record[2] or '0')
if not fence then return redis.error_reply('ERR the fence is not a number') end
if fence >= tonumber(TOKEN) then return 'R' .. (record[2] or '0') end

-- The tombstone, for as long as it was asked for, or as those that were evicted before are barred. The mark comes first: without it,
-- nobody would look for the tombstone.
if owners[1] then
  local tombstone = key(LOCK, 'evicted')
  local evicted = call('GET', tombstone) or ''
  for _, owner in ipairs(owners) do
    if not string.find(evicted, owner, 1, true) then evicted = evicted .. (evicted == '' and '' or ' ') .. owner end
  end
  local _, count = string.gsub(evicted, '%S+', '')
  if count > MAX_EVICTED then return redis.error_reply('ERR too many owners were evicted') end
  local barred_for = math.max(tonumber(ARGV[5]), call('PTTL', tombstone))
  local failed = beside.set_mark(LOCK, now + 1 + barred_for)
  if failed then return failed end
  call('SET', tombstone, evicted, 'PX', barred_for)
end

call('HSET', RECORD, FENCE, TOKEN)
local deleted = holder and holder ~= NOBODY
if deleted then call('SET', LOCK, NOBODY, 'PX', EVICTION_GAP) end
if holder == SHARED then call('DEL', key(LOCK, 'readers')) end
beside.waiting.released(LOCK, false, 'none')
-- The waiters were woken. The key is not free yet, so it is reserved for none of them.
if holder then beside.waiting.end_reservations(LOCK) end
return deleted and 'D' or 'F'
