-- The queue of a lock: who waits for it in other processes, first come first served; and the turn: the waiter for whom the free
-- key is kept, a short time. They decide whom a free key is kept for, never who holds it: a node that grants less breaks no
-- promise. Both end by themselves, and a write of them that fails costs time, no more: waiters come again within a second.
--   {lock}:queue: 'since waiter since waiter ...', in order.     {lock}:turn: a waiter.

local QUEUE_LIFE, MAX_WAITERS = 10000, 64
local TURN_LIFE, CALL_LIFE = 100, 2000
-- The longest list of locks that are waited for, in bytes: it is searched for each ballot.
local LONGEST_LIST = 2048

-- By ballot, of those that are looked at.
local queues, turns = {}, {}
-- A user who may not use their keys has no queues, but locks.
local unreadable = false

local function name(ballot, what) return '{' .. KEYS[3 + ballot] .. '}:' .. what end

local function listed(ballot) return string.find(waited or '', '\n' .. KEYS[3 + ballot] .. '\n', 1, true) end

-- Reads queues and turns. A lock that has neither is not waited for any more.
local function read_lines()
  local names, looked = {}, {}
  for ballot = 1, #KEYS - 3 do
    if looked_at[ballot] then
      looked[#looked + 1] = ballot
      names[2 * #looked - 1], names[2 * #looked] = name(ballot, 'queue'), name(ballot, 'turn')
    end
  end
  if not names[1] then return end
  local lines, before = try('MGET', unpack(names)), waited
  unreadable = lines.err
  if unreadable then return end
  for number, ballot in ipairs(looked) do
    queues[ballot], turns[ballot] = lines[2 * number - 1], lines[2 * number]
    local from = not queues[ballot] and not turns[ballot] and waited ~= '*' and listed(ballot)
    if from then waited = string.sub(waited, 1, from) .. string.sub(waited, from + #KEYS[3 + ballot] + 2) end
  end
  if waited == '\n' then
    waited = false
    try('DEL', KEYS[3])
  elseif waited ~= before then
    try('SET', KEYS[3], waited, 'KEEPTTL')
  end
end

local function queue_of(ballot)
  local queue = {}
  for since, waiter in string.gmatch(queues[ballot] or '', '(%d+) (%x+)') do
    queue[#queue + 1] = {since = tonumber(since), waiter = waiter}
  end
  return queue
end

-- Before a queue or a turn is written: what is not listed is not looked at. The list outlives them; but one that was too long
-- ends, and those who wait yet come again within a second.
local noted = false
local function note(ballot)
  looked_at[ballot] = true
  if ballot <= PAIRS then looked_at[RELEASES + ballot] = true end
  if waited == '*' then return end
  local known = listed(ballot)
  if not known then
    waited = (waited or '\n') .. KEYS[3 + ballot] .. '\n'
    if #waited > LONGEST_LIST then waited = '*' end
  end
  if not known or not noted and call('PTTL', KEYS[3]) < QUEUE_LIFE then
    try('SET', KEYS[3], waited, 'PX', 2 * QUEUE_LIFE)
  end
  noted = true
end

local function write_queue(ballot, queue)
  if unreadable then return end
  if #queue == 0 then return try('DEL', name(ballot, 'queue')) end
  local words = {}
  for place, entry in ipairs(queue) do words[place] = string.format('%.0f %s', entry.since, entry.waiter) end
  note(ballot)
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
  if unreadable then return end
  local first, second = table.remove(queue, 1), queue[1]
  note(ballot)
  try('SET', name(ballot, 'turn'), first.waiter, 'PX', TURN_LIFE)
  tell(first.waiter, 'T', ballot)
  if second then tell(second.waiter, 'S', ballot) end
end

-- What a release does to the queue.
local function move_on(ballot, place)
  local free = answers[ballot] == 'D' or not stored[2 + ballot]
  local queue, turn, changed = queue_of(ballot), turns[ballot], false
  if place == 'leave' then
    changed = leave(queue)
    if turn == WAITER then
      try('DEL', name(ballot, 'turn'))
      turn = false
    end
  elseif place == 'keep' then
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
  local queue, turn, waits = queue_of(ballot), turns[ballot], since > 0
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
  local queue, turn = queue_of(ballot), turns[ballot]
  if turn then try('DEL', name(ballot, 'turn')) end
  if leave(queue) then write_queue(ballot, queue) end
end

