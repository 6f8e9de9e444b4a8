-- Waiting room: how a waiter enters the queue of a lock, or of all slots of a resource.
--
-- This is the body of the function `load_positions`, which waiting.lua calls when a waiter enters the queue, or the lock is a slot.
-- Arguments: the waiter that sent the batch, and as it is written if the node can wake it; the functions of ledger_beside.lua; and those
-- of waiting.lua. Returns the functions that waiting.lua uses.

local WAITER, WOKEN, beside, waiting = ...
local call, try, marks = redis.call, redis.pcall, beside.marks
-- The ways in which the caller may be written: it is woken or polls, to write or to read.
local POLLING, READS, READS_POLLING = 'p' .. WOKEN, 'r' .. WOKEN, 's' .. WOKEN
local READER = WAITER == WOKEN and READS or READS_POLLING

-- The caller comes after its reservation: it is alive, and keeps its position. Returns whether it does, for the first time.
local function came_late(lock_key, reserved)
  local late = false
  for n = 1, reserved.now - 1 do
    if waiting.is_caller(reserved[n]) then
      reserved[n] = '-'
      try('SET', beside.key(lock_key, 'reserved'), table.concat(reserved, ' '), 'KEEPTTL')
      late = true
    end
  end
  return late
end

-- Enters the queue, while the key is reserved for these. Returns how many are ahead, and whether the caller had no position or let its
-- reservation pass; or nothing if there is no room.
local function enter(lock_key, since, reads, reserved)
  local queued, caller = waiting.queue_key(lock_key), reads and READER or WAITER
  local anew = reserved and came_late(lock_key, reserved)
  -- Not at each request: the mark lasts for two queues.
  local queue_ends = beside.now() + QUEUE_TTL
  if queue_ends >= (tonumber(marks[lock_key]) or 0) then beside.set_mark(lock_key, queue_ends + QUEUE_TTL) end
  local added = try('ZADD', queued, since, caller)
  if type(added) == 'table' then return end
  if added == 1 then
    local polling, other = caller == POLLING and WOKEN or POLLING, caller == READS and READS_POLLING or READS
    if try('ZREM', queued, polling, other, reads and WOKEN or READS_POLLING) == 0 then anew = true end
  end
  -- The queue of a lock that nobody asks for any more goes by itself: processes die without leaving it.
  try('PEXPIRE', queued, QUEUE_TTL)
  if call('ZCARD', queued) > MAX_WAITERS then
    -- The youngest: who has waited for longer must not be pushed out by newcomers.
    try('ZREM', queued, unpack(try('ZRANGE', queued, -1, -1)))
  end
  local ahead = call('ZRANK', queued, caller)
  if ahead then return ahead, anew end
end

-- For how many ms the key is reserved before it is for the caller; or before it is free, if it never is.
local function until_reserved(reserved)
  for n = reserved.now + 1, #reserved do
    if waiting.is_caller(reserved[n]) then return reserved.remaining - (#reserved + 1 - n) * RESERVATION_TTL end
  end
  return reserved.remaining
end

return {enter = enter, until_reserved = until_reserved}
