-- The votes of a node: one script for all kinds, so that votes that come together are one call. (scripts.rs joins the files.)
--
-- No two ballots of a call have the same fence, so none the same lock, and their order does not matter: what they read is read
-- at once, and what they write is written at once where Redis can. But a lock may be released and then acquired, by a pair. First
-- come those that release, then those that acquire, of both first those of the pairs, in the same order.
--
-- KEYS: meta, quarantine, queued (there while any lock may be waited for), and the lock of each ballot.
-- ARGV: epoch, waiter, how many pairs, how many release, how many acquire, the fence of each that acquires; and then what each
-- kind's file tells.
-- Answers with a code and a number for each ballot, or -1 and why it failed, all in one text of lines, which is read faster than
-- a list; or with 0 if the node is in another epoch. Large numbers are told as the texts that they are stored as.
-- The codes: 1 GRANTED, 2 HELD, 3 QUARANTINED, 4 CONFIRMED, 5 REFUSED, 6 KEPT, 7 GONE, 8 RELEASED, 9 NOT_OWNER.
local call, try = redis.call, redis.pcall
local WAITER, PAIRS, RELEASES, ACQUIRES = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

-- A fence is a field of the record, so that a node can not forget it and keep its epoch.
local record = call('HMGET', KEYS[1], 'epoch', unpack(ARGV, 6, 5 + ACQUIRES))
if record[1] ~= ARGV[1] then return '0' end
local stored = call('MGET', unpack(KEYS, 2))

-- The present ballot's words begin at this one.
local word = 6 + ACQUIRES
-- Queues and turns, when there are any.
local lines

local answers = {}
local function answer(ballot, code, number)
  answers[2 * ballot - 1], answers[2 * ballot] = code, number
end

-- A script runs from its first line at every call, and to make a function takes as long as a command. What is not needed for
-- a free lock that nobody waits for is made in here, when it is.
local function make_the_rest()

