//! Random steps: requests, which the engine itself encodes, and commands, right and wrong, that change what the requests
//! depend on.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use lock_core::node::{Keyspace, LockKeys, OwnerId, WaiterId};
use proptest::prelude::*;

use super::requests::{Call, EPOCH, call, evict, first_record, held_lock, look, read_fences, write};
use super::snippets::snippet;

/// The keys that a node has for a lock.
pub(crate) struct Lock {
    pub(crate) keys: LockKeys,
    pub(crate) lock: String,
    pub(crate) queue: String,
    /// For whom the key is reserved; of a slot, which of the waiters may take one.
    pub(crate) reserved: String,
    /// The fields of the node's record.
    pub(crate) fence: String,
    queue_field: String,
}

pub(crate) static KEYSPACE: LazyLock<Arc<Keyspace>> = LazyLock::new(|| Arc::new(Keyspace::new("lock:")));

/// Three locks with fences of their own, one that shares the fence of the first, and two slots.
pub(crate) static LOCKS: LazyLock<[Lock; 6]> = LazyLock::new(|| {
    let fence = |resource: &str| LockKeys::new(&KEYSPACE, resource).fence();
    let shares = |resource: &String| fence(resource) == fence("r");
    let neighbor = (0..).map(|number| format!("t{number}")).find(shares).unwrap();
    let [r, s, u, neighbor] =
        ["r", "s", "u", &neighbor].map(|resource| (resource, resource, LockKeys::new(&KEYSPACE, resource)));
    let [one, other] =
        [("r{0}", 0), ("r{1}", 1)].map(|(name, slot)| (name, "r{}", LockKeys::of_slot(&KEYSPACE, "r", slot)));
    [r, s, u, neighbor, one, other].map(|(name, queue, keys)| {
        let lock = keys.lock_key().to_owned();
        let reserved = match keys.slot() {
            Some(_) => format!("lock:{{{queue}}}:waiters"),
            None => format!("lock:{{{name}}}:reserved"),
        };
        let fence = keys.fence().to_string();
        let queue_field = format!("q{}", LockKeys::new(&KEYSPACE, queue).fence());
        Lock { keys, lock, queue: format!("lock:{{{queue}}}:queue"), reserved, fence, queue_field }
    })
});

pub(crate) const RECORD: &str = "lock:{node}";
pub(crate) const WAITERS: [WaiterId; 3] =
    [WaiterId::from_bits(0xaa), WaiterId::from_bits(0xbb), WaiterId::from_bits(0xcc)];
/// The channels on which the waiters are woken.
pub(crate) static WAKEUPS: LazyLock<[String; 3]> =
    LazyLock::new(|| WAITERS.map(|waiter| KEYSPACE.wakeup_channel(waiter)));

/// A command or a call of the engine, and how long to wait after it.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) action: Action,
    pub(crate) pause: Option<Pause>,
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Command(Vec<String>),
    Call(Call),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Pause {
    /// Until the short times to live have ended.
    Soon,
    /// Until all reservations have ended.
    Reservations,
}

/// Times to live that end before the pause does, in milliseconds.
const SOON: [&str; 2] = ["1", "20"];
pub(crate) const PAUSE: Duration = Duration::from_millis(30);

impl Step {
    pub(crate) fn command(words: Vec<String>) -> Self {
        Self { action: Action::Command(words), pause: None }
    }

    pub(crate) fn call(call: Call) -> Self {
        let pause = call.is_short().then_some(Pause::Soon);
        Self { action: Action::Call(call), pause }
    }

    fn with_ttl(words: Vec<String>, ttl: &str) -> Self {
        Self { action: Action::Command(words), pause: SOON.contains(&ttl).then_some(Pause::Soon) }
    }
}

pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

pub(crate) fn one_of(words: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(words)
}

pub(crate) fn key() -> impl Strategy<Value = &'static str> {
    let Lock { lock, queue, reserved, .. } = &LOCKS[0];
    prop::sample::select([&[lock.as_str(); 4][..], &[queue, reserved, RECORD]].concat())
}

fn waiter() -> impl Strategy<Value = String> {
    prop::sample::select(&WAITERS[..]).prop_map(|waiter| waiter.to_string())
}

/// A time to live, right or wrong.
fn ttl() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        20 => one_of(&["60000", "90000", "90000"]),
        3 => one_of(&["20", "1", "0", "-5", "x", "1.5"]),
    ]
}

/// A value of a key, which may or may not make sense there.
fn text() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        8 => one_of(&["0", "1", "5", "7", "100", "1700000000000000"]),
        2 => one_of(&["9007199254740990", "9007199254740991", "9007199254740992", "-1", "x", "", "1e3", "2.5"]),
    ]
}

/// A command that sets how long a key lives.
fn ttl_command() -> impl Strategy<Value = Step> {
    let set = (key(), text(), one_of(&["", "NX", "XX"]), ttl()).prop_map(|(key, value, only_if, ttl)| {
        let only_if = if only_if.is_empty() { vec![] } else { vec![only_if] };
        Step::with_ttl(words(&[&["SET", key, value][..], &only_if, &["PX", ttl]].concat()), ttl)
    });
    let expire = (key(), ttl()).prop_map(|(key, ttl)| Step::with_ttl(words(&["PEXPIRE", key, ttl]), ttl));
    let keep = (key(), one_of(&["", "NX", "XX"])).prop_map(|(key, only_if)| {
        let only_if = if only_if.is_empty() { vec![] } else { vec![only_if] };
        Step::command(words(&[&["SET", key, "kept"][..], &only_if, &["KEEPTTL"]].concat()))
    });
    prop_oneof![4 => set, 2 => expire, 1 => keep]
}

/// Commands on sorted sets, instead of what the scripts expect, and messages to waiters that wake nobody.
fn queue_command() -> impl Strategy<Value = Step> {
    let since = || one_of(&["1", "2", "3", "1700000000000000"]);
    let command = prop_oneof![
        3 => (key(), since(), waiter()).prop_map(|(key, since, waiter)| words(&["ZADD", key, since, &waiter])),
        1 => (key(), since(), waiter())
            .prop_map(|(key, since, waiter)| words(&["ZADD", key, since, &format!("p{waiter}")])),
        1 => (key(), waiter()).prop_map(|(key, waiter)| words(&["ZREM", key, &waiter])),
        1 => key().prop_map(|key| words(&["ZRANGE", key, "0", "-1", "WITHSCORES"])),
        1 => key().prop_map(|key| words(&["ZPOPMAX", key])),
        2 => prop::sample::select(&WAKEUPS[..]).prop_map(|channel| words(&["PUBLISH", &channel, "text"])),
    ];
    command.prop_map(Step::command)
}

/// A command that changes what votes depend on, to what a node may have and to what it should not.
fn disturbance() -> impl Strategy<Value = Vec<String>> {
    let Lock { lock, queue, reserved, fence, queue_field, .. } = &LOCKS[0];
    let [a, b, c] = WAITERS.map(|waiter| waiter.to_string());
    let queues = [
        format!("1 {a}"),
        format!("1 {a} 2 {b}"),
        format!("2 {b} 2 {c} 3 {a}"),
        format!("1 p{a} 2 {b} 9 zz 3 p{c} 4 {c} -1 p"),
    ];
    let reservations = [a.clone(), format!("{b} {a}"), format!("  p{a} zz {c} "), String::new()];
    // As long as the scripts know for whom a key was reserved, and without an end.
    let ends = [&["PX", "10000"][..], &["PX", "10000"], &[]];
    prop_oneof![
        2 => (key(), text()).prop_map(|(key, value)| words(&["SET", key, value])),
        4 => Just(words(&["SET", lock, "a stranger", "PX", "60000"])),
        1 => Just(words(&["SET", lock, OwnerId::SHARED, "PX", "60000"])),
        3 => prop::sample::select(queues.to_vec())
            .prop_map(move |entries| words(&[&["ZADD", queue][..], &entries.split(' ').collect::<Vec<_>>()].concat())),
        2 => (prop::sample::select(reservations.to_vec()), prop::sample::select(ends.to_vec()))
            .prop_map(move |(waiters, end)| words(&[&["SET", reserved, &waiters][..], end].concat())),
        2 => one_of(&["9999999999999", "1000000000000", "0", "x"])
            .prop_map(move |until| words(&["HSET", RECORD, queue_field, until, "marked", until])),
        1 => Just(words(&["HDEL", RECORD, queue_field])),
        1 => Just(words(&["DEL", RECORD])),
        2 => text().prop_map(move |number| words(&["HSET", RECORD, fence, number])),
        1 => Just(words(&["HSET", RECORD, fence, "x"])),
        1 => key().prop_map(|key| words(&["HSET", key, "epoch", "e1", "run_id", "run"])),
        1 => Just(words(&["HSET", lock, "epoch", "e1"])),
        2 => Just(words(&["HSET", RECORD, "epoch", &EPOCH.to_string(), "run_id", "run"])),
    ]
}

/// Any other command.
fn command() -> impl Strategy<Value = Vec<String>> {
    let names = one_of(&["GET", "DEL", "EXISTS", "PTTL"]);
    let Lock { lock, queue, reserved, fence, .. } = &LOCKS[0];
    prop_oneof![
        6 => (names, key()).prop_map(|(name, key)| words(&[name, key])),
        2 => Just(words(&["MGET", lock, queue, reserved, RECORD])),
        1 => key().prop_map(|key| words(&["HGET", key, "epoch"])),
        2 => key().prop_map(move |key| words(&["HMGET", key, "epoch", fence])),
        2 => Just(words(&["HMGET", RECORD, fence, "epoch", "set_name", fence])),
        1 => key().prop_map(|key| words(&["HGETALL", key])),
        1 => key().prop_map(|key| words(&["HDEL", key, "run_id", "none", "run_id"])),
        1 => Just(words(&["HDEL", RECORD, "epoch"])),
        1 => one_of(&["return 1", "return KEYS[1]", "return return"]).prop_map(|source| words(&["SCRIPT", "LOAD", source])),
        1 => Just(words(&["SCRIPT", "EXISTS", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "x"])),
        1 => Just(words(&["EVALSHA", "E0E1F9FABFC9D4800C877A703B823AC0578FF8DB", "0"])),
        1 => Just(words(&["SCRIPT", "FLUSH"])),
        1 => one_of(&["FLUSHALL", "PING", "GET", "TIME", "INFO", "ZPOPMAX", "HMGET", "HGETALL", "HDEL"]).prop_map(|name| words(&[name])),
        1 => Just(words(&["CONFIG", "GET", "appendfsync"])),
        1 => one_of(&["0", "99", "x"]).prop_map(|database| words(&["SELECT", database])),
        1 => Just(words(&["CLIENT", "SETINFO", "LIB-NAME", "redis-rs"])),
        1 => Just(words(&["AUTH", "secret"])),
        1 => one_of(&["2", "3", "4", "x"]).prop_map(|protocol| words(&["HELLO", protocol])),
    ]
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let outlast = Just(Step { action: Action::Command(words(&["PING"])), pause: Some(Pause::Reservations) });
    prop_oneof![
        60 => call().prop_map(Step::call),
        6 => look().prop_map(Step::call),
        6 => evict().prop_map(Step::call),
        4 => write().prop_map(Step::call),
        2 => Just(Step::call(first_record())),
        1 => Just(Step::call(read_fences())),
        8 => snippet().prop_map(Step::command),
        7 => ttl_command(),
        8 => queue_command(),
        10 => disturbance().prop_map(Step::command),
        10 => command().prop_map(Step::command),
        1 => outlast,
    ]
}

/// Beginnings that lead to more than refusals: a node that votes, with or without a holder, and with a queue.
pub(crate) fn beginning() -> impl Strategy<Value = Vec<Step>> {
    let votes = vec![Step::call(first_record())];
    let [held, wait_b, wait_a] = [(2, 1, None), (1, 2, Some(3)), (0, 2, Some(3))]
        .map(|(waiter, owner, since)| Step::call(held_lock(waiter, owner, since)));
    let held = [&votes[..], &[held]].concat();
    prop_oneof![
        1 => Just(Vec::new()),
        3 => Just(votes),
        3 => Just(held.clone()),
        3 => Just([&held[..], &[wait_b, wait_a]].concat()),
    ]
}
