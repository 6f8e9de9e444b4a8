-- Ledger: what is stored beside a lock key, how it is found, and the tombstone.
--
--   q123 in the record      the mark: until when something may be stored beside the locks with the fence 123: ms since the Unix epoch
--   marked in the record    the latest of all marks. While it is missing, no batch of several requests looks for the others.
--   prefix{lock}:evicted    the tombstone: the owners that were evicted, and cannot have the lock again
--   prefix{lock}:readers    see ledger_readers.lua. While readers hold a lock, its key says so, and it needs no mark.
--   all other keys          see waiting.lua
--
-- It must guarantee that no owner in a tombstone is granted the lock, that a tombstone which cannot be read bars everybody, and that no
-- mark becomes earlier, or is later than `marked`: beside a lock without a mark, nobody looks for a tombstone.
--
-- This is the body of the function `load_beside`, which ledger.lua calls when a lock of the batch has or needs something beside its
-- key, and evict.lua always. What fewer batches need is in functions of its own, and loaded when it is needed: to create a function
-- takes a server about as long as to run it.
-- Arguments: the waiter that sent the batch; the key of the node's record; for each lock key of the batch, the name of its mark, and
-- the mark of those that have one. Returns the functions that the other scripts use.

local WAITER, RECORD, fields, marks = ...
local call, try = redis.call, redis.pcall
local PREFIX_LENGTH = #RECORD - #'{node}'
local beside, readers

local function load_readers(...)
  -- include ledger_readers.lua
end
local function load_waiting(...)
  -- include waiting.lua
end

local function key(lock_key, name)
  return string.sub(lock_key, 1, PREFIX_LENGTH) .. '{' .. string.sub(lock_key, PREFIX_LENGTH + 1) .. '}:' .. name
end

local unix_ms
local function now()
  if not unix_ms then
    local time = call('TIME')
    unix_ms = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  return unix_ms
end

-- Has others look beside a lock until a time, or for longer if its mark says so. Without a time, nobody waits any more; the mark stays
-- until it is over all the same, because a tombstone may need it, or another lock with the same fence. Returns the error if it fails.
local function set_mark(lock_key, ends)
  local field, present = fields[lock_key], tonumber(marks[lock_key]) or 0
  local function latest() return tonumber(call('HMGET', RECORD, 'marked')[1]) or 0 end
  if not ends then
    if now() > present then try('HDEL', RECORD, field, now() > latest() and 'marked' or field) end
  elseif ends > present then
    local mark = string.format('%.0f', ends)
    marks[lock_key] = mark
    -- In one step with the latest, if this is later.
    local written = try('HSET', RECORD, latest() < ends and 'marked' or field, mark, field, mark)
    return type(written) == 'table' and written or nil
  end
end

-- For how many ms an owner cannot have the lock, because somebody else holds it, or because it was evicted: then for none, as far as
-- the node knows. Nothing if it can have it.
local function refused(lock_key, holder, owner, reads)
  if holder and not (reads and holder == SHARED) then return call('PTTL', lock_key) end
  if not marks[lock_key] then return end
  -- A key of another type is no tombstone: beside one, nobody is evicted.
  local found = try('MGET', key(lock_key, 'evicted'))
  if not found.err and not (found[1] and string.find(found[1], owner, 1, true)) then return end
  return holder and call('PTTL', lock_key) or 0
end

local function of_readers()
  readers = readers or load_readers(RECORD, beside)
  return readers
end

beside = {
  fields = fields, marks = marks, key = key, now = now, set_mark = set_mark, refused = refused, of_readers = of_readers,
}
beside.waiting = load_waiting(WAITER, RECORD, beside)
return beside
