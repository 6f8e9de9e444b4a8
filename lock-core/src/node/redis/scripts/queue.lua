-- The queue of a lock: who waits for it in other processes, first come first served; and the turn: the waiter for whom the free
-- key is kept, a short time. They decide whom a free key is kept for, never who holds it: a node that grants less breaks no
-- promise. Both end by themselves, and a write of them that fails costs time, no more: waiters come again within a second.
--   {lock}:queue: 'since waiter since waiter ...', in order.     {lock}:turn: a waiter.

local QUEUE_LIFE, MAX_WAITERS = 10000, 64
local TURN_LIFE, CALL_LIFE = 100, 2000

-- The queues and turns, when there are any.
local lines

local function name(ballot, what) return '{' .. KEYS[3 + ballot] .. '}:' .. what end

-- Of each ballot the queue, and then the turn.
local function read_lines()
  local names = {}
  for ballot = 1, RELEASES + ACQUIRES do
    names[2 * ballot - 1], names[2 * ballot] = name(ballot, 'queue'), name(ballot, 'turn')
  end
  lines = names[1] and call('MGET', unpack(names))
end

local function queue_of(ballot)
  local queue = {}
  for since, waiter in string.gmatch(lines and lines[2 * ballot - 1] or '', '(%d+) (%x+)') do
    queue[#queue + 1] = {since = tonumber(since), waiter = waiter}
  end
  return queue
end

local function turn_of(ballot) return lines and lines[2 * ballot] end

-- Before a queue or a turn is written: where this is missing, nobody looks for them. It outlives them.
local noted = false
local function note()
  if not noted and call('PTTL', KEYS[3]) < QUEUE_LIFE then try('SET', KEYS[3], '', 'PX', 2 * QUEUE_LIFE) end
  noted = true
end

local function write_queue(ballot, queue)
  if #queue == 0 then return try('DEL', name(ballot, 'queue')) end
  local words = {}
  for place, entry in ipairs(queue) do words[place] = string.format('%.0f %s', entry.since, entry.waiter) end
  note()
  try('SET', name(ballot, 'queue'), table.concat(words, ' '), 'PX', QUEUE_LIFE)
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

-- A list, not a channel: what is told waits for a process that is just connecting anew.
local function tell(waiter, what, ballot)
  local calls = KEYS[1] .. ':calls:' .. waiter
  try('RPUSH', calls, what .. KEYS[3 + ballot])
  try('PEXPIRE', calls, CALL_LIFE)
end

-- Keeps the free key for the first in line, and tells it; and the second, who is next if the first is gone.
local function offer(ballot, queue)
  local first, second = table.remove(queue, 1), queue[1]
  note()
  try('SET', name(ballot, 'turn'), first.waiter, 'PX', TURN_LIFE)
  tell(first.waiter, 'T', ballot)
  if second then tell(second.waiter, 'S', ballot) end
end

-- What a release does to the queue.
local function move_on(ballot)
  local free = answers[ballot] == 'D' or not stored[2 + ballot]
  local queue, turn, changed = queue_of(ballot), turn_of(ballot), false
  if PLACE == 'leave' then
    changed = leave(queue)
    if turn == WAITER then
      try('DEL', name(ballot, 'turn'))
      turn = false
    end
  elseif waits_on then
    enter(queue, tonumber(ARGV[before_releases + step * ballot + 1]))
    changed = true
  end
  if free and not turn and queue[1] then
    offer(ballot, queue)
    changed = true
  end
  if changed then write_queue(ballot, queue) end
end

-- For how long yet the lock is held, or kept for another; nil if the caller can have it. One that waits, and has to, enters the
-- queue.
kept_from = function(ballot, holder, since)
  local queue, turn, waits = queue_of(ballot), turn_of(ballot), since > 0
  local free_in, offered
  if waits then enter(queue, since) end
  if holder then
    free_in = call('PTTL', KEYS[3 + ballot])
  elseif turn then
    if turn ~= WAITER or not waits then free_in = call('PTTL', name(ballot, 'turn')) end
  elseif queue[1] and (queue[1].waiter ~= WAITER or not waits) then
    offer(ballot, queue)
    free_in, offered = TURN_LIFE, true
  end
  if free_in and (waits or offered) then write_queue(ballot, queue) end
  return free_in
end

-- One that waited has the lock: its turn and its place are over.
end_turn = function(ballot)
  local queue, turn = queue_of(ballot), turn_of(ballot)
  if turn then try('DEL', name(ballot, 'turn')) end
  if leave(queue) then write_queue(ballot, queue) end
end

