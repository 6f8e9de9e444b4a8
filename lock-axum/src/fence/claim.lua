-- Claims a resource: appended to check.lua, it runs only if the token is not stale, and then it is the largest.
redis.call('SET', KEYS[1], ARGV[1])
