-- KEYS: meta, quarantine    ARGV: expected epoch or '', run_id, epoch, format, nodes, max_ttl (ms), set name,
--                                 quarantine (ms, 0 for none)
local quarantine = tonumber(ARGV[8])
if not quarantine then return redis.error_reply('ERR establish: not a number') end
if (redis.call('HGET', KEYS[1], 'epoch') or '') ~= ARGV[1] then return {'CHANGED'} end

-- The fences will be fields of the record. Up to 512 of them would be kept as a list, and searched from its start for each ballot,
-- but for a value that is too long for that: more than 64 bytes (hash-max-listpack-entries and -value).
local about = 'What a lock manager knows this master by, and the highest fencing numbers that it gave. ' ..
  'Deleted, it is taken for one that forgot all locks, and has no vote for max_ttl (ms).'

-- The quarantine before the record: a script that is cut short leaves a node that does not vote.
if quarantine > 0 then redis.call('SET', KEYS[2], '1', 'PX', quarantine) end
redis.call('HSET', KEYS[1], 'run_id', ARGV[2], 'epoch', ARGV[3], 'format', ARGV[4], 'nodes', ARGV[5],
  'max_ttl', ARGV[6], 'set_name', ARGV[7], 'about', about)
return {'ESTABLISHED'}
