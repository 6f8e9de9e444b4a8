-- The queue of a lock: the waiters of other processes, ordered by when they began to wait. And its reservations: when the key is
-- free, it is reserved for the first of them for a moment, then for the second, and so on. They decide for whom a free key is kept,
-- never who holds it: a node that grants less breaks no promise. Both expire, and a write of them that fails only costs time,
-- because waiters try again every second. The tombstone is another matter: an owner that is not barred would hold the lock again.
--
--   prefix{lock}:queue      the waiters, a sorted set by the time since when they wait. Before the id of a waiter is a 'p' if the
--                           node cannot wake it: it polls. One that waits to read has an 'r' there, and an 's' if it polls.
--   prefix{lock}:reserved   the waiters with a reservation, in order. Each lasts RESERVATION_TTL ms, counted from when the key was
--                           written, and passes by itself. They stay in the queue until one of them takes the lock. A waiter
--                           that let its own pass and came later is replaced by '-'.
--   prefix{lock}:writers    while readers hold the lock: when each writer that waits was last heard of, a sorted set by ms since the
--                           Unix epoch. A writer in the queue that was heard lately bars the readers behind it.
--   prefix{lock}:evicted    the tombstone: the owners that were evicted, and cannot have the lock again
--   q123 in the record      until when the locks with the fence 123 may have one of these: ms since the Unix epoch
--
-- The slots of a resource, with the lock keys prefix + lock{0}, lock{1}, ..., have one queue, and each has reservations of its own.
-- A slot is not reserved for a waiter that leads the queue and has another one reserved already.
--
--   prefix{lock{}}:queue    the queue of all slots
--   prefix{lock{}}:offered  the lock keys of the slots that may have reservations: a sorted set, for its order
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
-- The ways in which the caller may be written: it is woken or polls, to write or to read.
local WOKEN = string.gsub(WAITER, '^p', '')
local POLLING, READS, READS_POLLING = 'p' .. WOKEN, 'r' .. WOKEN, 's' .. WOKEN
local READER = WAITER == WOKEN and READS or READS_POLLING

-- The lock keys that the batch acquires for a caller that waits.
local waited = {}

local function key(lock_key, name)
  return string.sub(lock_key, 1, PREFIX_LENGTH) .. '{' .. string.sub(lock_key, PREFIX_LENGTH + 1) .. '}:' .. name
end

-- What the queue of a lock belongs to: the lock, or all slots together.
local queues = {}
local function queue_of(lock_key)
  local queue = queues[lock_key] or string.gsub(lock_key, '{%d+}$', '{}')
  queues[lock_key] = queue
  return queue
end

local function is_slot(lock_key) return queue_of(lock_key) ~= lock_key end

local function queue_key(lock_key) return key(queue_of(lock_key), 'queue') end

-- Adds a lock to those of the batch: the name of its field in the record, and the value of that.
local function add_lock(lock_key, field, mark)
  fields[lock_key], marks[lock_key] = field, mark or nil
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

local function id_of(waiter) return (string.gsub(waiter, '^[prs]', '')) end

local function polls(waiter) return string.find(waiter, '^[ps]') ~= nil end

-- Not all waiters with a reservation need be woken: if those before one are frozen, and it does not know, its own passes as well.
local function is_woken(before, is_last) return before < 3 or before == 4 or is_last end

-- Those of the first `count` that knew of their reservation and did not come: they are frozen, or do not want the lock any more.
local function passed_of(reserved, count)
  local passed = {}
  for n = 1, count do
    local waiter = reserved[n]
    local knew = is_woken(n - 1, n == #reserved) or polls(waiter)
    if knew and waiter ~= '-' then passed[#passed + 1] = waiter end
  end
  return passed
end

local function forget_reservations(lock_key)
  try('DEL', key(lock_key, 'reserved'))
  if is_slot(lock_key) then try('ZREM', key(queue_of(lock_key), 'offered'), lock_key) end
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
      if passed[1] then try('ZREM', queue_key(lock_key), unpack(passed)) end
      forget_reservations(lock_key)
    end
  end
  reservations[lock_key] = reserved[1] and reserved.remaining > 0 and reserved
  return reservations[lock_key]
end

local function is_caller(waiter) return waiter and id_of(waiter) == WOKEN end

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
  forget_reservations(lock_key)
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
local function enter(lock_key, since, reads)
  local queue, caller = queue_key(lock_key), reads and READER or WAITER
  came_late(lock_key)
  mark(lock_key)
  local added = try('ZADD', queue, since, caller)
  if type(added) == 'table' then return end
  if added == 1 then
    local polling, other = caller == POLLING and WOKEN or POLLING, caller == READS and READS_POLLING or READS
    try('ZREM', queue, polling, other, reads and WOKEN or READS_POLLING)
  end
  try('PEXPIRE', queue, QUEUE_TTL)
  local count = call('ZCARD', queue)
  if count > MAX_WAITERS then
    try('ZREM', queue, unpack(try('ZRANGE', queue, -1, -1)))
    count = count - 1
  end
  local ahead = call('ZRANK', queue, caller)
  if ahead then return ahead, count - ahead - 1 end
end

-- Whether a waiter hears that it comes after `before` others.
local function hears(waiter, before, lock_key, caller_waits)
  if polls(waiter) or caller_waits and is_caller(waiter) then return true end
  local heard = try('PUBLISH', WAKEUPS .. id_of(waiter), before .. ' ' .. lock_key)
  return type(heard) == 'number' and heard > 0
end

-- How many waiters lead the queue of a slot that have another slot reserved now.
local function leaders(lock_key)
  if not is_slot(lock_key) then return 0 end
  local has_slot = {}
  for _, slot in ipairs(try('ZRANGE', key(queue_of(lock_key), 'offered'), 0, -1)) do
    marks[slot] = marks[lock_key]
    local reserved = slot ~= lock_key and reserved_for(slot)
    if reserved then has_slot[id_of(reserved[reserved.now])] = true end
  end
  local count = 0
  while next(has_slot) do
    local first = try('ZRANGE', queue_key(lock_key), count, count)[1]
    if not first or not has_slot[id_of(first)] then break end
    count = count + 1
  end
  return count
end

-- Reserves the free key for the first waiters, and wakes some of them. Those that nobody listens for are removed. If the request
-- is that of the caller that waits, it need not be woken; but its process may have made the request for a caller that does not.
local function offer(lock_key, caller_waits)
  local queue, reserved, leading = queue_key(lock_key), {now = 1}, leaders(lock_key)
  local count, gone = try('ZCARD', queue), 0
  if type(count) == 'table' then return false end
  count = count - leading
  while #reserved < math.min(MAX_RESERVATIONS, count) and gone < MAX_GONE do
    local waiters, removed = try('ZRANGE', queue, leading + #reserved, leading + MAX_RESERVATIONS - 1), {}
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
    if is_slot(lock_key) then
      local offered = key(queue_of(lock_key), 'offered')
      try('ZADD', offered, 0, lock_key)
      try('PEXPIRE', offered, RESERVED_TTL)
    end
  elseif marks[lock_key] then
    unmark(lock_key)
  end
  return reservations[lock_key]
end

-- A writer waits, and readers hold the lock.
local function hear(lock_key, writer)
  local writers = key(lock_key, 'writers')
  try('ZADD', writers, now(), writer)
  try('PEXPIRE', writers, WRITER_HEARD)
  local longest_ago = try('ZRANGE', writers, 0, 0, 'WITHSCORES')
  if longest_ago[2] and tonumber(longest_ago[2]) + WRITER_HEARD < now() then try('ZREM', writers, longest_ago[1]) end
end

-- Whether a writer waits that was heard lately: before a reader that waits since then; or any other, if that is not given.
local function writer_waits(lock_key, since)
  local writers, queue = try('ZRANGE', key(lock_key, 'writers'), -MAX_HEARD, -1, 'WITHSCORES'), key(lock_key, 'queue')
  for n = #writers, 2, -2 do
    if tonumber(writers[n]) + WRITER_HEARD < now() then return false end
    local writer = writers[n - 1]
    local queued = try('ZSCORE', queue, writer) or try('ZSCORE', queue, 'p' .. writer)
    local queued_since = type(queued) == 'string' and tonumber(queued)
    if queued_since then
      if not since or queued_since < tonumber(since) then return true end
      if queued_since == tonumber(since) and writer ~= WOKEN then return true end
    end
  end
  return false
end

-- Readers hold the lock: those at the head of the queue join them. The writer behind those was heard when it could not yet be noted.
local function let_readers_in(lock_key)
  if not marks[lock_key] then return end
  local queue, removed, behind = key(lock_key, 'queue'), {}, nil
  for _, waiter in ipairs(try('ZRANGE', queue, 0, MAX_WOKEN_READERS - 1)) do
    if not string.find(waiter, '^[rs]') then
      behind = waiter
      break
    end
    if not hears(waiter, 0, lock_key) then removed[#removed + 1] = waiter end
  end
  if removed[1] then try('ZREM', queue, unpack(removed)) end
  if behind then hear(lock_key, id_of(behind)) end
end

-- A release: `holder` is what holds the lock afterwards, `position` is 'leave', 'none', or since when the position is kept, with an
-- 'r' for one that reads.
local function released(lock_key, holder, position)
  if position == 'leave' then
    if not marks[lock_key] then return end
    local queue = queue_key(lock_key)
    local made_way = holder == SHARED and try('ZREM', queue, WOKEN, POLLING) == 1
    try('ZREM', queue, WOKEN, POLLING, READS, READS_POLLING)
    if made_way then let_readers_in(lock_key) end
    if is_reserved_for_caller(reserved_for(lock_key)) then end_reservations(lock_key) end
  elseif position ~= 'none' then
    -- First, who let a reservation pass: not the caller, which is here.
    reserved_for(lock_key)
    local since, reads = string.match(position, '(%d+)(r?)')
    enter(lock_key, since, reads == 'r')
  end
  if not holder and marks[lock_key] and not reserved_for(lock_key) then offer(lock_key, position ~= 'none') end
end

local function leave(lock_key, holder, field)
  add_lock(lock_key, field, call('HMGET', RECORD, field)[1])
  released(lock_key, holder, 'leave')
end

-- Nothing if the caller can have the lock. Otherwise the reply: for how many ms the lock is held, or kept for those before the
-- caller, and which position the caller has in the queue. A caller that waits, and has to, enters the queue.
local function blocked(lock_key, holder, since, owner, reads)
  local waits, remaining, ahead, behind = since ~= '0', nil, nil, nil
  local stranger = holder and string.sub(holder, 1, #OWNER_PREFIX) ~= OWNER_PREFIX
  waited[lock_key] = waits
  local barred = marks[lock_key] and (not holder or reads) and is_barred(lock_key, owner)
  if holder == SHARED and reads and not barred and not (marks[lock_key] and writer_waits(lock_key, waits and since)) then return end
  if holder then
    -- It took no notice of reservations, and nobody let any pass.
    if stranger and marks[lock_key] then end_reservations(lock_key) end
    remaining = call('PTTL', lock_key)
  elseif barred then
    remaining = 0
  else
    local reserved = reserved_for(lock_key)
    if not reserved then
      local first = marks[lock_key] and try('ZRANGE', queue_key(lock_key), 0, 0)[1]
      if not first or waits and is_caller(first) then return end
      if waits then ahead, behind = enter(lock_key, since, reads) end
      reserved = offer(lock_key, waits)
    end
    if not reserved or waits and is_reserved_for_caller(reserved) then return end
    remaining = waits and until_reserved(reserved) or reserved.remaining
  end
  local reply = stranger and 'S' or 'H'
  if waits and not ahead then ahead, behind = enter(lock_key, since, reads) end
  if ahead and not reads and holder == SHARED then hear(lock_key, WOKEN) end
  return reply .. remaining .. (ahead and ' ' .. ahead .. ' ' .. behind or '')
end

-- The lock is acquired. A caller that waited needs no position any longer, and those that let their reservation pass lose theirs.
local function acquired(lock_key)
  if not waited[lock_key] or not marks[lock_key] then return end
  local reserved = reserved_for(lock_key)
  local passed = reserved and passed_of(reserved, reserved.now - 1) or {}
  try('ZREM', queue_key(lock_key), WOKEN, POLLING, READS, READS_POLLING, unpack(passed))
  if reserved then end_reservations(lock_key) end
end

return {
  released = released, leave = leave, blocked = blocked, acquired = acquired, now = now, key = key, add_lock = add_lock,
  let_readers_in = let_readers_in, writer_waits = writer_waits, is_barred = is_barred, load_readers = load_readers,
}
