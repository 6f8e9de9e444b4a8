-- Ledger: executes a batch of requests and replies to each of them.
--
-- The ledger must be right: exclusion and the order of tokens rest on it alone. Its files are this one, ledger_beside.lua,
-- ledger_readers.lua, evict.lua, and record.lua; and lone.lua, which has the usual case of both halves. It must guarantee, whatever the
-- waiting room (waiting.lua) has, replies or has lost:
--
--   * A request changes nothing unless the record has the epoch that it names.
--   * A lock key is set only while it is missing, and for no owner that was evicted. Only its own owner prolongs or deletes it.
--   * A fence only rises, and is written before the lock whose token it is: a script that is cut short leaves tokens unused, never a
--     lock without one.
--
-- The waiting room is asked and told. It may refuse what the ledger would grant, and decides nothing else.
--
-- All operations are in one script, so that requests which arrive together are one command.
--
-- KEYS   the lock key of each request: the releases, then the acquires, then the others
--        the record of the node
-- ARGV   epoch; waiter, with a 'p' before it if it polls; how many releases, how many acquires
--        for each acquire   its fence: the name of a field of the record
--        the marks of the releases, and then of the acquires: names of fields of the record (see ledger_beside.lua), with a space
--        between them
--        for each release   'owner' gives up the position in the queue, 'owner since' keeps it, 'owner none' leaves it alone. Of a slot,
--                           each since is followed by a 'k' and how many of the slots the caller may have
--        if any acquire     the ttl and the number of tokens of most acquires
--        for each acquire   owner; 'last', the last token that it asks for, or 'last ttl tokens'; since when it waits, or 0
--        for each other     C owner token fence, E owner ttl, P owner ttl token fence mark, or L mark: see the functions below; and for
--                           readers R owner last ttl tokens since fence mark, Q owner ttl token fence mark, W owner ttl mark
--
-- No two requests of a batch have the same fence, and so none the same lock, except that a release may come before an acquire: a
-- busy lock is released and acquired again by one batch. The acquires of readers are among the others, and their releases among the
-- releases.
--
-- The reply is one string, which clients parse faster than an array, with a line for each request in the order of KEYS:
--   acquire           the last of the granted tokens; H and for how many ms the lock is held or kept for another, followed by how
--                     many waiters are before the caller, if it is in the queue; of a slot, also an 's', the slot that is
--                     proposed to the caller, and those that it may take; A instead of H if it had no position there, or let
--                     its reservation pass, and S if the holder is a stranger; T if the key is of another type, and so no lock
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

local function load_beside(...)
  -- include ledger_beside.lua
end
local function lone(...)
  -- include lone.lua
end

local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local WAITER, RELEASES, ACQUIRES = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
-- REQUEST_COUNT stands for `#KEYS - 1`. On a server that insists on the declaration of every key, those that are beside the locks follow
-- the record, and it stands for the last of ARGV (see script.rs and declared.rs).
local REQUESTS = REQUEST_COUNT
local RECORD = KEYS[REQUESTS + 1]

-- Most batches are one release, or one acquire.
local MARKS, is_lone = ARGV[5 + ACQUIRES], REQUESTS == 1 and RELEASES + ACQUIRES == 1
-- The fences are fields of the record, so that a node cannot forget them and keep its epoch. The marks are not read with them, only
-- whether there are any: with a mark for each request, a batch takes 5 % longer.
local record = call('HMGET', RECORD, 'epoch', is_lone and MARKS or 'marked', unpack(ARGV, 5, 4 + ACQUIRES))
if record[1] ~= ARGV[1] then return 'U' end
-- The mark of a lone request's lock; for a batch, the latest of all marks.
local lone_mark, latest_mark = is_lone and record[2], not is_lone and record[2]

local holders, prefix, woken
if lone_mark then
  -- Somebody may wait: what is stored beside the lock is read behind the holder.
  local prefix_length = #RECORD - #'{node}'
  prefix = string.sub(KEYS[1], 1, prefix_length) .. '{' .. string.sub(KEYS[1], prefix_length + 1) .. '}:'
  holders = try('MGET', KEYS[1], prefix .. 'reserved', prefix .. 'evicted')
  is_lone = not holders.err
end
-- The present holder of each request's lock.
if not prefix or not is_lone then holders = call('MGET', unpack(KEYS, 1, REQUESTS)) end
if is_lone then
  local reply
  reply, woken = lone(WAITER, lone_mark, record[3], holders, prefix)
  if reply then return reply end
end

local replies = {}
-- The next argument.
local arg_index = 6 + ACQUIRES
-- Whether a lock has or needs something beside its key.
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
      positions[i] = position
      if position ~= 'none' then slow_path = true end
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
  if holders[i] then slow_path = true end
end

-- Locks with a mark.
local names, found, i = {}, {}, 0
if slow_path or lone_mark or latest_mark then
  for name in string.gmatch(MARKS, '%S+') do
    i = i + 1
    names[i] = name
  end
  if lone_mark then
    found[1] = lone_mark
  elseif latest_mark and i > 0 then
    found = call('HMGET', RECORD, unpack(names))
  end
  for n = 1, i do
    if found[n] then slow_path = true end
  end
end

local beside
if slow_path then
  local fields, marks = {}, {}
  for n = 1, i do fields[KEYS[n]], marks[KEYS[n]] = names[n], found[n] or nil end
  beside = load_beside(WAITER, RECORD, fields, marks)
  if shared then
    for i, owner in pairs(shared) do replies[i] = beside.of_readers().release(KEYS[i], owner) end
    holders = call('MGET', unpack(KEYS, 1, REQUESTS))
  end
  for i = 1, RELEASES do beside.waiting.released(KEYS[i], holders[i], positions and positions[i] or 'leave', woken) end
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
  local text = record[2 + acquire] or '0'
  local fence = tonumber(text)
  if not fence then
    replies[i] = 'Ethe fence is not a number'
  elseif holder == owner then
    -- The same attempt again.
    replies[i] = text
  else
    local refusal = slow_path and beside.refused(KEYS[i], holder, owner)
    local wait = slow_path and beside.waiting.must_wait(KEYS[i], holder, refusal, ARGV[at + 2])
    -- Usually the clock is ahead of the fence, and the tokens that are asked for are larger than any before.
    if token - fence < tokens then
      token = fence + tokens
      last = string.format('%.0f', token)
    end
    if refusal or wait then
      replies[i] = wait or 'H' .. refusal
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
      beside.waiting.acquired(KEYS[i])
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

  -- The functions for what is stored beside a lock, with its mark if that is given.
  local function load_beside_of(i, field, mark)
    beside = beside or load_beside(WAITER, RECORD, {}, {})
    if field then beside.fields[KEYS[i]], beside.marks[KEYS[i]] = field, mark or nil end
    return beside
  end

  local function is_held_by(i, owner)
    return holders[i] == owner or holders[i] == SHARED and load_beside_of(i).of_readers().reads_until(KEYS[i], owner)
  end

  local function confirm(i)
    local owner, token, field = next_arg(), next_arg(), next_arg()
    local text = call('HMGET', RECORD, field)[1] or '0'
    local fence = tonumber(text)
    if not fence then return 'Ethe fence is not a number' end
    -- A fence only rises: behind a higher one, a larger token may be in use already.
    if not is_held_by(i, owner) or fence > tonumber(token) then return 'R' .. text end
    local written = try('HSET', RECORD, field, token)
    return type(written) == 'table' and 'E' .. written.err or 'C'
  end

  local function extend(i)
    local owner, ttl = next_arg(), next_arg()
    if holders[i] == SHARED then return load_beside_of(i).of_readers().extend(KEYS[i], owner, tonumber(ttl)) end
    if holders[i] ~= owner then return 'G' end
    -- Never shorter: a request that was overtaken must not undo what a later renewal has given.
    if call('PTTL', KEYS[i]) < tonumber(ttl) then call('PEXPIRE', KEYS[i], ttl) end
    return 'K'
  end

  local function replace(i, reads)
    local owner, ttl, token, field, mark_field = next_arg(), next_arg(), tonumber(next_arg()), next_arg(), next_arg()
    local lock_key, holder = KEYS[i], holders[i]
    if holder == owner or reads and is_held_by(i, owner) then return 'K' end
    if holder and not (reads and holder == SHARED) then return 'G' end
    -- Even if the lock is free: an evicted owner must not come back by a request that was sent before.
    local fence, mark = unpack(call('HMGET', RECORD, field, mark_field))
    if mark and load_beside_of(i, mark_field, mark).refused(lock_key, holder, owner, reads) then return 'G' end
    fence = tonumber(fence or 0)
    if not fence then return 'Ethe fence is not a number' end
    -- Those who join a reader that is put back after a writer had the lock must not have the token of that writer.
    if reads and not holder and fence > token then token = fence + 1 end
    if token > MAX_TOKEN then return 'Ethe fence is used up' end
    -- The fence before the lock, as for an acquire.
    local written = fence < token and try('HSET', RECORD, field, string.format('%.0f', token))
    if type(written) == 'table' then return 'E' .. written.err end
    if reads then
      local failed = load_beside_of(i).of_readers()[holder and 'join' or 'begin'](lock_key, owner, tonumber(ttl))
      return failed == 'T' and 'G' or failed or 'K'
    end
    -- NX: a key of another type is nobody's lock, and not ours to overwrite.
    local set = try('SET', lock_key, owner, 'NX', 'PX', ttl)
    if set and set.err then return 'E' .. set.err end
    if set and mark then beside.waiting.released(lock_key, owner, 'none') end
    return set and 'K' or 'G'
  end

  local function leave_queue(i)
    local field = next_arg()
    load_beside_of(i, field, call('HMGET', RECORD, field)[1]).waiting.released(KEYS[i], holders[i], 'leave')
    return 'L'
  end

  local operations = {C = confirm, E = extend, P = replace, Q = replace, L = leave_queue}
  local operations_of_readers = {R = 'acquire', W = 'downgrade'}
  for i = RELEASES + ACQUIRES + 1, REQUESTS do
    local letter = next_arg()
    local of_readers = operations_of_readers[letter]
    if of_readers then
      replies[i] = load_beside_of(i).of_readers()[of_readers](KEYS[i], holders[i], next_arg)
    else
      replies[i] = operations[letter](i, letter == 'Q')
    end
  end
end

return table.concat(replies, '\n')
