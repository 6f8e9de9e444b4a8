//! Random commands: calls of the scripts as the engine makes them, whatever is stored in the keys, and commands, right and wrong,
//! that store it.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use lock_core::node::{Keyspace, LockKeys};
use lock_sim::redis::SCRIPTS;
use proptest::prelude::*;

/// The scripts: that of the ballots, and the one that establishes.
static HASHES: LazyLock<[String; 2]> =
    LazyLock::new(|| SCRIPTS.map(|script| redis::Script::new(script).get_hash().to_owned()));

/// What a node has of a lock.
pub(crate) struct Lock {
    pub(crate) lock: String,
    pub(crate) queue: String,
    turn: String,
    /// The field of the node's record.
    pub(crate) fence: String,
}

/// Three locks with fences of their own, and one that shares the fence of the first.
pub(crate) static LOCKS: LazyLock<[Lock; 4]> = LazyLock::new(|| {
    let fence = |lock: &str| LockKeys::new(&Arc::new(Keyspace::new("")), lock).fence();
    let shares = |lock: &String| fence(lock) == fence("lock:r");
    let neighbour = (0..).map(|number| format!("lock:t{number}")).find(shares).unwrap();
    ["lock:r", "lock:s", "lock:u", &neighbour].map(|lock| Lock {
        lock: lock.to_owned(),
        queue: format!("{{{lock}}}:queue"),
        turn: format!("{{{lock}}}:turn"),
        fence: fence(lock).to_string(),
    })
});
/// Those that may be in one call: each fence once.
const TOGETHER: [&[usize]; 9] = [&[0], &[0], &[0], &[0], &[0, 1], &[1, 0], &[0, 1, 2], &[3], &[1, 3]];

pub(crate) const META: &str = "lock:{node}";
const QUARANTINE: &str = "lock:{node}:quarantine";
const QUEUED: &str = "lock:{node}:queued";
/// Where the calls are left for those who wait.
pub(crate) const CALLS: [&str; 3] = ["lock:{node}:calls:aa", "lock:{node}:calls:bb", "lock:{node}:calls:cc"];
const WAITERS: [&str; 3] = ["aa", "bb", "cc"];

/// A command, and how long is to pass after it.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) words: Vec<String>,
    pub(crate) pause: Option<Pause>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Pause {
    /// What was set to live shortly has ended.
    Soon,
    /// All turns have ended.
    Turns,
}

/// Lives that end before the pause does.
const SOON: [&str; 2] = ["1", "20"];
pub(crate) const PAUSE: Duration = Duration::from_millis(30);

impl Step {
    fn new(words: Vec<String>) -> Self {
        Self { words, pause: None }
    }

    fn with_life(words: Vec<String>, life: &str) -> Self {
        Self { words, pause: SOON.contains(&life).then_some(Pause::Soon) }
    }
}

pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

fn one_of(words: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(words)
}

fn key() -> impl Strategy<Value = &'static str> {
    let Lock { lock, queue, turn, .. } = &LOCKS[0];
    let one_each = [queue, turn, META, QUARANTINE, QUEUED, CALLS[0], CALLS[1]];
    prop::sample::select([&[lock.as_str(); 4][..], &one_each].concat())
}

fn epoch() -> impl Strategy<Value = &'static str> {
    prop_oneof![26 => Just("e1"), 3 => one_of(&["e2", ""])]
}

fn owner() -> impl Strategy<Value = &'static str> {
    one_of(&["a", "a", "b"])
}

/// A time to live, right or wrong.
fn life() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        20 => one_of(&["60000", "90000", "90000"]),
        3 => one_of(&["20", "1", "0", "-5", "x", "1.5"]),
    ]
}

/// What a key may hold, with or without a meaning there.
fn text() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        8 => one_of(&["0", "1", "5", "7", "100", "1700000000000000"]),
        2 => one_of(&["9007199254740990", "9007199254740991", "9007199254740992", "-1", "x", "", "1e3", "2.5"]),
    ]
}

/// A ballot on one of the locks.
#[derive(Clone, Debug)]
struct Ballot {
    kind: Kind,
    words: Vec<&'static str>,
    /// How long what it sets may live.
    life: &'static str,
    /// What becomes of its caller's place, of one that releases.
    place: &'static str,
}

/// In the order in which the script takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Release,
    Acquire,
    Other,
}

/// The ballots on one lock: one, or a pair.
fn ballots(lock: usize) -> impl Strategy<Value = (usize, Vec<Ballot>)> {
    let fence = LOCKS[lock].fence.as_str();
    let life = prop_oneof![20 => one_of(&["60000", "90000", "90000"]), 3 => one_of(&["20", "1", "0"])];
    let number = prop_oneof![
        8 => one_of(&["0", "1", "5", "7", "100", "1700000000000000"]),
        1 => one_of(&["9007199254740990", "9007199254740991", "9007199254740992"]),
    ];
    let since = one_of(&["1", "2", "3", "1700000000000000"]);
    let place = one_of(&["keep", "keep", "keep", "leave", "leave", ""]);
    let ballots = (0..15, [owner(), owner()], life, number, since, place);
    ballots.prop_map(move |(kind, [owner, other], life, number, since, place)| {
        let release = Ballot { kind: Kind::Release, words: vec![owner, since], life: "", place };
        let acquire = |owner, since| Ballot { kind: Kind::Acquire, words: vec![owner, number, since], life, place: "" };
        let other = match kind {
            0 | 1 => return (lock, vec![acquire(owner, "0")]),
            2..=4 => return (lock, vec![acquire(owner, since)]),
            5..=7 => return (lock, vec![release]),
            8 => return (lock, vec![release, acquire(other, "0")]),
            9 | 10 => return (lock, vec![release, acquire(other, since)]),
            11 => vec!["C", owner, number, fence],
            12 => vec!["E", owner, life],
            13 => vec!["L"],
            _ => vec!["P", owner, life, number, fence],
        };
        (lock, vec![Ballot { kind: Kind::Other, words: other, life, place: "" }])
    })
}

/// The words of a call of the script. What is told once is that of the first that releases or acquires.
fn votes(
    by_source: bool,
    epoch: &str,
    waiter: &str,
    tokens: &str,
    mut locks: Vec<(usize, Vec<Ballot>)>,
) -> Vec<String> {
    // Pairs first.
    locks.sort_by_key(|(_, ballots)| 2 - ballots.len());
    let pairs = locks.iter().filter(|(_, ballots)| ballots.len() == 2).count();
    let ballots = locks.iter().flat_map(|(lock, ballots)| ballots.iter().map(|ballot| (&LOCKS[*lock], ballot)));
    let mut ballots: Vec<_> = ballots.collect();
    ballots.sort_by_key(|(_, ballot)| ballot.kind);
    let of = |kind| ballots.iter().filter(move |(_, ballot)| ballot.kind == kind);
    let counts = [pairs, of(Kind::Release).count(), of(Kind::Acquire).count()].map(|count| count.to_string());

    let mut keys = vec![META, QUARANTINE, QUEUED];
    keys.extend(ballots.iter().map(|(lock, _)| lock.lock.as_str()));
    let mut arguments = vec![epoch, waiter];
    arguments.extend(counts.iter().map(String::as_str));
    arguments.extend(of(Kind::Acquire).map(|(lock, _)| lock.fence.as_str()));
    arguments.extend(of(Kind::Release).take(1).map(|(_, ballot)| ballot.place));
    let keeps = of(Kind::Release).next().is_some_and(|(_, ballot)| ballot.place == "keep");
    let told = if keeps { 2 } else { 1 };
    arguments.extend(of(Kind::Release).flat_map(|(_, ballot)| ballot.words.iter().take(told)));
    arguments.extend(of(Kind::Acquire).take(1).flat_map(|(_, ballot)| [ballot.life, tokens]));
    arguments.extend(of(Kind::Acquire).flat_map(|(_, ballot)| &ballot.words));
    arguments.extend(of(Kind::Other).flat_map(|(_, ballot)| &ballot.words));
    call(0, by_source, &keys, &arguments)
}

/// A call of the script with a few ballots, by its hash or its source.
fn call_of_votes() -> impl Strategy<Value = Step> {
    let locks = prop::sample::select(&TOGETHER[..])
        .prop_flat_map(|locks| locks.iter().map(|lock| ballots(*lock)).collect::<Vec<_>>());
    let tokens = one_of(&["1", "2", "16"]);
    (any::<bool>(), epoch(), one_of(&WAITERS), tokens, locks).prop_map(|(by_source, epoch, waiter, tokens, locks)| {
        let soon = locks.iter().flat_map(|(_, ballots)| ballots).any(|ballot| SOON.contains(&ballot.life));
        Step { words: votes(by_source, epoch, waiter, tokens, locks), pause: soon.then_some(Pause::Soon) }
    })
}

fn establish() -> impl Strategy<Value = Step> {
    (any::<bool>(), any::<bool>(), epoch(), one_of(&["0", "0", "0", "60000", "x"])).prop_map(
        |(by_source, first, epoch, quarantine)| {
            let expected = if first { "" } else { "e1" };
            let arguments = [expected, "run", epoch, "1", "3", "1000", "", quarantine];
            Step::new(call(1, by_source, &[META, QUARANTINE], &arguments))
        },
    )
}

fn call(script: usize, by_source: bool, keys: &[&str], arguments: &[&str]) -> Vec<String> {
    let (name, which) = if by_source { ("EVAL", SCRIPTS[script]) } else { ("EVALSHA", HASHES[script].as_str()) };
    let count = keys.len().to_string();
    words(&[&[name, which, count.as_str()], keys, arguments].concat())
}

/// A command that sets how long a key lives.
fn life_command() -> impl Strategy<Value = Step> {
    let set = (key(), text(), one_of(&["", "NX", "XX"]), life()).prop_map(|(key, value, only_if, life)| {
        let only_if = if only_if.is_empty() { vec![] } else { vec![only_if] };
        Step::with_life(words(&[&["SET", key, value][..], &only_if, &["PX", life]].concat()), life)
    });
    let expire = (key(), life()).prop_map(|(key, life)| Step::with_life(words(&["PEXPIRE", key, life]), life));
    prop_oneof![2 => set, 1 => expire]
}

/// Commands on lists, some of them on what is none. None that is blocked for long.
fn list_command() -> impl Strategy<Value = Step> {
    let list = || prop_oneof![8 => one_of(&CALLS), 1 => Just(LOCKS[0].lock.as_str())];
    let place = || one_of(&["0", "1", "-1", "-2", "5", "-9"]);
    let command = prop_oneof![
        2 => (list(), one_of(&["Tx", "Sx"])).prop_map(|(list, element)| words(&["RPUSH", list, element])),
        1 => list().prop_map(|list| words(&["RPUSH", list, "T1", "S2"])),
        1 => list().prop_map(|list| words(&["LPOP", list])),
        2 => (list(), one_of(&["64", "1", "0", "-1", "x"])).prop_map(|(list, most)| words(&["LPOP", list, most])),
        2 => (list(), place(), place()).prop_map(|(list, from, to)| words(&["LRANGE", list, from, to])),
        1 => list().prop_map(|list| words(&["LLEN", list])),
        2 => (list(), one_of(&["0.005", "-1", "x"])).prop_map(|(list, timeout)| words(&["BLPOP", list, timeout])),
    ];
    command.prop_map(Step::new)
}

/// A command that changes what votes go by, into what a node may have and what it should not.
fn disturbance() -> impl Strategy<Value = Vec<String>> {
    let Lock { lock, queue, turn, fence } = &LOCKS[0];
    let queues = prop_oneof![
        3 => one_of(&["1 aa", "1 aa 2 bb", "2 bb 2 cc 3 aa", "x 1  aa 2 b 9 zz 3 4 cc", ""]),
        1 => text(),
    ];
    prop_oneof![
        2 => (key(), text()).prop_map(|(key, value)| words(&["SET", key, value])),
        3 => queues.prop_map(move |line| words(&["SET", queue, line])),
        2 => one_of(&WAITERS).prop_map(move |waiter| words(&["SET", turn, waiter])),
        3 => one_of(&["*", "\nlock:r\nlock:s\n", "\nlock:u\n", "lock:r\n"])
            .prop_map(|list| words(&["SET", QUEUED, list])),
        1 => Just(words(&["DEL", QUEUED])),
        1 => Just(words(&["DEL", QUARANTINE])),
        2 => text().prop_map(move |number| words(&["HSET", META, fence, number])),
        1 => Just(words(&["HSET", META, fence, "x"])),
        1 => key().prop_map(|key| words(&["HSET", key, "epoch", "e1", "run_id", "run"])),
        1 => Just(words(&["HSET", lock, "epoch", "e1"])),
        2 => Just(words(&["HSET", META, "epoch", "e1", "run_id", "run"])),
    ]
}

/// Any other command.
fn command() -> impl Strategy<Value = Vec<String>> {
    let names = one_of(&["GET", "DEL", "EXISTS", "PTTL"]);
    let Lock { lock, queue, turn, fence } = &LOCKS[0];
    prop_oneof![
        6 => (names, key()).prop_map(|(name, key)| words(&[name, key])),
        2 => Just(words(&["MGET", lock, queue, turn, META])),
        1 => key().prop_map(|key| words(&["HGET", key, "epoch"])),
        2 => key().prop_map(move |key| words(&["HMGET", key, "epoch", fence])),
        2 => Just(words(&["HMGET", META, fence, "epoch", "set_name", fence])),
        1 => (0..2usize).prop_map(|script| words(&["SCRIPT", "LOAD", SCRIPTS[script]])),
        1 => (0..2usize).prop_map(|script| words(&["SCRIPT", "EXISTS", &HASHES[script]])),
        1 => Just(words(&["SCRIPT", "FLUSH"])),
        1 => one_of(&["FLUSHALL", "PING", "GET", "TIME", "INFO", "LPOP", "HMGET"]).prop_map(|name| words(&[name])),
        1 => Just(words(&["CONFIG", "GET", "appendfsync"])),
        1 => one_of(&["0", "99", "x"]).prop_map(|database| words(&["SELECT", database])),
        1 => Just(words(&["CLIENT", "SETINFO", "LIB-NAME", "redis-rs"])),
        1 => Just(words(&["AUTH", "secret"])),
        1 => one_of(&["2", "3", "4", "x"]).prop_map(|protocol| words(&["HELLO", protocol])),
    ]
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let outlast = Just(Step { words: words(&["PING"]), pause: Some(Pause::Turns) });
    prop_oneof![
        60 => call_of_votes(),
        3 => establish(),
        7 => life_command(),
        7 => list_command(),
        10 => disturbance().prop_map(Step::new),
        10 => command().prop_map(Step::new),
        1 => outlast,
    ]
}

/// Beginnings from which more than refusals are seen: a node that was established, with or without a holder, and a queue.
pub(crate) fn beginning() -> impl Strategy<Value = Vec<Step>> {
    let establish = ["", "run", "e1", "1", "3", "1000", "", "0"];
    let establish = Step::new(call(1, true, &[META, QUARANTINE], &establish));
    let acquire = |waiter, owner, since| {
        let acquire = Ballot { kind: Kind::Acquire, words: vec![owner, "5", since], life: "60000", place: "" };
        Step::new(votes(true, "e1", waiter, "1", vec![(0, vec![acquire])]))
    };
    let wait = ["bb", "aa"].map(|waiter| acquire(waiter, "b", "3"));
    let load = SCRIPTS.map(|script| Step::new(words(&["SCRIPT", "LOAD", script])));
    let held = [&load[..], &[establish.clone(), acquire("cc", "a", "0")]].concat();
    prop_oneof![
        1 => Just(Vec::new()),
        3 => Just([&load[..], &[establish]].concat()),
        3 => Just(held.clone()),
        3 => Just([&held[..], &wait].concat()),
    ]
}
