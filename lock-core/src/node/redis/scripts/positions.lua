-- The positions in the queue of a lock: how a waiter enters it, and how many lead the queue of slots.
--
-- This is the body of the function `load_positions`, which queue.lua calls when a waiter enters the queue, or the lock is a slot.
-- Arguments: the waiter that sent the batch; the key of the node's record; the names and the values of the fields, as in queue.lua;
-- and the functions of queue.lua. Returns the functions that queue.lua uses.

local WAITER, RECORD, fields, marks, queue = ...
local call, try = redis.call, redis.pcall
-- The ways in which the caller may be written: it is woken or polls, to write or to read.
local WOKEN = string.gsub(WAITER, '^p', '')
local POLLING, READS, READS_POLLING = 'p' .. WOKEN, 'r' .. WOKEN, 's' .. WOKEN
local READER = WAITER == WOKEN and READS or READS_POLLING

-- Makes sure that the lock's queue is looked at, before it is written.
local function mark(lock_key)
  local now = queue.now()
  if now + QUEUE_TTL < (tonumber(marks[lock_key]) or 0) then return end
  marks[lock_key] = string.format('%.0f', now + 2 * QUEUE_TTL)
  try('HSET', RECORD, fields[lock_key], marks[lock_key])
end

-- The lock has no waiters. Another lock with the same field may have some, so the field stays until it is outdated.
local function unmark(lock_key)
  if queue.now() > (tonumber(marks[lock_key]) or 0) then try('HDEL', RECORD, fields[lock_key]) end
end

-- The caller comes after its reservation: it is alive, and keeps its position. Returns whether it does, for the first time.
local function came_late(lock_key, reserved)
  local late = false
  for n = 1, reserved.now - 1 do
    if queue.is_caller(reserved[n]) then
      reserved[n] = '-'
      try('SET', queue.key(lock_key, 'reserved'), table.concat(reserved, ' '), 'KEEPTTL')
      late = true
    end
  end
  return late
end

-- Enters the queue, while the key is reserved for these. Returns how many are ahead and how many behind, and whether the caller had
-- no position or let its reservation pass; or nothing if there is no room.
local function enter(lock_key, since, reads, reserved)
  local queued, caller = queue.queue_key(lock_key), reads and READER or WAITER
  local anew = reserved and came_late(lock_key, reserved)
  mark(lock_key)
  local added = try('ZADD', queued, since, caller)
  if type(added) == 'table' then return end
  if added == 1 then
    local polling, other = caller == POLLING and WOKEN or POLLING, caller == READS and READS_POLLING or READS
    if try('ZREM', queued, polling, other, reads and WOKEN or READS_POLLING) == 0 then anew = true end
  end
  try('PEXPIRE', queued, QUEUE_TTL)
  local count = call('ZCARD', queued)
  if count > MAX_WAITERS then
    try('ZREM', queued, unpack(try('ZRANGE', queued, -1, -1)))
    count = count - 1
  end
  local ahead = call('ZRANK', queued, caller)
  if ahead then return ahead, count - ahead - 1, anew end
end

-- For how many ms the key is reserved before it is for the caller; or before it is free, if it never is.
local function until_reserved(reserved)
  for n = reserved.now + 1, #reserved do
    if queue.is_caller(reserved[n]) then return reserved.remaining - (#reserved + 1 - n) * RESERVATION_TTL end
  end
  return reserved.remaining
end

-- The slots of a resource that may have reservations.
local function offered_key(lock_key) return (string.gsub(queue.queue_key(lock_key), 'queue$', 'offered')) end

local function note_offer(slot)
  local offered = offered_key(slot)
  try('ZADD', offered, 0, slot)
  try('PEXPIRE', offered, RESERVED_TTL)
end

local function forget_offer(slot) try('ZREM', offered_key(slot), slot) end

-- How many waiters lead the queue of a slot that have another slot reserved now.
local function leaders(slot)
  local has_slot = {}
  for _, other in ipairs(try('ZRANGE', offered_key(slot), 0, -1)) do
    marks[other] = marks[slot]
    local reserved = other ~= slot and queue.reserved_for(other)
    if reserved then has_slot[string.gsub(reserved[reserved.now], '^[prs]', '')] = true end
  end
  local count = 0
  while next(has_slot) do
    local first = try('ZRANGE', queue.queue_key(slot), count, count)[1]
    if not first or not has_slot[string.gsub(first, '^[prs]', '')] then break end
    count = count + 1
  end
  return count
end

return {
  enter = enter, unmark = unmark, until_reserved = until_reserved, note_offer = note_offer, forget_offer = forget_offer,
  leaders = leaders,
}
