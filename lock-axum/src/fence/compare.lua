-- Checks that nobody else has marked a resource. Appended commands run only then.
--
-- KEYS[1]  the mark: the last value that was set with SET
-- ARGV[1]  the value of the caller
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return redis.error_reply('STALETOKEN the mark is not that of the caller') end
