-- Ledger and waiting room: a lone release that gives up the position, or a lone acquire of a free lock, in the usual case. This does
-- what ledger.lua and waiting.lua do, by the same rules and without their tables and functions: if somebody waits, a server that has
-- rested takes half the time. A rule that changes there changes here: if the two differ, `the_scripts_and_the_in_memory_node_reply_alike`
-- fails (tests/suite, --test redis), which has random requests alone and in batches. The ledger's part comes first in a release; in an
-- acquire, the waiting room's is between the decision and the writes.
--
-- This is the body of the function `lone`, which ledger.lua calls for a batch of one request.
-- Arguments: the waiter that sent the batch; the mark and the fence of the lock; the holder; and if the lock has a mark, how the keys beside
-- it begin, two of which were read with the holder. Returns the reply; or nothing, if there is more to do: then ledger.lua does all of it,
-- and replies that the lock was released, if this deleted it. Second, the waiters that are woken already.

local WAITER, mark, fence_text, found, beside = ...
local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local LOCK, RECORD, is_release = KEYS[1], KEYS[2], ARGV[3] == '1'
local holder, reserved, evicted = found[1], found[2], found[3]

local WOKEN
if beside then
  -- The slots of a resource share their queue.
  if string.byte(LOCK, -1) == string.byte('}') then return end
  -- The caller as it is written if the node can wake it.
  WOKEN = string.byte(WAITER) == string.byte('p') and string.sub(WAITER, 2) or WAITER
end

if is_release then
  local owner = ARGV[6]
  if holder ~= owner or reserved then return end
  if beside then
    local waiters = try('ZRANGE', beside .. 'queue', 0, MAX_RESERVATIONS - 1)
    local count = #waiters
    -- Nobody waits, and the field may be outdated.
    if count == 0 and call('TIME')[1] * 1000 + 1000 > (tonumber(mark) or 0) then return end
    for n = 1, count do
      -- One that polls or reads has a letter before its id that is no digit.
      if waiters[n] == WOKEN or string.find(waiters[n], '^%X') then return end
    end
    if waiters.err then return end
    -- The caller may be behind them.
    if count == MAX_RESERVATIONS then try('ZREM', beside .. 'queue', WOKEN, 'p' .. WOKEN, 'r' .. WOKEN, 's' .. WOKEN) end
    call('DEL', LOCK)
    local publish = string.find(RECORD, '^{.+}{') and 'SPUBLISH' or 'PUBLISH'
    for n = 1, count do
      if n < 4 or n == 5 or n == count then
        local heard = try(publish, RECORD .. ':wakeups:' .. waiters[n], n - 1 .. ' ' .. LOCK)
        if type(heard) ~= 'number' or heard == 0 then return nil, {unpack(waiters, 1, n - 1)} end
      end
    end
    if count > 0 then try('SET', beside .. 'reserved', table.concat(waiters, ' '), 'PX', RESERVED_TTL) end
  else
    call('DEL', LOCK)
  end
  return 'D'
end

local FENCE, TTL, TOKENS, OWNER, LAST, SINCE = ARGV[5], ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11]
local fence = tonumber(fence_text or 0)
if holder or evicted or not fence then return end
local token = tonumber(LAST)
if token - fence < tonumber(TOKENS) or token > MAX_TOKEN then return end
if reserved then
  -- For the caller first, and still; if it waits.
  if string.sub(reserved, 1, #WAITER) ~= WAITER or SINCE == '0' then return end
  local left = call('PTTL', beside .. 'reserved')
  if left > RESERVED_TTL or left <= RESERVED_TTL - RESERVATION_TTL then return end
elseif beside and try('ZRANGE', beside .. 'queue', 0, 0)[1] then
  return
end
-- The fence before the lock, as ledger.lua does it. NX: a key of another type is nobody's lock.
if type(try('HSET', RECORD, FENCE, LAST)) == 'table' then return end
local set = try('SET', LOCK, OWNER, 'NX', 'PX', TTL)
if not set then return 'T' end
if set.err then return end
if reserved then
  try('ZREM', beside .. 'queue', WOKEN, 'p' .. WOKEN, 'r' .. WOKEN, 's' .. WOKEN)
  try('DEL', beside .. 'reserved')
end
return LAST
