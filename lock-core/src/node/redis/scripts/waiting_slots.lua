-- Waiting room: the slots of a resource, with the lock keys prefix + lock{0}, lock{1}, ... They have one queue, and none is kept for anybody.
-- The first waiters, as many as there are free slots, may each take any of them, and another one is proposed to each. So nodes to which
-- releases come in different orders let the same waiters in.
--
--   prefix{lock{}}:queue    the queue of all slots
--   prefix{lock{}}:waiters  a hash of them: how many slots a waiter may choose from; and if it may take one, since when it may, in ms since
--                           the Unix epoch, and what it was told
--
-- A waiter is told again when anything changes, as another node may have told it of another slot. One that does not come within
-- RESERVATION_TTL ms loses its position, and the next has its turn; if it comes later, it takes its position again.
--
-- The message to a waiter that may take a slot has the number 0, the slots that are free, and the lock key of the one that is proposed:
-- '0,1,3 lock{3}'. To some of those behind them, it says when it is their turn if none of these comes: 'n lock{0}'.
--
-- This is the body of the function `load_slots`, which waiting.lua calls when a lock of the batch is a slot. Arguments: the waiter that
-- sent the batch, as it is written if the node can wake it; the functions of ledger_beside.lua; those of waiting.lua; and those of
-- waiting_positions.lua. Returns the functions that waiting.lua uses.

local WOKEN, beside, waiting, positions, waited = ...
local call, try, marks, now = redis.call, redis.pcall, beside.marks, beside.now
local POLLS = string.byte('p')

local function asks_key(lock_key) return (string.gsub(waiting.queue_key(lock_key), 'queue$', 'waiters')) end

-- The lock keys of the slots below a number, of which there is at least one.
local function keys_of(lock_key, permits)
  local name, keys = string.gsub(lock_key, '%d+}$', ''), {}
  for slot = 0, permits - 1 do keys[slot + 1] = name .. slot .. '}' end
  return keys
end

-- The slots below a number that are free, in order.
local function free_of(lock_key, permits, freed)
  if permits == 0 then return {} end
  local keys, free = keys_of(lock_key, permits), {}
  for slot, holder in ipairs(call('MGET', unpack(keys))) do
    -- What is not a string has no value either.
    if slot - 1 == freed or not holder and call('PTTL', keys[slot]) == -2 then free[#free + 1] = slot - 1 end
  end
  return free
end

-- For how many ms the first of the slots below a number is held, if all are; -1 if none of them expires.
local function held_for(lock_key, permits)
  local least = -1
  for _, slot in ipairs(keys_of(lock_key, permits)) do
    local remaining = call('PTTL', slot)
    if remaining >= 0 and (least < 0 or remaining < least) then least = remaining end
  end
  return least
end

-- Those of these slots that are below a number, as they are told.
local function told_of(free, permits)
  local below = {}
  for n, slot in ipairs(free) do
    if slot >= permits then break end
    below[n] = slot
  end
  return ',' .. table.concat(below, ',')
end

local function tell(lock_key, waiter, numbers, slot)
  local message = numbers .. ' ' .. string.gsub(lock_key, '%d+}$', slot .. '}')
  local heard = try(waiting.publish, waiting.channel(waiter), message)
  -- If the caller may not publish, nobody knows who listens.
  return type(heard) ~= 'number' or heard > 0
end

-- Pairs the first waiters with the free slots, and tells those for which something has changed; but not the caller, which hears of it by
-- the reply. Returns what each of them may take: 'proposed,free', and of how many slots, by its id; and the ids by the slot that is
-- proposed. A slot that was freed counts as free, although its key is somebody's still.
local function pair(lock_key, caller, freed)
  local queued, asks = waiting.queue_key(lock_key), asks_key(lock_key)
  local first, offers, permits, by_slot = try('ZRANGE', queued, 0, MAX_PAIRED - 1), {}, {}, {}
  if not first[1] then
    if not first.err then beside.set_mark(lock_key) end
    return offers, permits, by_slot
  end
  local ids, most = {}, 0
  for n, waiter in ipairs(first) do ids[n] = string.byte(waiter) == POLLS and string.sub(waiter, 2) or waiter end
  local said, ats, tolds = try('HMGET', asks, unpack(ids)), {}, {}
  -- Most ask for as many as others, and were told nothing: each text is parsed once.
  local numbers = {}
  for n, id in ipairs(ids) do
    local text = said[n] or '0'
    local asked = numbers[text] or tonumber(text)
    if asked then
      numbers[text] = asked
    else
      asked, ats[n], tolds[n] = string.match(text, '^(%d+) (%d+) (.+)$')
      asked = tonumber(asked) or 0
      -- The clock was set back since: it is told again.
      if ats[n] and tonumber(ats[n]) > now() then ats[n], tolds[n] = nil, nil end
    end
    permits[id] = asked
    if asked > most then most = asked end
  end
  local free = free_of(lock_key, most, freed)
  local left, has_news, followers, told_below = {unpack(free)}, false, {}, {}
  for n, id in ipairs(ids) do
    local at, asked, slot = ats[n], permits[id], left[1]
    if not slot or slot >= asked then
      if at then try('HSET', asks, id, asked) end
      if #followers < 4 and id == first[n] and id ~= caller then followers[#followers + 1] = id end
    else
      told_below[asked] = told_below[asked] or told_of(free, asked)
      local below = told_below[asked]
      local offer, is_caller = slot .. below, id == caller
      local has_passed = at and not is_caller and now() - at >= RESERVATION_TTL
      local is_told = is_caller or id ~= first[n] or tolds[n] == offer
      if has_passed or not is_told and not tell(lock_key, id, '0' .. below, slot) then
        try('ZREM', queued, first[n])
        try('HDEL', asks, id)
      else
        has_news = has_news or not at
        if is_caller or not at then at = string.format('%.0f', now()) end
        if is_caller or tolds[n] ~= offer then try('HSET', asks, id, asked .. ' ' .. at .. ' ' .. offer) end
        offers[id], by_slot[table.remove(left, 1)] = offer, id
      end
    end
  end
  if has_news then
    -- Not all of them, as for a lock: see is_woken in waiting.lua.
    for n, id in ipairs(followers) do
      if n < 3 or n == 4 then tell(lock_key, id, 1 + math.floor((n - 1) / #free), 0) end
    end
  end
  return offers, permits, by_slot
end

-- Enters the queue. Returns how many are ahead, and whether the caller had no position; or nothing if there is no room. What it was
-- told before counts only if it hears of this by the reply.
local function enter(lock_key, since, permits, is_answered)
  local ahead, anew = positions.enter(lock_key, since, false, false)
  local asks = asks_key(lock_key)
  local said = is_answered and not anew and try('HMGET', asks, WOKEN)[1]
  if ahead then try('HSET', asks, WOKEN, permits .. (said and string.match(said, ' .*') or '')) end
  try('PEXPIRE', asks, QUEUE_TTL)
  return ahead, anew
end

local function leave(lock_key)
  try('ZREM', waiting.queue_key(lock_key), WOKEN, 'p' .. WOKEN)
  try('HDEL', asks_key(lock_key), WOKEN)
end

-- A release, a replace, or leaving the queue: see waiting.lua.
local function released(lock_key, holder, position)
  if position == 'leave' then
    if not marks[lock_key] then return end
    leave(lock_key)
  elseif position ~= 'none' then
    enter(lock_key, string.match(position, '(%d+)k(%d+)'))
  end
  if marks[lock_key] then pair(lock_key, nil, not holder and tonumber(string.match(lock_key, '(%d+)}$'))) end
end

-- The reply to an acquire that has to wait: see waiting.lua.
local function must_wait(lock_key, holder, refusal, since)
  local slot, since_us, permits = tonumber(string.match(lock_key, '(%d+)}$')), string.match(since, '^(%d+)k?(%d*)$')
  local waits, offer, ahead, anew = since_us ~= '0', nil, nil, nil
  permits, waited[lock_key] = tonumber(permits) or slot + 1, waits
  -- Who does not wait passes nobody but those that are gone, or were told and did not come.
  if not waits and marks[lock_key] then pair(lock_key) end
  local first = marks[lock_key] and try('ZRANGE', waiting.queue_key(lock_key), 0, 1) or {}
  if not refusal and not (waits and first[2] or first[1] and not (waits and waiting.is_caller(first[1]))) then return end
  if waits then
    ahead, anew = enter(lock_key, since_us or since, permits, true)
    local offers, all_permits, by_slot = pair(lock_key, WOKEN)
    offer = offers[WOKEN]
    local other = by_slot[slot]
    local proposed = offer and tonumber(string.match(offer, '^%d+'))
    -- It may take a slot that is proposed to another, if that one may have the slot that is proposed to the caller.
    if not refusal and offer and (not other or other == WOKEN or proposed < all_permits[other]) then return end
  end
  local free = free_of(lock_key, permits)
  -- Nobody waits, so the next attempt may be at any free slot.
  if not waits and not first[1] and free[1] then offer = free[1] .. told_of(free, permits) end
  -- As many as there are free slots have their turn at once.
  local remaining = free[1] and RESERVATION_TTL * math.max(1, math.floor((ahead or 0) / #free)) or held_for(lock_key, permits)
  local stranger = holder and string.sub(holder, 1, #OWNER_PREFIX) ~= OWNER_PREFIX
  return (stranger and 'S' or anew and 'A' or 'H') .. remaining .. (ahead and ' ' .. ahead or '')
    .. (offer and ' s' .. offer or '')
end

-- The slot is acquired, by a caller that waited if it has a position.
local function acquired(lock_key)
  if not waited[lock_key] or not marks[lock_key] then return end
  leave(lock_key)
  pair(lock_key)
end

-- The slot of an evicted holder is not free yet: those that were told of it are told again when it is.
local function forget_called(lock_key)
  local queued, asks = waiting.queue_key(lock_key), asks_key(lock_key)
  for _, waiter in ipairs(try('ZRANGE', queued, 0, MAX_PAIRED - 1)) do
    local id = string.gsub(waiter, '^p', '')
    local permits = string.match(try('HMGET', asks, id)[1] or '', '^(%d+) ')
    if permits then try('HSET', asks, id, permits) end
  end
end

return {released = released, must_wait = must_wait, acquired = acquired, forget_called = forget_called}
