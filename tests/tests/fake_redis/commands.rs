//! Random commands: those that the engine sends, with their arguments right and wrong, and those that disturb them.

use std::sync::LazyLock;
use std::time::Duration;

use proptest::prelude::*;

macro_rules! source {
    ($($name:literal),+) => {
        concat!($(include_str!(concat!("../../../lock-core/src/node/redis/scripts/", $name, ".lua"))),+)
    };
}

/// The scripts: that of the ballots, and the one that establishes.
const SCRIPTS: [&str; 2] = [
    source!("begin", "queue", "confirm", "extend", "replace", "end_of_rest", "acquire", "release", "ballots"),
    source!("establish"),
];
static HASHES: LazyLock<[String; 2]> =
    LazyLock::new(|| SCRIPTS.map(|script| redis::Script::new(script).get_hash().to_owned()));

/// The keys of two locks and of their node.
const LOCKS: [[&str; 4]; 2] = [
    ["lock:r", "{lock:r}:fence", "{lock:r}:queue", "{lock:r}:turn"],
    ["lock:s", "{lock:s}:fence", "{lock:s}:queue", "{lock:s}:turn"],
];
const META: &str = "lock:{node}";
const QUARANTINE: &str = "lock:{node}:quarantine";
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
    let [lock, fence, queue, turn] = LOCKS[0];
    prop::sample::select(vec![lock, lock, lock, lock, fence, fence, queue, turn, META, QUARANTINE, CALLS[0], CALLS[1]])
}

fn epoch() -> impl Strategy<Value = &'static str> {
    one_of(&["e1", "e1", "e1", "e1", "e1", "e1", "e1", "e1", "e1", "e1", "e1", "e1", "e1", "e2", ""])
}

fn owner() -> impl Strategy<Value = &'static str> {
    one_of(&["a", "a", "b"])
}

fn life() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        20 => one_of(&["60000", "90000", "90000"]),
        3 => one_of(&["20", "1", "0", "-5", "x", "1.5"]),
    ]
}

fn number() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        8 => one_of(&["0", "1", "5", "7", "100", "1700000000000000"]),
        2 => one_of(&["9007199254740990", "9007199254740991", "9007199254740992", "-1", "x", "", "1e3", "2.5"]),
    ]
}

fn retention() -> impl Strategy<Value = &'static str> {
    prop_oneof![20 => Just("604800000"), 1 => one_of(&["0", "x", ""])]
}

fn since() -> impl Strategy<Value = &'static str> {
    prop_oneof![20 => one_of(&["1", "2", "3", "1700000000000000"]), 1 => one_of(&["x", "", "2.5", "-1"])]
}

/// A ballot: its words, and how long what it sets may live.
fn ballot() -> impl Strategy<Value = (Vec<&'static str>, &'static str)> {
    let tokens = prop_oneof![12 => one_of(&["1", "2", "16"]), 1 => one_of(&["0", "x"])];
    (0..12, owner(), life(), number(), tokens, since()).prop_map(
        |(kind, owner, life, number, tokens, since)| match kind {
            0 | 1 => (vec!["A", owner, life, number, tokens, "0"], life),
            2..=4 => (vec!["A", owner, life, number, tokens, since], life),
            5 => (vec!["C", owner, number], ""),
            6 => (vec!["E", owner, life], life),
            7 => (vec!["P", owner, life, number], life),
            8 => (vec!["R", owner, ""], ""),
            9 => (vec!["R", owner, "leave"], ""),
            _ => (vec!["R", owner, since], ""),
        },
    )
}

/// The keys of a ballot of this kind.
fn keys_of(kind: &str, [lock, fence, queue, turn]: [&'static str; 4]) -> Vec<&'static str> {
    match kind {
        "A" => vec![lock, fence, queue, turn],
        "E" => vec![lock],
        "R" => vec![lock, queue, turn],
        _ => vec![lock, fence],
    }
}

/// A call of the script with a few ballots, by its hash or its source.
fn ballots() -> impl Strategy<Value = Step> {
    let lock = prop::bool::weighted(0.2);
    let ballots = prop::collection::vec((lock, ballot()), 1..4);
    (any::<bool>(), epoch(), retention(), one_of(&WAITERS), ballots).prop_map(
        |(by_source, epoch, retention, waiter, ballots)| {
            let mut keys = vec![META, QUARANTINE];
            let mut arguments = vec![epoch, retention, waiter];
            let mut soon = false;
            for (lock, (words, life)) in &ballots {
                keys.extend(keys_of(words[0], LOCKS[usize::from(*lock)]));
                arguments.extend(words);
                soon |= SOON.contains(life);
            }
            let mut step = Step::new(call(0, by_source, &keys, &arguments));
            step.pause = soon.then_some(Pause::Soon);
            step
        },
    )
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
    let set = (key(), number(), one_of(&["", "NX", "XX"]), life()).prop_map(|(key, value, only_if, life)| {
        let only_if = if only_if.is_empty() { vec![] } else { vec![only_if] };
        Step::with_life(words(&[&["SET", key, value][..], &only_if, &["PX", life]].concat()), life)
    });
    let expire = (key(), life()).prop_map(|(key, life)| Step::with_life(words(&["PEXPIRE", key, life]), life));
    prop_oneof![2 => set, 1 => expire]
}

/// Commands on lists, some of them on what is none. None that is blocked for long.
fn list_command() -> impl Strategy<Value = Step> {
    let list = || prop_oneof![8 => one_of(&CALLS), 1 => Just(LOCKS[0][0])];
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

/// Any other command.
fn command() -> impl Strategy<Value = Step> {
    let names = one_of(&["GET", "DEL", "EXISTS", "PTTL", "HGETALL"]);
    let on_key = (names, key()).prop_map(|(name, key)| words(&[name, key]));
    let queue = prop_oneof![
        3 => one_of(&["1 aa", "1 aa 2 bb", "2 bb 2 cc 3 aa", "x 1  aa 2 b 9 zz 3 4 cc", ""]),
        1 => number(),
    ];
    let fields = ["epoch", "e1", "run_id", "run"];
    let lock = [&LOCKS[0][..], &[META]].concat();
    let command = prop_oneof![
        6 => on_key,
        2 => (key(), number()).prop_map(|(key, value)| words(&["SET", key, value])),
        2 => queue.prop_map(|queue| words(&["SET", LOCKS[0][2], queue])),
        1 => Just(words(&["SET", LOCKS[0][1], "x"])),
        1 => one_of(&WAITERS).prop_map(|waiter| words(&["SET", LOCKS[0][3], waiter])),
        1 => Just(words(&[&["MGET"][..], &lock].concat())),
        1 => key().prop_map(move |key| words(&[&["HSET", key][..], &fields].concat())),
        2 => Just(words(&[&["HSET", META][..], &fields].concat())),
        1 => key().prop_map(|key| words(&["HGET", key, "epoch"])),
        1 => (0..2usize).prop_map(|script| words(&["SCRIPT", "LOAD", SCRIPTS[script]])),
        1 => (0..2usize).prop_map(|script| words(&["SCRIPT", "EXISTS", &HASHES[script]])),
        1 => Just(words(&["SCRIPT", "FLUSH"])),
        1 => one_of(&["FLUSHALL", "PING", "GET", "TIME", "INFO", "LPOP"]).prop_map(|name| words(&[name])),
        1 => Just(words(&["CONFIG", "GET", "appendfsync"])),
        1 => one_of(&["0", "99", "x"]).prop_map(|database| words(&["SELECT", database])),
        1 => Just(words(&["CLIENT", "SETINFO", "LIB-NAME", "redis-rs"])),
        1 => Just(words(&["AUTH", "secret"])),
        1 => one_of(&["2", "3", "4", "x"]).prop_map(|protocol| words(&["HELLO", protocol])),
    ];
    command.prop_map(Step::new)
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let outlast = Just(Step { words: words(&["PING"]), pause: Some(Pause::Turns) });
    prop_oneof![60 => ballots(), 3 => establish(), 7 => life_command(), 7 => list_command(), 20 => command(), 1 => outlast]
}

/// Beginnings from which more than refusals are seen: a node that was established, with or without a holder, and a queue.
pub(crate) fn beginning() -> impl Strategy<Value = Vec<Step>> {
    let establish = ["", "run", "e1", "1", "3", "1000", "", "0"];
    let establish = Step::new(call(1, true, &[META, QUARANTINE], &establish));
    let keys = [&[META, QUARANTINE], &LOCKS[0][..]].concat();
    let vote = |waiter, arguments: &[&str]| {
        Step::new(call(0, true, &keys, &[&["e1", "604800000", waiter], arguments].concat()))
    };
    let acquire = vote("cc", &["A", "a", "60000", "5", "1", "0"]);
    let wait = ["bb", "aa"].map(|waiter| vote(waiter, &["A", "b", "60000", "5", "1", "3"]));
    let load = SCRIPTS.map(|script| Step::new(words(&["SCRIPT", "LOAD", script])));
    let held = [&load[..], &[establish.clone(), acquire]].concat();
    prop_oneof![
        1 => Just(Vec::new()),
        3 => Just([&load[..], &[establish]].concat()),
        3 => Just(held.clone()),
        3 => Just([&held[..], &wait].concat()),
    ]
}
