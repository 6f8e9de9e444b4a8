-- Waiting room: the order of readers and writers. While readers hold a lock, a writer in the queue that was heard lately bars the
-- readers behind it. What is lost here lets a reader in before a writer, or keeps it out for some seconds.
--
--   prefix{lock}:writers    while readers hold the lock: when each writer that waits was last heard of, a sorted set by ms since the
--                           Unix epoch
--
-- This is the body of the function `load_waiting_readers`, which waiting.lua calls when readers hold a lock of the batch, or ask for
-- one. Arguments: the caller as it is written if the node can wake it; the functions of ledger_beside.lua; and those of waiting.lua.
-- Returns the functions that the other scripts use.

local WOKEN, beside, waiting = ...
local call, try = redis.call, redis.pcall
local now = beside.now

-- A writer waits, and readers hold the lock.
local function hear(lock_key, writer)
  local writers = beside.key(lock_key, 'writers')
  try('ZADD', writers, now(), writer)
  try('PEXPIRE', writers, WRITER_HEARD)
  local longest_ago = try('ZRANGE', writers, 0, 0, 'WITHSCORES')
  if longest_ago[2] and tonumber(longest_ago[2]) + WRITER_HEARD < now() then try('ZREM', writers, longest_ago[1]) end
end

-- Whether a writer waits that was heard lately: before a reader that waits since then; or any other, if that is not given.
local function writer_waits(lock_key, since)
  local writers = try('ZRANGE', beside.key(lock_key, 'writers'), -MAX_HEARD, -1, 'WITHSCORES')
  local queued = waiting.queue_key(lock_key)
  for n = #writers, 2, -2 do
    -- One that is not heard from may be dead, and would bar readers for as long as its position lasts.
    if tonumber(writers[n]) + WRITER_HEARD < now() then return false end
    local writer = writers[n - 1]
    local waits_since = try('ZSCORE', queued, writer) or try('ZSCORE', queued, 'p' .. writer)
    waits_since = type(waits_since) == 'string' and tonumber(waits_since)
    if waits_since then
      if not since or waits_since < tonumber(since) then return true end
      if waits_since == tonumber(since) and writer ~= WOKEN then return true end
    end
  end
  return false
end

-- Readers hold the lock: those at the head of the queue join them. The writer behind those was heard when it could not yet be noted.
local function let_in(lock_key)
  local queued, removed, behind = waiting.queue_key(lock_key), {}, nil
  for _, waiter in ipairs(try('ZRANGE', queued, 0, MAX_WOKEN_READERS - 1)) do
    if not string.find(waiter, '^[rs]') then
      behind = waiter
      break
    end
    if not waiting.hears(waiter, 0, lock_key) then removed[#removed + 1] = waiter end
  end
  if removed[1] then try('ZREM', queued, unpack(removed)) end
  if behind then hear(lock_key, (string.gsub(behind, '^p', ''))) end
end

return {hear = hear, writer_waits = writer_waits, let_in = let_in}
