-- The queue of a lock: who waits for it in other processes, first come first served; and the turn: the waiter for whom the free
-- key is kept, a short time. They decide whom a free key is kept for, never who holds it: a node that grants less breaks no
-- promise. Both end by themselves: waiters come again within a second.
--   queue: 'since waiter since waiter ...', in order.     turn: a waiter.

local QUEUE_LIFE, MAX_WAITERS = 10000, 64
local TURN_LIFE, CALL_LIFE = 100, 2000

local function read_queue(text)
  local queue = {}
  for since, waiter in string.gmatch(text or '', '(%d+) (%x+)') do
    queue[#queue + 1] = {since = tonumber(since), waiter = waiter}
  end
  return queue
end

local function write_queue(key, queue)
  if #queue == 0 then return call('DEL', key) end
  local words = {}
  for place, entry in ipairs(queue) do words[place] = string.format('%.0f %s', entry.since, entry.waiter) end
  call('SET', key, table.concat(words, ' '), 'PX', QUEUE_LIFE)
end

local function leave(queue)
  for place, entry in ipairs(queue) do
    if entry.waiter == WAITER then return table.remove(queue, place) end
  end
end

local function enter(queue, since)
  leave(queue)
  if #queue >= MAX_WAITERS then return end
  local place = #queue + 1
  while place > 1 and queue[place - 1].since > since do place = place - 1 end
  table.insert(queue, place, {since = since, waiter = WAITER})
end

-- A list, not a channel: what is told waits for a process that is just connecting anew. If it fails, it costs time, no more.
local function tell(waiter, what, lock)
  local calls = KEYS[1] .. ':calls:' .. waiter
  redis.pcall('RPUSH', calls, what .. lock)
  redis.pcall('PEXPIRE', calls, CALL_LIFE)
end

-- Keeps the free key for the first in line, and tells it; and the second, who is next if the first is gone.
local function offer(lock, turn_key, queue)
  local first, second = table.remove(queue, 1), queue[1]
  call('SET', turn_key, first.waiter, 'PX', TURN_LIFE)
  tell(first.waiter, 'T', lock)
  if second then tell(second.waiter, 'S', lock) end
end

-- For how long yet the lock is held, or kept for another; nil if the caller can have it. One that waits, and has to, enters the
-- queue. at: lock, fence, queue, turn
local function kept_from(at, holder, text, turn, since)
  local queue, waits, offered = read_queue(text), since > 0, false
  if waits then enter(queue, since) end
  local free_in
  if holder then
    free_in = call('PTTL', KEYS[at])
  elseif turn then
    if turn ~= WAITER or not waits then free_in = call('PTTL', KEYS[at + 3]) end
  elseif queue[1] and (queue[1].waiter ~= WAITER or not waits) then
    offer(KEYS[at], KEYS[at + 3], queue)
    free_in, offered = TURN_LIFE, true
  end
  if free_in and (waits or offered) then write_queue(KEYS[at + 2], queue) end
  return free_in
end

-- One that waited has the lock: its turn and its place are over. at: lock, fence, queue, turn
local function end_turn(at, text, turn)
  if turn then call('DEL', KEYS[at + 3]) end
  local queue = read_queue(text)
  leave(queue)
  write_queue(KEYS[at + 2], queue)
end

-- What a release does to the queue; place as told at release.lua. at: lock, queue, turn
local function move_on(at, free, text, turn, place)
  local queue, changed = read_queue(text), place ~= ''
  if place == 'leave' then
    leave(queue)
    if turn == WAITER then
      call('DEL', KEYS[at + 2])
      turn = nil
    end
  elseif changed then
    enter(queue, tonumber(place))
  end
  if free and not turn and queue[1] then
    offer(KEYS[at], KEYS[at + 2], queue)
    changed = true
  end
  if changed then write_queue(KEYS[at + 1], queue) end
end

