-- Makes the node a member of a set of masters, by writing its record.
--
-- KEYS   the record of the node, the quarantine
-- ARGV   the epoch that the present record is expected to have ('' for no record); then for the new record:
--        run_id, epoch, format, nodes, max_ttl (ms), set_name; and quarantine (ms, 0 for none)
--
-- Replies with {'ESTABLISHED'}, or {'CHANGED'} if the present record is another one than expected. Nothing is written then, so
-- of two clients that establish a node at the same time one succeeds.

local quarantine = tonumber(ARGV[8])
if not quarantine then return redis.error_reply('ERR establish: not a number') end
if (redis.call('HGET', KEYS[1], 'epoch') or '') ~= ARGV[1] then return {'CHANGED'} end

-- Each request looks up a fence in this hash. Redis would keep up to 512 fields as a list, and search it from its start, unless one
-- value is longer than 64 bytes (hash-max-listpack-entries and -value). This one is.
local about = 'What a lock manager knows this master by, and the highest fencing numbers that it gave. ' ..
  'Deleted, it is taken for one that forgot all locks, and has no vote for max_ttl (ms).'

-- The quarantine before the record: a script that is cut short leaves a node that does not vote.
if quarantine > 0 then redis.call('SET', KEYS[2], '1', 'PX', quarantine) end
redis.call('HSET', KEYS[1], 'run_id', ARGV[2], 'epoch', ARGV[3], 'format', ARGV[4], 'nodes', ARGV[5],
  'max_ttl', ARGV[6], 'set_name', ARGV[7], 'about', about)
return {'ESTABLISHED'}
