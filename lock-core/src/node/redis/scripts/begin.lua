-- The votes of a node: one script for all kinds, so that votes that come together are one call. (scripts.rs joins the files.)
--
-- No two ballots of a call have the same fence, so none the same lock, and their order does not matter: what they read is read
-- at once, and what they write is written at once where Redis can. But a lock may be released and then acquired, by a pair. First
-- come those that release, then those that acquire, of both first those of the pairs, in the same order.
--
-- KEYS: meta, quarantine, queued (the locks that may be waited for, if any), and the lock of each ballot.
-- ARGV: epoch, waiter, how many pairs, how many release, how many acquire; the fence of each that acquires; if any release, what
-- release.lua tells; if any acquire, what acquire.lua tells; and of the others what each kind's file tells.
-- Answers with a line for each ballot, which is read faster than a list: the number that is granted, or a letter, and behind it
-- what belongs to it. H(eld), Q(uarantined): for how many milliseconds yet. D(eleted), N(ot the owner): to a release.
-- C(onfirmed). R(efused): the fence. K(ept). G(one). E(rror): its text. Or with U(nadmitted) alone if the node is in another epoch.
local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local WAITER, PAIRS, RELEASES, ACQUIRES = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

-- A fence is a field of the record, so that a node can not forget it and keep its epoch.
local record = call('HMGET', KEYS[1], 'epoch', unpack(ARGV, 6, 5 + ACQUIRES))
if record[1] ~= ARGV[1] then return 'U' end
local stored = call('MGET', unpack(KEYS, 2))

local answers = {}
-- What was read last of ARGV.
local word = 5 + ACQUIRES

