-- Ledger: the readers of a lock. While readers hold it, the lock key itself contains the marker SHARED, and lives for as long as the
-- longest of them. So a client that knows nothing of readers takes it for a lock that another owner holds.
--
--   prefix{lock}:readers    the readers, a sorted set: the owner id of each, by when it expires, in ms since the Unix epoch
--
-- It must guarantee that no reader holds a lock beside a writer. So entries count only while the lock key is the marker, and a new marker
-- first deletes the set: a marker or a set that is lost ends readers, and brings none back. The marker is written before an entry, and
-- prolonged before an entry is: a script that is cut short leaves a marker without an entry, which expires.
--
-- This is the body of the function `load_readers`, which ledger_beside.lua calls when readers hold a lock of the batch, or ask for one.
-- Arguments: the key of the node's record, and the functions of ledger_beside.lua. Returns the functions that ledger.lua uses. Those that
-- reply to a request return the reply.

local RECORD, beside = ...
local call, try = redis.call, redis.pcall
local fields, marks, now, waiting = beside.fields, beside.marks, beside.now, beside.waiting

local function readers_of(lock_key) return beside.key(lock_key, 'readers') end

-- When a reader expires, or nothing if it has expired or is none. If that cannot be read, also the reply that says so.
local function reads_until(lock_key, owner)
  local expires = try('ZSCORE', readers_of(lock_key), owner)
  if type(expires) == 'table' then return nil, 'E' .. expires.err end
  expires = expires and tonumber(expires)
  return expires and expires >= now() and expires
end

-- Writes the entry of a reader, beside a marker that lives for `remaining` ms. Returns the reply if it fails.
local function write_entry(lock_key, owner, ttl, remaining)
  local readers = readers_of(lock_key)
  local written = try('ZADD', readers, now() + ttl, owner)
  if type(written) == 'table' then return 'E' .. written.err end
  try('PEXPIRE', readers, remaining)
end

-- Readers that died leave their entries behind. Each that joins removes two of them, so there are never many.
local function remove_expired(lock_key)
  local readers = readers_of(lock_key)
  local first = try('ZRANGE', readers, 0, 1, 'WITHSCORES')
  for n = 2, #first, 2 do
    if tonumber(first[n]) < now() then try('ZREM', readers, first[n - 1]) end
  end
end

-- A reader joins others, or goes on. Returns the reply if it fails.
local function join(lock_key, owner, ttl)
  local remaining = call('PTTL', lock_key)
  if remaining < ttl then
    call('PEXPIRE', lock_key, ttl)
    remaining = ttl
  end
  return write_entry(lock_key, owner, ttl, remaining)
end

-- Sets the marker on a free key, with its first reader. Returns the reply if it fails.
local function begin(lock_key, owner, ttl)
  try('DEL', readers_of(lock_key))
  -- NX: a key of another type is nobody's lock, and not ours to overwrite.
  local set = try('SET', lock_key, SHARED, 'NX', 'PX', ttl)
  if not set then return 'T' end
  if set.err then return 'E' .. set.err end
  local failed = write_entry(lock_key, owner, ttl, ttl)
  if failed then call('DEL', lock_key) end
  return failed
end

-- The first reader counts the fence up, as a writer does. One that joins gets the fence as it stands.
local function acquire(lock_key, holder, next_arg)
  local owner, last, ttl, tokens, since = next_arg(), next_arg(), tonumber(next_arg()), tonumber(next_arg()), next_arg()
  local field, mark_field = next_arg(), next_arg()
  local found = call('HMGET', RECORD, field, mark_field)
  local text = found[1] or '0'
  local fence = tonumber(text)
  if not fence then return 'Ethe fence is not a number' end
  -- The same attempt again. Without a holder, it is asked whether entries can be read at all: before one is written. Those of a lock
  -- that is over are deleted, of whatever type they are.
  local reads, unreadable = reads_until(lock_key, owner)
  if unreadable and (holder or not string.find(unreadable, '^EWRONGTYPE')) then return unreadable end
  if holder == owner or holder == SHARED and reads then return text end
  fields[lock_key], marks[lock_key] = mark_field, found[2] or nil
  local refusal = beside.refused(lock_key, holder, owner, true)
  local wait = waiting.must_wait(lock_key, holder, refusal, since, true)
  if refusal or wait then return wait or 'H' .. refusal end
  local failed
  if holder then
    remove_expired(lock_key)
    failed = join(lock_key, owner, ttl)
  else
    if tonumber(last) - fence < tokens then last = string.format('%.0f', fence + tokens) end
    if tonumber(last) > MAX_TOKEN then return 'Ethe fence is used up' end
    -- The fence before the lock, as for writers.
    local written = try('HSET', RECORD, field, last)
    if type(written) == 'table' then return 'E' .. written.err end
    text, failed = last, begin(lock_key, owner, ttl)
  end
  if failed then return failed end
  waiting.acquired(lock_key)
  -- The readers behind it wait for nobody now, and need not find that out one after another.
  if not holder and marks[lock_key] then waiting.of_readers().let_in(lock_key) end
  return text
end

-- Also while a writer waits: a reader that makes way before its work is done would lose its lock.
local function extend(lock_key, owner, ttl)
  local expires, unreadable = reads_until(lock_key, owner)
  if not expires then return unreadable or 'G' end
  local failed = expires < now() + ttl and join(lock_key, owner, ttl)
  return failed or waiting.of_readers().writer_waits(lock_key) and 'B' or 'K'
end

-- The writer becomes the first reader, in one step.
local function downgrade(lock_key, holder, next_arg)
  local owner, ttl, mark_field = next_arg(), tonumber(next_arg()), next_arg()
  if holder == SHARED then return extend(lock_key, owner, ttl) end
  if holder ~= owner then return 'G' end
  -- Never shorter: the holder's validity counts from its last renewal, and it does not know yet whether this one succeeds.
  ttl = math.max(ttl, call('PTTL', lock_key))
  try('DEL', readers_of(lock_key))
  local set = try('SET', lock_key, SHARED, 'PX', ttl)
  if set.err then return 'E' .. set.err end
  local failed = write_entry(lock_key, owner, ttl, ttl)
  if failed then return failed end
  fields[lock_key], marks[lock_key] = mark_field, call('HMGET', RECORD, mark_field)[1] or nil
  local order = waiting.of_readers()
  if marks[lock_key] then order.let_in(lock_key) end
  return order.writer_waits(lock_key) and 'B' or 'K'
end

-- The last reader deletes the marker. Before that, the marker shrinks to the longest that is left.
local function release(lock_key, owner)
  local readers, was_reader = readers_of(lock_key), reads_until(lock_key, owner)
  local removed = try('ZREM', readers, owner)
  if removed ~= 1 then return type(removed) == 'table' and 'E' .. removed.err or 'N' end
  local longest = try('ZRANGE', readers, -1, -1, 'WITHSCORES')[2]
  local left = (tonumber(longest) or 0) - now()
  if left < 0 then
    call('DEL', lock_key, readers)
  elseif left < call('PTTL', lock_key) then
    call('PEXPIRE', lock_key, left)
  end
  return was_reader and 'D' or 'N'
end

return {
  acquire = acquire, extend = extend, downgrade = downgrade, release = release, reads_until = reads_until, join = join, begin = begin,
}
