-- Waiting room: the queue of a lock, and its reservations.
--
-- The waiting room may be wrong, lose everything, or be absent: that costs turns and time, never exclusion. Its files are this one,
-- waiting_positions.lua, waiting_readers.lua and waiting_slots.lua. It must guarantee only that what it keeps expires, and that it writes
-- no lock key, no fence and no tombstone. It decides for whom a free lock is kept, and whom to wake. A write that fails only costs time,
-- because waiters try again every second.
--
-- The queue has the waiters of all processes, ordered by when they began to wait. When the key is free, it is reserved for the first of
-- them for a moment, then for the second, and so on.
--
--   prefix{lock}:queue      the waiters, a sorted set by the time since when they wait. Before the id of a waiter is a 'p' if the
--                           node cannot wake it: it polls. One that waits to read has an 'r' there, and an 's' if it polls.
--   prefix{lock}:reserved   the waiters with a reservation, in order. Each lasts RESERVATION_TTL ms, counted from when the key was
--                           written, and passes by itself. They stay in the queue until one of them takes the lock. A waiter
--                           that let its own pass and came later is replaced by '-'.
--
-- A waiter is woken by a message on the channel prefix{node}:wakeups:WAITER: for how many waiters the key is reserved before it, and
-- the lock key. Nobody listens for a waiter whose process ended, and it is removed. One that is only reconnecting comes back to its
-- position, because it says again since when it waits. A caller that may not publish cannot know who listens, and removes nobody for
-- that. Those whose turn it is are not told, and come when their timers fire; a waiter that has missed its turn polls from then on.
--
-- This is the body of the function `load_waiting`, which ledger_beside.lua calls. What most batches do not need is in
-- waiting_positions.lua, waiting_readers.lua and waiting_slots.lua.
-- Arguments: the waiter that sent the batch; the key of the node's record; and the functions of ledger_beside.lua. Returns the functions
-- that the other scripts use.

local WAITER, RECORD, beside = ...
local call, try, key, marks = redis.call, redis.pcall, beside.key, beside.marks
local WAKEUPS = RECORD .. ':wakeups:'
-- In a cluster, where a hash tag is in front, a message goes to the server of its slot alone.
local publish = string.find(RECORD, '^{.+}{') and 'SPUBLISH' or 'PUBLISH'
-- The caller as it is written if the node can wake it.
local WOKEN = string.byte(WAITER) == string.byte('p') and string.sub(WAITER, 2) or WAITER
local waiting

-- The lock keys that the batch acquires for a caller that waits.
local waited = {}

local function is_slot(lock_key) return string.byte(lock_key, -1) == string.byte('}') end

-- The queue belongs to the lock, or to all slots together.
local function queue_key(lock_key)
  return key(is_slot(lock_key) and string.gsub(lock_key, '{%d+}$', '{}') or lock_key, 'queue')
end

local positions, readers, slots
local function load_positions(...)
  -- include waiting_positions.lua
end
local function load_waiting_readers(...)
  -- include waiting_readers.lua
end
local function load_slots(...)
  -- include waiting_slots.lua
end
local function of_positions()
  positions = positions or load_positions(WAITER, WOKEN, beside, waiting)
  return positions
end
local function of_readers()
  readers = readers or load_waiting_readers(WOKEN, beside, waiting)
  return readers
end

local function of_slots()
  slots = slots or load_slots(WOKEN, beside, waiting, of_positions(), waited)
  return slots
end

local function is_caller(waiter)
  return waiter == WAITER or waiter and string.gsub(waiter, '^[prs]', '') == WOKEN
end

-- Not all waiters with a reservation need be woken: if those before one are frozen, and it does not know, its own passes as well.
local function is_woken(before, is_last) return before < 3 or before == 4 or is_last end

-- Those of the first `count` that knew of their reservation and did not come: they are frozen, or do not want the lock any more.
local function passed_of(reserved, count)
  local passed = {}
  for n = 1, count do
    local waiter = reserved[n]
    local knew = is_woken(n - 1, n == #reserved) or string.find(waiter, '^[ps]')
    if knew and waiter ~= '-' then passed[#passed + 1] = waiter end
  end
  return passed
end

local reservations = {}
local function end_reservations(lock_key)
  if is_slot(lock_key) then return of_slots().forget_called(lock_key) end
  reservations[lock_key] = false
  try('DEL', key(lock_key, 'reserved'))
end

-- The waiters for which the key is reserved, which of them it is now (`now`), and for how many ms it is for any; or false.
local function reserved_for(lock_key)
  if reservations[lock_key] ~= nil or not marks[lock_key] then return reservations[lock_key] end
  local waiters, reserved = try('GET', key(lock_key, 'reserved')), {}
  for waiter in string.gmatch(type(waiters) == 'string' and waiters or '', '%S+') do reserved[#reserved + 1] = waiter end
  reservations[lock_key] = reserved[1] and reserved or false
  if not reserved[1] then return false end
  local elapsed = RESERVED_TTL - call('PTTL', key(lock_key, 'reserved'))
  reserved.now = math.floor(elapsed / RESERVATION_TTL) + 1
  reserved.remaining = #reserved * RESERVATION_TTL - elapsed
  if elapsed < 0 then
    -- The clock was set back since: it would be nobody's turn for as long. It is offered again.
    end_reservations(lock_key)
  elseif reserved.remaining <= 0 then
    local passed = passed_of(reserved, #reserved)
    if passed[1] then try('ZREM', queue_key(lock_key), unpack(passed)) end
    end_reservations(lock_key)
  end
  return reservations[lock_key]
end

local function channel(waiter) return WAKEUPS .. string.gsub(waiter, '^r', '') end

-- Whether a waiter hears that it comes after `before` others, or may: if the caller may not publish, nobody knows.
local function hears(waiter, before, lock_key, caller_waits)
  if string.find(waiter, '^[ps]') or caller_waits and is_caller(waiter) then return true end
  local heard = try(publish, channel(waiter), before .. ' ' .. lock_key)
  return type(heard) ~= 'number' or heard > 0
end

-- Reserves the free key for the first waiters, and wakes some of them. Those that nobody listens for are removed. If the request
-- is that of the caller that waits, it need not be woken; but its process may have made the request for a caller that does not. The
-- first waiters may be woken already.
local function offer(lock_key, caller_waits, woken)
  local queued, reserved, gone, count = queue_key(lock_key), woken or {}, 0, nil
  repeat
    -- Again after some were removed: those behind them have moved up, and may be dead as well.
    local waiters, removed = try('ZRANGE', queued, #reserved, MAX_RESERVATIONS - 1), {}
    if waiters.err then return false end
    -- How many wait, if that makes a difference.
    count = #reserved + #waiters
    if count == MAX_RESERVATIONS then
      local all = try('ZCARD', queued)
      count = type(all) == 'number' and all or count
    end
    for _, waiter in ipairs(waiters) do
      -- Many processes that died at once must not stop the server for everybody else.
      if gone == MAX_GONE then break end
      local before = #reserved
      if is_woken(before, before + 1 == math.min(MAX_RESERVATIONS, count)) and not hears(waiter, before, lock_key, caller_waits) then
        removed[#removed + 1] = waiter
        count, gone = count - 1, gone + 1
      else
        reserved[before + 1] = waiter
      end
    end
    if removed[1] then try('ZREM', queued, unpack(removed)) end
  until not removed[1] or gone == MAX_GONE or #reserved >= math.min(MAX_RESERVATIONS, count)
  reserved.now, reserved.remaining = 1, #reserved * RESERVATION_TTL
  reservations[lock_key] = reserved[1] and reserved or false
  if reserved[1] then
    try('SET', key(lock_key, 'reserved'), table.concat(reserved, ' '), 'PX', RESERVED_TTL)
  elseif marks[lock_key] then
    beside.set_mark(lock_key)
  end
  return reservations[lock_key]
end

-- A release: `holder` is what holds the lock afterwards, `position` is 'leave', 'none', or since when the position is kept, with an
-- 'r' for one that reads. Those are woken already, if any is.
local function released(lock_key, holder, position, woken)
  if is_slot(lock_key) then return of_slots().released(lock_key, holder, position) end
  if position == 'leave' then
    if not marks[lock_key] then return end
    local queued = queue_key(lock_key)
    -- The readers that came after a writer wait for it, and not for those that hold the lock.
    local made_way = holder == SHARED and try('ZREM', queued, WOKEN, 'p' .. WOKEN) == 1
    try('ZREM', queued, WOKEN, 'p' .. WOKEN, 'r' .. WOKEN, 's' .. WOKEN)
    if made_way then of_readers().let_in(lock_key) end
    local reserved = reserved_for(lock_key)
    if reserved and is_caller(reserved[reserved.now]) then end_reservations(lock_key) end
  elseif position ~= 'none' then
    -- First, who let a reservation pass: not the caller, which is here.
    reserved_for(lock_key)
    local since, reads = string.match(position, '(%d+)(r?)')
    of_positions().enter(lock_key, since, reads == 'r', reservations[lock_key])
  end
  if not holder and marks[lock_key] and not reserved_for(lock_key) then offer(lock_key, position ~= 'none', woken) end
end

-- The reply to an acquire that has to wait: for how many ms the lock is refused by the ledger, or kept for those before the caller, and
-- which position the caller has in the queue. Nothing if it is the caller's turn. A caller that waits, and has to, enters the queue.
local function must_wait(lock_key, holder, refusal, since, reads)
  if is_slot(lock_key) then return of_slots().must_wait(lock_key, holder, refusal, since) end
  if not refusal and not marks[lock_key] then return end
  local waits, remaining, ahead, anew = since ~= '0', refusal, nil, nil
  local stranger = holder and string.sub(holder, 1, #OWNER_PREFIX) ~= OWNER_PREFIX
  waited[lock_key] = waits
  if refusal then
    -- A stranger took no notice of reservations, and nobody let any pass.
    if stranger and marks[lock_key] then end_reservations(lock_key) end
  elseif holder then
    -- Readers hold the lock, and the caller would join them.
    if not of_readers().writer_waits(lock_key, waits and since) then return end
    remaining = call('PTTL', lock_key)
  else
    local reserved = reserved_for(lock_key)
    if not reserved then
      local first = try('ZRANGE', queue_key(lock_key), 0, 0)[1]
      if not first or waits and is_caller(first) then return end
      -- Before the offer, so that the caller has the place among them that its time gives it.
      if waits then ahead, anew = of_positions().enter(lock_key, since, reads, reservations[lock_key]) end
      reserved = offer(lock_key, waits)
    end
    if not reserved or waits and is_caller(reserved[reserved.now]) then return end
    remaining = waits and of_positions().until_reserved(reserved) or reserved.remaining
  end
  if waits and not ahead then ahead, anew = of_positions().enter(lock_key, since, reads, reservations[lock_key]) end
  if ahead and not reads and holder == SHARED then of_readers().hear(lock_key, WOKEN) end
  return (stranger and 'S' or anew and 'A' or 'H') .. remaining .. (ahead and ' ' .. ahead or '')
end

-- The lock is acquired. A caller that waited needs no position any longer, and those that let their reservation pass lose theirs.
local function acquired(lock_key)
  if is_slot(lock_key) then return of_slots().acquired(lock_key) end
  if not waited[lock_key] or not marks[lock_key] then return end
  local reserved = reserved_for(lock_key)
  local passed = reserved and reserved.now > 1 and passed_of(reserved, reserved.now - 1) or {}
  try('ZREM', queue_key(lock_key), WOKEN, 'p' .. WOKEN, 'r' .. WOKEN, 's' .. WOKEN, unpack(passed))
  if reserved then end_reservations(lock_key) end
end

waiting = {
  released = released, must_wait = must_wait, acquired = acquired, of_readers = of_readers, queue_key = queue_key, is_caller = is_caller,
  reserved_for = reserved_for, hears = hears, end_reservations = end_reservations, channel = channel, publish = publish,
}
return waiting
