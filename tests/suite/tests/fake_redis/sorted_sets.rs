//! Random commands on sorted sets, from connections of both protocols and from scripts: the bytes of the replies are the same.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::commands::{one_of, words};
use super::servers::Servers;
use super::{config, runtime};

/// Calls a command as a script does.
const IN_SCRIPT: &str = "return redis.pcall(unpack(ARGV))";

fn key() -> impl Strategy<Value = &'static str> {
    one_of(&["z", "z", "z", "y", "text", "none"])
}

fn member() -> impl Strategy<Value = &'static str> {
    one_of(&["a", "b", "B", "ba", "p1", "", "1"])
}

fn score() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        10 => one_of(&["1", "2", "2", "-3", "1700000000000000", "1700000000000001", "9007199254740992", "0.1", "1e21"]),
        1 => one_of(&["inf", "-inf", "-0", "+1", "1e17", "1e16", "1.5e-7", "123456789012345678", "9007199254740993"]),
        1 => one_of(&["x", "nan", "", " 1", "1e400"]),
    ]
}

fn index() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        12 => one_of(&["0", "0", "1", "2", "-1", "-1", "-2", "100", "-100"]),
        1 => one_of(&["9223372036854775807", "-9223372036854775808", "x", "1.5", ""]),
    ]
}

fn command() -> impl Strategy<Value = Vec<String>> {
    let add = (key(), prop::collection::vec((score(), member()), 1..4)).prop_map(|(key, pairs)| {
        let pairs = pairs.iter().flat_map(|(score, member)| [*score, *member]);
        words(&["ZADD", key].into_iter().chain(pairs).collect::<Vec<_>>())
    });
    let remove = (key(), prop::collection::vec(member(), 1..4))
        .prop_map(|(key, members)| words(&[&["ZREM", key][..], &members].concat()));
    let range = (key(), index(), index(), one_of(&["", "WITHSCORES", "withscores", "SCORES"])).prop_map(
        |(key, from, to, option)| {
            let option = if option.is_empty() { vec![] } else { vec![option] };
            words(&[&["ZRANGE", key, from, to][..], &option].concat())
        },
    );
    prop_oneof![
        8 => add,
        3 => remove,
        8 => range,
        4 => (one_of(&["ZRANK", "ZSCORE"]), key(), member()).prop_map(|(name, key, member)| words(&[name, key, member])),
        2 => key().prop_map(|key| words(&["ZCARD", key])),
        2 => key().prop_map(|key| words(&["ZPOPMAX", key])),
        3 => (key(), one_of(&["1", "2", "9", "0", "-1", "x"])).prop_map(|(key, most)| words(&["ZPOPMAX", key, most])),
        1 => (one_of(&["EXISTS", "DEL", "PTTL", "GET", "HGETALL", "MGET"]), key())
            .prop_map(|(name, key)| words(&[name, key])),
        1 => key().prop_map(|key| words(&["HDEL", key, "field"])),
        1 => (key(), one_of(&["0", "-1"])).prop_map(|(key, ttl)| words(&["PEXPIRE", key, ttl])),
        1 => Just(words(&["SET", "y", "text"])),
        1 => one_of(&["ZADD", "ZREM", "ZRANGE", "ZRANK", "ZSCORE", "ZCARD", "ZPOPMAX", "PUBLISH"])
            .prop_map(|name| words(&[name])),
        1 => one_of(&["ZADD", "ZREM", "ZRANGE", "ZRANK", "ZCARD", "ZPOPMAX"])
            .prop_map(|name| words(&[name, "z", "1", "a", "2"])),
    ]
}

/// A command, and whether a script executes it.
fn step() -> impl Strategy<Value = Vec<String>> {
    (command(), any::<bool>()).prop_map(|(command, in_script)| {
        if in_script { [words(&["EVAL", IN_SCRIPT, "0"]), command].concat() } else { command }
    })
}

#[test]
fn a_sorted_set_is_that_of_redis() {
    let runtime = runtime();
    let servers = runtime.block_on(Servers::start(None));
    let sequences = (one_of(&["2", "3"]), prop::collection::vec(step(), 1..60));
    let outcome = TestRunner::new(config(300)).run(&sequences, |(protocol, steps)| {
        runtime.block_on(async {
            let mut pair = servers.connect_raw().await;
            pair.greet(protocol).await;
            for words in [words(&["FLUSHALL"]), words(&["SET", "text", "value"])].iter().chain(&steps) {
                pair.ask(words).await.map_err(TestCaseError::fail)?;
            }
            Ok(())
        })
    });
    outcome.unwrap_or_else(|difference| panic!("{difference}"));
}

/// More members than Redis keeps in its short form, in an order that is not that of their scores.
#[tokio::test]
async fn a_long_queue_is_in_the_order_of_redis() {
    let servers = Servers::start(None).await;
    let mut pair = servers.connect_raw().await;
    for number in 0..300_u64 {
        let score = 1_700_000_000_000_000 + number * 7_919 % 100;
        let member = format!("{:016x}", number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        pair.ask(&words(&["ZADD", "z", &score.to_string(), &member])).await.unwrap();
        if number % 10 == 9 {
            pair.ask(&words(&["ZRANK", "z", &member])).await.unwrap();
            pair.ask(&words(&["ZPOPMAX", "z"])).await.unwrap();
        }
    }
    let all = pair.ask(&words(&["ZRANGE", "z", "0", "-1", "WITHSCORES"])).await.unwrap();
    assert!(all.starts_with("*540\r\n"), "{all}");
}
