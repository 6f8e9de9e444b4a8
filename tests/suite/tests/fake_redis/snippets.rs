//! Short scripts that try what Redis gives to a script, and what it makes of what the script returns.

use proptest::prelude::*;
use proptest::sample::select;

use super::commands::{key, one_of, words};

/// With two keys and one argument each.
const SNIPPETS: [&str; 50] = [
    // What is returned.
    "return {1.9, -1.9, 2^53 - 1, true, 'text', {3, {}, {'a'}}, false, nil, 4}",
    "return nil",
    "return false",
    "return 3.99",
    "return ARGV[1]",
    "return tonumber(ARGV[1])",
    "return {ok = ARGV[1], 1}",
    "return {err = ARGV[1]}",
    "return {{err = ARGV[1]}, {ok = ARGV[1]}}",
    "return redis.error_reply(ARGV[1])",
    "return redis.error_reply(ARGV[1]).err",
    "return redis.error_reply(ARGV[1], 2).err",
    "return redis.status_reply(ARGV[1])",
    "return redis.status_reply({}).err",
    "return {type(KEYS), #KEYS, #ARGV, KEYS[1], KEYS[3]}",
    "return {tostring(1e15), tostring(2^53), 1 / 3 .. '', string.format('%.0f', 2.5), ARGV[1] .. 1}",
    // What commands reply.
    "return redis.call('GET', KEYS[1])",
    "return redis.call('MGET', KEYS[1], 'none', KEYS[2])",
    "return redis.call('HMGET', KEYS[1], 'none', 'epoch')",
    "return {redis.call('GET', 'none') == false, type(redis.call('EXISTS', KEYS[1]))}",
    "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', 60000)",
    "return redis.call('SET', 'script', ARGV[1]).ok",
    "return redis.call('ZRANGE', KEYS[1], 0, -1)",
    "return redis.call('DEL', KEYS[1], KEYS[2])",
    "return redis.pcall('HGET', KEYS[1], 'epoch')",
    "local all = redis.call('HGETALL', KEYS[1]) table.sort(all) return all",
    "return {redis.call('HDEL', KEYS[1], 'run_id', 'none', 'run_id'), redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[1])}",
    "redis.call('HSET', 'script:h', 1, ARGV[1], 2, '') return {redis.call('HDEL', 'script:h', 1, 2), \
     redis.call('EXISTS', 'script:h'), #redis.call('HGETALL', 'script:h')}",
    "local time = redis.call('TIME') \
     return {#time, tonumber(time[1]) > 1.6e9, tonumber(time[2]) < 1e6, redis.call('TIME')[1] - time[1] < 5}",
    "return redis.pcall('TIME', ARGV[1]).err",
    // A hash with as many fields as a record, written in pieces.
    "for first = 0, 16383, 1024 do \
       local fields = {'script:big'} \
       for field = first, first + 1023 do fields[#fields + 1], fields[#fields + 2] = field, ARGV[1] end \
       redis.call('HSET', unpack(fields)) \
     end \
     return {#redis.call('HGETALL', 'script:big'), redis.call('HGET', 'script:big', 16383)}",
    "local reply = redis.pcall('ZCARD', KEYS[1]) return type(reply) == 'table' and reply.err or reply",
    // How numbers are sent.
    "redis.call('SET', 'script', 2^53 - 1) return redis.call('GET', 'script')",
    "redis.call('SET', 'script', 0.1) return redis.call('GET', 'script')",
    "redis.call('SET', 'script', -1e20) return redis.call('GET', 'script')",
    "redis.call('SET', 'script', 'v', 'PX', 6e4) redis.call('SET', 'script', 'w', 'KEEPTTL') \
     return redis.call('PTTL', 'script') > 50000",
    // Errors, and what was written before them.
    "redis.call('SET', KEYS[1], ARGV[1]) redis.call('HGET', KEYS[1], 'f') redis.call('DEL', KEYS[1])",
    "redis.call('SET', KEYS[1], ARGV[1]) error(ARGV[1])",
    "error({err = 'CODE ' .. ARGV[1]})",
    "return ARGV[1] + 1",
    "return {pcall(redis.call, 'HGET', KEYS[1], 'f')}",
    "return {pcall(error, ARGV[1])}",
    "return redis.pcall().err",
    "return redis.pcall({}).err",
    "return redis.pcall('NOSUCH').err",
    "return redis.pcall('GET').err",
    "return redis.pcall('SET', KEYS[1], 'v', 'PX', 0).err",
    // Nothing is carried from one script to the next.
    "x = ARGV[1]",
    "return x",
    "return return",
];

pub(crate) fn snippet() -> impl Strategy<Value = Vec<String>> {
    let arguments = one_of(&["text", "CODE text", "-CODE text", "-", "", "0", "12", "-3.7", "two\nlines"]);
    (select(&SNIPPETS[..]), key(), key(), arguments)
        .prop_map(|(source, one, other, argument)| words(&["EVAL", source, "2", one, other, argument]))
}
