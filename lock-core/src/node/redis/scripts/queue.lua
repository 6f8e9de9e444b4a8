-- The queue of a lock: the waiters of other processes, ordered by when they began to wait. And its reservations: when the key is
-- free, it is reserved for the first of them for a moment, then for the second, and so on. They decide for whom a free key is kept,
-- never who holds it: a node that grants less breaks no promise. Both expire, and a write of them that fails only costs time,
-- because waiters try again every second. The tombstone is another matter: an owner that is not barred would hold the lock again.
--
--   prefix{lock}:queue      the waiters, a sorted set by the time since when they wait. A waiter that the node cannot wake is
--                           written with a 'p' before its id: it polls.
--   prefix{lock}:reserved   the waiters with a reservation, in order. Each lasts RESERVATION_TTL ms, counted from when the key was
--                           written, and passes by itself. They stay in the queue until one of them takes the lock. A waiter
--                           that let its own pass and came later is replaced by '-'.
--   prefix{lock}:evicted    the tombstone: the owners that were evicted, and cannot have the lock again
--   q123 in the record      until when the locks with the fence 123 may have one of the three: ms since the Unix epoch
--
-- A waiter is woken by a message on the channel prefix{node}:wakeups:WAITER: for how many waiters the key is reserved before it, and
-- the lock key. Nobody listens for a waiter whose process ended, and it is removed. One that is only reconnecting comes back to its
-- position, because it says again since when it waits.
--
-- This is the body of the function `load_queue`, which votes.lua calls when a lock of the batch has a queue or needs one, and
-- evict.lua always.
-- Arguments: the waiter that sent the batch; the key of the node's record; for each lock key of the batch, the name of its field;
-- and the value of that field, for those that have one. Returns the functions that votes.lua uses.

local WAITER, RECORD, fields, marks = ...
local call, try = redis.call, redis.pcall
local PREFIX_LENGTH, WAKEUPS = #RECORD - #'{node}', RECORD .. ':wakeups:'
-- The two ways in which the caller may be written.
local WOKEN = string.gsub(WAITER, '^p', '')
local POLLING = 'p' .. WOKEN

-- The lock keys that the batch acquires for a caller that waits.
local waited = {}

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

-- Makes sure that the lock's queue is looked at, before it is written.
local function mark(lock_key)
  if now() + QUEUE_TTL < (tonumber(marks[lock_key]) or 0) then return end
  marks[lock_key] = string.format('%.0f', now() + 2 * QUEUE_TTL)
  try('HSET', RECORD, fields[lock_key], marks[lock_key])
end

-- The lock has no waiters. Another lock with the same field may have some, so the field stays until it is outdated.
local function unmark(lock_key)
  if now() > (tonumber(marks[lock_key]) or 0) then try('HDEL', RECORD, fields[lock_key]) end
end

-- Not all waiters with a reservation need be woken: if those before one are frozen, and it does not know, its own passes as well.
local function is_woken(before, is_last) return before < 3 or before == 4 or is_last end

-- Those of the first `count` that knew of their reservation and did not come: they are frozen, or do not want the lock any more.
local function passed_of(reserved, count)
  local passed = {}
  for n = 1, count do
    local waiter = reserved[n]
    local knew = is_woken(n - 1, n == #reserved) or string.byte(waiter) == string.byte('p')
    if knew and waiter ~= '-' then passed[#passed + 1] = waiter end
  end
  return passed
end

-- The waiters for which the key is reserved, which of them it is now (`now`), and for how many ms it is for any; or false.
local reservations = {}
local function reserved_for(lock_key)
  if reservations[lock_key] ~= nil or not marks[lock_key] then return reservations[lock_key] end
  local reserved_key, reserved = key(lock_key, 'reserved'), {}
  local waiters = try('GET', reserved_key)
  for waiter in string.gmatch(type(waiters) == 'string' and waiters or '', '%S+') do reserved[#reserved + 1] = waiter end
  if reserved[1] then
    local elapsed = RESERVED_TTL - call('PTTL', reserved_key)
    reserved.now = math.floor(elapsed / RESERVATION_TTL) + 1
    reserved.remaining = #reserved * RESERVATION_TTL - elapsed
    if reserved.remaining <= 0 then
      local passed = passed_of(reserved, #reserved)
      if passed[1] then try('ZREM', key(lock_key, 'queue'), unpack(passed)) end
      try('DEL', reserved_key)
    end
  end
  reservations[lock_key] = reserved[1] and reserved.remaining > 0 and reserved
  return reservations[lock_key]
end

local function is_caller(waiter) return waiter == WOKEN or waiter == POLLING end

local function is_reserved_for_caller(reserved) return reserved and is_caller(reserved[reserved.now]) end

-- Whether an owner was evicted. What cannot be read says yes.
local function is_barred(lock_key, owner)
  local evicted = try('GET', key(lock_key, 'evicted'))
  return evicted and (type(evicted) == 'table' or string.find(evicted, owner, 1, true))
end

-- For how many ms the key is reserved before it is for the caller; or before it is free, if it never is.
local function until_reserved(reserved)
  for n = reserved.now + 1, #reserved do
    if is_caller(reserved[n]) then return reserved.remaining - (#reserved + 1 - n) * RESERVATION_TTL end
  end
  return reserved.remaining
end

local function end_reservations(lock_key)
  reservations[lock_key] = false
  try('DEL', key(lock_key, 'reserved'))
end

-- The caller comes after its reservation: it is alive, and keeps its position.
local function came_late(lock_key)
  local reserved = reservations[lock_key]
  for n = 1, reserved and reserved.now - 1 or 0 do
    if is_caller(reserved[n]) then
      reserved[n] = '-'
      try('SET', key(lock_key, 'reserved'), table.concat(reserved, ' '), 'KEEPTTL')
    end
  end
end

-- Enters the queue. Returns how many are ahead and how many behind, or nothing if there is no room.
local function enter(lock_key, since)
  local queue = key(lock_key, 'queue')
  came_late(lock_key)
  mark(lock_key)
  local added = try('ZADD', queue, since, WAITER)
  if type(added) == 'table' then return end
  if added == 1 then try('ZREM', queue, WAITER == WOKEN and POLLING or WOKEN) end
  try('PEXPIRE', queue, QUEUE_TTL)
  local count = call('ZCARD', queue)
  if count > MAX_WAITERS then
    try('ZREM', queue, unpack(try('ZRANGE', queue, -1, -1)))
    count = count - 1
  end
  local ahead = call('ZRANK', queue, WAITER)
  if ahead then return ahead, count - ahead - 1 end
end

-- Whether a waiter hears that it comes after `before` others.
local function hears(waiter, before, lock_key, caller_waits)
  if string.byte(waiter) == string.byte('p') or caller_waits and is_caller(waiter) then return true end
  local heard = try('PUBLISH', WAKEUPS .. waiter, before .. ' ' .. lock_key)
  return type(heard) == 'number' and heard > 0
end

-- Reserves the free key for the first waiters, and wakes some of them. Those that nobody listens for are removed. If the request
-- is that of the caller that waits, it need not be woken; but its process may have made the request for a caller that does not.
local function offer(lock_key, caller_waits)
  local queue, reserved = key(lock_key, 'queue'), {now = 1}
  local count, gone = try('ZCARD', queue), 0
  if type(count) == 'table' then return false end
  while #reserved < math.min(MAX_RESERVATIONS, count) and gone < MAX_GONE do
    local waiters, removed = try('ZRANGE', queue, #reserved, MAX_RESERVATIONS - 1), {}
    if not waiters[1] then break end
    for _, waiter in ipairs(waiters) do
      if gone == MAX_GONE then break end
      local before = #reserved
      local is_last = before + 1 == math.min(MAX_RESERVATIONS, count)
      if is_woken(before, is_last) and not hears(waiter, before, lock_key, caller_waits) then
        removed[#removed + 1] = waiter
        count, gone = count - 1, gone + 1
      else
        reserved[before + 1] = waiter
      end
    end
    if removed[1] then try('ZREM', queue, unpack(removed)) end
  end
  reserved.remaining = #reserved * RESERVATION_TTL
  reservations[lock_key] = reserved[1] and reserved
  if reserved[1] then
    try('SET', key(lock_key, 'reserved'), table.concat(reserved, ' '), 'PX', RESERVED_TTL)
  elseif marks[lock_key] then
    unmark(lock_key)
  end
  return reservations[lock_key]
end

-- A release: `holder` is what holds the lock afterwards, `position` is 'leave', 'none', or since when the position is kept.
local function released(lock_key, holder, position)
  if position == 'leave' then
    if not marks[lock_key] then return end
    try('ZREM', key(lock_key, 'queue'), WOKEN, POLLING)
    if is_reserved_for_caller(reserved_for(lock_key)) then end_reservations(lock_key) end
  elseif position ~= 'none' then
    -- First, who let a reservation pass: not the caller, which is here.
    reserved_for(lock_key)
    enter(lock_key, position)
  end
  if not holder and marks[lock_key] and not reserved_for(lock_key) then offer(lock_key, position ~= 'none') end
end

local function leave(lock_key, holder, field)
  fields[lock_key] = field
  marks[lock_key] = call('HMGET', RECORD, field)[1]
  released(lock_key, holder, 'leave')
end

-- Nothing if the caller can have the lock. Otherwise the reply: for how many ms the lock is held, or kept for those before the
-- caller, and which position the caller has in the queue. A caller that waits, and has to, enters the queue.
local function blocked(lock_key, holder, since, owner)
  local waits, remaining, ahead, behind = since ~= '0', nil, nil, nil
  local stranger = holder and string.sub(holder, 1, #OWNER_PREFIX) ~= OWNER_PREFIX
  waited[lock_key] = waits
  if holder then
    -- It took no notice of reservations, and nobody let any pass.
    if stranger and marks[lock_key] then end_reservations(lock_key) end
    remaining = call('PTTL', lock_key)
  elseif marks[lock_key] and is_barred(lock_key, owner) then
    remaining = 0
  else
    local reserved = reserved_for(lock_key)
    if not reserved then
      local first = marks[lock_key] and try('ZRANGE', key(lock_key, 'queue'), 0, 0)[1]
      if not first or waits and is_caller(first) then return end
      if waits then ahead, behind = enter(lock_key, since) end
      reserved = offer(lock_key, waits)
    end
    if not reserved or waits and is_reserved_for_caller(reserved) then return end
    remaining = waits and until_reserved(reserved) or reserved.remaining
  end
  local reply = stranger and 'S' or 'H'
  if waits and not ahead then ahead, behind = enter(lock_key, since) end
  return reply .. remaining .. (ahead and ' ' .. ahead .. ' ' .. behind or '')
end

-- The lock is acquired. A caller that waited needs no position any longer, and those that let their reservation pass lose theirs.
local function acquired(lock_key)
  if not waited[lock_key] or not marks[lock_key] then return end
  local reserved = reservations[lock_key]
  local passed = reserved and passed_of(reserved, reserved.now - 1) or {}
  try('ZREM', key(lock_key, 'queue'), WOKEN, POLLING, unpack(passed))
  if reserved then end_reservations(lock_key) end
end

return {released = released, leave = leave, blocked = blocked, acquired = acquired, is_barred = is_barred}
