-- The queue of a lock: the waiters of other processes, ordered by when they began to wait. And its reservation: the waiter for
-- which the free key is kept for a short time. They decide for whom a free key is kept, never who holds it: a node that grants
-- less breaks no promise. Both expire, and a write of them that fails only costs time, because waiters try again every second.
--
--   {lock}:queue             'since waiter since waiter ...', in order
--   {lock}:turn              the waiter that has the reservation
--   {node}:queued            the list of queued locks: the lock keys that may have one of the two, each between newlines; or '*',
--                            any lock may, when the list was too long. A lock that is not in the list has neither.
--   {node}:calls:WAITER      a list of wake-ups for a waiter, each 'T' (reserved for you) or 'S' (you are next) and a lock key
--
-- This is the body of the function `load_queue`, which votes.lua calls when a lock of the batch has a queue or needs one.
-- Arguments: the waiter that sent the batch; the keys of the node's record and of the list; the list; and a table with the lock
-- keys of the batch that are in the list. Returns the functions that votes.lua uses.

local WAITER, RECORD, QUEUED_LOCKS, queued_locks, has_queue = ...
local call, try = redis.call, redis.pcall

-- What is stored, by lock key.
local queues, reservations = {}, {}
-- The lock keys that the batch acquires for a caller that waits.
local waited = {}
-- A user without permission for these keys has locks, but no queues.
local unreadable = false

local function queue_key(lock_key) return '{' .. lock_key .. '}:queue' end

local function reservation_key(lock_key) return '{' .. lock_key .. '}:turn' end

local function find_queued(lock_key) return string.find(queued_locks or '', '\n' .. lock_key .. '\n', 1, true) end

-- Reads the queues and reservations of these locks. A lock that has neither any longer is taken off the list.
local function read(lock_keys)
  local read_locks, names, listed = {}, {}, queued_locks
  for lock_key in pairs(lock_keys) do
    read_locks[#read_locks + 1] = lock_key
    names[#names + 1] = queue_key(lock_key)
    names[#names + 1] = reservation_key(lock_key)
  end
  if not names[1] then return end
  local values = try('MGET', unpack(names))
  unreadable = values.err
  if unreadable then return end
  for n, lock_key in ipairs(read_locks) do
    local queue, reservation = values[2 * n - 1], values[2 * n]
    queues[lock_key], reservations[lock_key] = queue, reservation
    local from = not queue and not reservation and find_queued(lock_key)
    if from then queued_locks = string.sub(queued_locks, 1, from) .. string.sub(queued_locks, from + #lock_key + 2) end
  end
  if queued_locks == '\n' then
    queued_locks = false
    try('DEL', QUEUED_LOCKS)
  elseif queued_locks ~= listed then
    try('SET', QUEUED_LOCKS, queued_locks, 'KEEPTTL')
  end
end

-- Puts a lock on the list, before its queue or reservation is written. The list outlives both, except a list that became too long:
-- '*' expires, and those that still wait come again within a second.
local refreshed = false
local function add_to_list(lock_key)
  has_queue[lock_key] = true
  if queued_locks == '*' then return end
  local found = find_queued(lock_key)
  if not found then
    queued_locks = (queued_locks or '\n') .. lock_key .. '\n'
    if #queued_locks > MAX_LIST_BYTES then queued_locks = '*' end
  end
  if not found or not refreshed and call('PTTL', QUEUED_LOCKS) < QUEUE_TTL then
    try('SET', QUEUED_LOCKS, queued_locks, 'PX', 2 * QUEUE_TTL)
  end
  refreshed = true
end

local function queue_of(lock_key)
  local queue = {}
  for since, waiter in string.gmatch(queues[lock_key] or '', '(%d+) (%x+)') do
    queue[#queue + 1] = {since = tonumber(since), waiter = waiter}
  end
  return queue
end

local function write_queue(lock_key, queue)
  if unreadable then return end
  if #queue == 0 then
    queues[lock_key] = false
    try('DEL', queue_key(lock_key))
    return
  end
  local entries = {}
  for n, entry in ipairs(queue) do entries[n] = string.format('%.0f %s', entry.since, entry.waiter) end
  local text = table.concat(entries, ' ')
  add_to_list(lock_key)
  if not try('SET', queue_key(lock_key), text, 'PX', QUEUE_TTL).err then queues[lock_key] = text end
end

local function end_reservation(lock_key)
  reservations[lock_key] = false
  try('DEL', reservation_key(lock_key))
end

local function remove(queue)
  for n, entry in ipairs(queue) do
    if entry.waiter == WAITER then return table.remove(queue, n) end
  end
end

local function enter(queue, since)
  remove(queue)
  if #queue >= MAX_WAITERS then return end
  local n = #queue + 1
  while n > 1 and queue[n - 1].since > since do n = n - 1 end
  table.insert(queue, n, {since = since, waiter = WAITER})
end

-- A list, not a channel: a wake-up waits for a process that is just reconnecting.
local function wake(waiter, kind, lock_key)
  local wakeups = RECORD .. ':calls:' .. waiter
  try('RPUSH', wakeups, kind .. lock_key)
  try('PEXPIRE', wakeups, WAKEUP_TTL)
end

-- Reserves the free key for the first waiter and wakes it; and the second, which is next if the first does not come.
local function offer(lock_key, queue)
  if unreadable then return end
  local first, second = table.remove(queue, 1), queue[1]
  add_to_list(lock_key)
  local set = try('SET', reservation_key(lock_key), first.waiter, 'PX', RESERVATION_TTL)
  if not set.err then reservations[lock_key] = first.waiter end
  wake(first.waiter, 'T', lock_key)
  if second then wake(second.waiter, 'S', lock_key) end
end

-- A release: `holder` is what holds the lock afterwards, `position` is 'leave', 'none', or since when the position is kept.
local function released(lock_key, holder, position)
  local since = tonumber(position)
  if not since and not has_queue[lock_key] then return end
  local queue, changed = queue_of(lock_key), false
  if position == 'leave' then
    changed = remove(queue)
    if reservations[lock_key] == WAITER then end_reservation(lock_key) end
  elseif since then
    enter(queue, since)
    changed = true
  end
  if not holder and not reservations[lock_key] and queue[1] then
    offer(lock_key, queue)
    changed = true
  end
  if changed then write_queue(lock_key, queue) end
end

local function leave(lock_key, holder)
  if queued_locks ~= '*' and not find_queued(lock_key) then return end
  has_queue[lock_key] = true
  read({[lock_key] = true})
  released(lock_key, holder, 'leave')
end

-- For how long the lock is held, or kept for another waiter; nil if the caller can have it. A caller that waits, and has to,
-- enters the queue.
local function blocked_for_ms(lock_key, holder, since)
  local queue, reservation, waits = queue_of(lock_key), reservations[lock_key], since > 0
  local blocked_for, offered
  if waits then
    waited[lock_key] = true
    enter(queue, since)
  end
  if holder then
    blocked_for = call('PTTL', lock_key)
  elseif reservation then
    if reservation ~= WAITER or not waits then blocked_for = call('PTTL', reservation_key(lock_key)) end
  elseif queue[1] and (queue[1].waiter ~= WAITER or not waits) then
    offer(lock_key, queue)
    blocked_for, offered = RESERVATION_TTL, true
  end
  if blocked_for and (waits or offered) then write_queue(lock_key, queue) end
  return blocked_for
end

-- The lock is acquired. A caller that waited needs neither reservation nor position any longer.
local function acquired(lock_key)
  if not waited[lock_key] then return end
  if reservations[lock_key] then end_reservation(lock_key) end
  local queue = queue_of(lock_key)
  if remove(queue) then write_queue(lock_key, queue) end
end

read(has_queue)
return {released = released, leave = leave, blocked_for_ms = blocked_for_ms, acquired = acquired}
