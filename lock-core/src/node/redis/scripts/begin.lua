-- The votes of a node: one script for all kinds, so that votes that come together are one call. (scripts.rs joins the files.)
--
-- KEYS: meta, quarantine, and those of each ballot.
-- ARGV: epoch, fence retention (times in ms), waiter, and for each ballot its kind and the arguments of that kind.
-- Answers with a code and a number for each ballot, or -1 and why it failed; or with 0 if the node is in another epoch.
-- The codes: 1 GRANTED, 2 HELD, 3 QUARANTINED, 4 CONFIRMED, 5 REFUSED, 6 KEPT, 7 GONE, 8 RELEASED, 9 NOT_OWNER.
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then return {0} end

local call, RETENTION, WAITER = redis.call, ARGV[2], ARGV[3]

-- A script runs from its first line at every call, and to make a function takes as long as a command. What is not needed for
-- a free lock is made in here, when it is.
local function make_the_rest()

