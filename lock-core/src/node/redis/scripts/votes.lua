-- Executes a batch of requests and replies to each of them.
--
-- All operations are in one script, so that requests which arrive together are one command.
--
-- KEYS   the lock key of each request: the releases, then the acquires, then the others
--        the record of the node
-- ARGV   epoch; waiter, with a 'p' before it if it polls; how many releases, how many acquires
--        for each acquire   its fence: the name of a field of the record
--        for each release, and then for each acquire, whether there is a queue: the name of a field of the record
--        for each release   'owner' gives up the position in the queue, 'owner since' keeps it, 'owner none' leaves it alone
--        if any acquire     the ttl and the number of tokens of most acquires
--        for each acquire   owner; 'last', the last token that it asks for, or 'last ttl tokens'; since, or 0 if it does not wait
--        for each other     C owner token fence, E owner ttl, P owner ttl token fence queue, or L queue: see the functions below; and for
--                           readers R owner last ttl tokens since fence queue, Q owner ttl token fence queue, W owner ttl queue
--
-- No two requests of a batch have the same fence, and so none the same lock, except that a release may come before an acquire: a
-- busy lock is released and acquired again by one batch. The acquires of readers are among the others, and their releases among the
-- releases.
--
-- The reply is one string, which clients parse faster than an array, with a line for each request in the order of KEYS:
--   acquire           the last of the granted tokens; H and for how many ms the lock is held or kept for another, followed by how
--                     many waiters are before the caller and how many behind, if it is in the queue; A instead of H if it had no
--                     position there, or let its reservation pass, and S if the holder is a stranger; T if the key is of another type, and so no lock
--   release           D deleted, N not the owner
--   confirm           C confirmed, R and the fence: refused
--   extend, replace,
--   downgrade         K kept, G gone; B a reader that is kept, and a writer waits
--   leave_queue       L left
--   any               E and what failed
-- or U alone, if the node is in another epoch.
--
-- Redis runs the chunk from its first line for each command, and creating a closure takes about as long as running a command. So
-- the fast path, which releases locks and acquires free ones, has loops where one would expect the functions `release` and
-- `acquire`: with those, a batch of 24 takes 9 % longer. All other functions are created only when they are needed. What most batches
-- are, one request, is first tried in lone.lua.

local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local WAITER, RELEASES, ACQUIRES = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local REQUESTS = #KEYS - 1
local RECORD = KEYS[REQUESTS + 1]

-- The fences are fields of the record, so that a node cannot forget them and keep its epoch.
local FIELDS = 2 * ACQUIRES + RELEASES
local record = call('HMGET', RECORD, 'epoch', unpack(ARGV, 5, 4 + FIELDS))
if record[1] ~= ARGV[1] then return 'U' end

-- Most batches are one release, or one acquire.
local is_lone, holders, beside, woken = REQUESTS == 1 and FIELDS > 0, nil, nil, nil
if is_lone and record[1 + FIELDS] then
  -- Somebody may wait: what is stored beside the lock is read behind the holder.
  local prefix_length = #RECORD - #'{node}'
  beside = string.sub(KEYS[1], 1, prefix_length) .. '{' .. string.sub(KEYS[1], prefix_length + 1) .. '}:'
  holders = try('MGET', KEYS[1], beside .. 'reserved', beside .. 'evicted')
  is_lone = not holders.err
end
-- The present holder of each request's lock.
if not beside or not is_lone then holders = call('MGET', unpack(KEYS, 1, REQUESTS)) end
if is_lone then
  local reply
  reply, woken = lone(WAITER, record, holders, beside)
  if reply then return reply end
end

local replies = {}
-- The next argument.
local arg_index = 5 + FIELDS
-- Whether a lock has a queue, or may need one.
local slow_path = false

-- Release.
local deleted, count, positions, shared = {}, 0, nil, nil
for i = 1, RELEASES do
  local owner, holder = ARGV[arg_index], holders[i]
  arg_index = arg_index + 1
  if owner ~= holder then
    local position
    owner, position = string.match(owner, '(%S+) ?(%w*)')
    if position ~= '' then
      positions = positions or {}
      positions[i], slow_path = position, slow_path or position ~= 'none'
    end
  end
  if owner == holder then
    replies[i] = 'D'
    count = count + 1
    deleted[count] = KEYS[i]
    holders[i] = false
  else
    replies[i] = 'N'
    if holder == SHARED then
      shared = shared or {}
      shared[i], slow_path = owner, true
    end
  end
end
if count > 0 then call('DEL', unpack(deleted)) end

-- A lock that was held may have been released by this batch: if so, the acquires read again.
for i = RELEASES + 1, RELEASES + ACQUIRES do
  if holders[i] and count > 0 then
    holders, count = call('MGET', unpack(KEYS, 1, REQUESTS)), 0
  end
  slow_path = slow_path or holders[i]
end

-- Locks that may have a queue.
for i = 1, RELEASES + ACQUIRES do slow_path = slow_path or record[1 + ACQUIRES + i] end

-- The functions for queues, with what is known of the locks that the batch releases and acquires.
local function load_queue_of_batch()
  local fields, marks = {}, {}
  for i = 1, RELEASES + ACQUIRES do
    fields[KEYS[i]], marks[KEYS[i]] = ARGV[4 + ACQUIRES + i], record[1 + ACQUIRES + i]
  end
  return load_queue(WAITER, RECORD, fields, marks)
end

local queue
if slow_path then
  queue = load_queue_of_batch()
  if shared then
    for i, owner in pairs(shared) do replies[i] = queue.of_readers().release(KEYS[i], owner) end
    holders = call('MGET', unpack(KEYS, 1, REQUESTS))
  end
  for i = 1, RELEASES do queue.released(KEYS[i], holders[i], positions and positions[i] or 'leave', woken) end
end

-- Acquire: decide first, and then write all at once.
local granted, ttls, fences, count = {}, {}, {RECORD}, 0
local before_acquires, TTL, TOKENS = arg_index - 1, ARGV[arg_index], tonumber(ARGV[arg_index + 1])
for acquire = 1, ACQUIRES do
  local i, at = RELEASES + acquire, before_acquires + 3 * acquire
  local owner, last, holder, ttl, tokens = ARGV[at], ARGV[at + 1], holders[i], TTL, TOKENS
  local token = tonumber(last)
  if not token then
    -- It has a ttl and a number of tokens of its own.
    last, ttl, tokens = string.match(last, '(%d+) (%d+) (%d+)')
    token, tokens = tonumber(last), tonumber(tokens)
  end
  local text = record[1 + acquire] or '0'
  local fence = tonumber(text)
  if not fence then
    replies[i] = 'Ethe fence is not a number'
  elseif holder == owner then
    -- The same attempt again.
    replies[i] = text
  else
    local blocked = slow_path and queue.blocked(KEYS[i], holder, ARGV[at + 2], owner)
    -- Usually the clock is ahead of the fence, and the tokens that are asked for are larger than any before.
    if token - fence < tokens then
      token = fence + tokens
      last = string.format('%.0f', token)
    end
    if blocked then
      replies[i] = blocked
    elseif token > MAX_TOKEN then
      replies[i] = 'Ethe fence is used up'
    else
      replies[i] = last
      count = count + 1
      granted[count], ttls[count] = acquire, ttl
      fences[2 * count], fences[2 * count + 1] = ARGV[4 + acquire], last
    end
  end
end
if count > 0 then
  -- The fences before the locks: a script that is cut short leaves tokens unused, never a lock without one.
  local written = try('HSET', unpack(fences))
  local failed = type(written) == 'table' and written
  for n = 1, count do
    local i, at = RELEASES + granted[n], before_acquires + 3 * granted[n]
    -- NX: a key of another type is nobody's lock, and not ours to overwrite.
    local set = failed or try('SET', KEYS[i], ARGV[at], 'NX', 'PX', ttls[n])
    if not set then
      replies[i] = 'T'
    elseif set.err then
      replies[i] = 'E' .. set.err
    elseif slow_path then
      queue.acquired(KEYS[i])
    end
  end
end
if ACQUIRES > 0 then arg_index = before_acquires + 3 * (ACQUIRES + 1) end

-- All others.
if arg_index <= #ARGV then
  local function next_arg()
    arg_index = arg_index + 1
    return ARGV[arg_index - 1]
  end

  -- The functions for locks that readers hold or ask for.
  local function of_readers()
    queue = queue or load_queue_of_batch()
    return queue.of_readers()
  end

  local function is_held_by(i, owner)
    return holders[i] == owner or holders[i] == SHARED and of_readers().reads_until(KEYS[i], owner)
  end

  local function confirm(i)
    local owner, token, field = next_arg(), next_arg(), next_arg()
    local text = call('HMGET', RECORD, field)[1] or '0'
    local fence = tonumber(text)
    if not fence then return 'Ethe fence is not a number' end
    if not is_held_by(i, owner) or fence > tonumber(token) then return 'R' .. text end
    local written = try('HSET', RECORD, field, token)
    return type(written) == 'table' and 'E' .. written.err or 'C'
  end

  local function extend(i)
    local owner, ttl = next_arg(), next_arg()
    if holders[i] == SHARED then return of_readers().extend(KEYS[i], owner, tonumber(ttl)) end
    if holders[i] ~= owner then return 'G' end
    if call('PTTL', KEYS[i]) < tonumber(ttl) then call('PEXPIRE', KEYS[i], ttl) end
    return 'K'
  end

  local function replace(i)
    local owner, ttl, token, field, queue_field = next_arg(), next_arg(), next_arg(), next_arg(), next_arg()
    if holders[i] then return holders[i] == owner and 'K' or 'G' end
    local fence, mark = unpack(call('HMGET', RECORD, field, queue_field))
    if mark then
      queue = queue or load_queue_of_batch()
      if queue.is_barred(KEYS[i], owner) then return 'G' end
    end
    fence = tonumber(fence or 0)
    if not fence then return 'Ethe fence is not a number' end
    local written = fence < tonumber(token) and try('HSET', RECORD, field, token)
    -- NX: a key of another type is nobody's lock, and not ours to overwrite.
    if type(written) ~= 'table' then written = try('SET', KEYS[i], owner, 'NX', 'PX', ttl) end
    if written and written.err then return 'E' .. written.err end
    return written and 'K' or 'G'
  end

  local function leave_queue(i)
    local field = next_arg()
    queue = queue or load_queue_of_batch()
    queue.add_lock(KEYS[i], field, call('HMGET', RECORD, field)[1])
    queue.released(KEYS[i], holders[i], 'leave')
    return 'L'
  end

  local function acquire_to_read(i) return of_readers().acquire(KEYS[i], holders[i], next_arg) end
  local function replace_reader(i) return of_readers().replace(KEYS[i], holders[i], next_arg) end
  local function downgrade(i) return of_readers().downgrade(KEYS[i], holders[i], next_arg) end

  local operations = {
    C = confirm, E = extend, P = replace, L = leave_queue, R = acquire_to_read, Q = replace_reader, W = downgrade,
  }
  for i = RELEASES + ACQUIRES + 1, REQUESTS do replies[i] = operations[next_arg()](i) end
end

return table.concat(replies, '\n')
