//! Random commands: those that the engine sends, with their arguments right and wrong, and those that disturb them.

use std::sync::LazyLock;
use std::time::Duration;

use proptest::prelude::*;

/// The scripts, in the order of [`script`].
const SCRIPTS: [&str; 6] = [
    include_str!("../../../lock-core/src/node/redis/scripts/acquire.lua"),
    include_str!("../../../lock-core/src/node/redis/scripts/confirm.lua"),
    include_str!("../../../lock-core/src/node/redis/scripts/extend.lua"),
    include_str!("../../../lock-core/src/node/redis/scripts/replace.lua"),
    include_str!("../../../lock-core/src/node/redis/scripts/release.lua"),
    include_str!("../../../lock-core/src/node/redis/scripts/establish.lua"),
];
static HASHES: LazyLock<[String; 6]> =
    LazyLock::new(|| SCRIPTS.map(|script| redis::Script::new(script).get_hash().to_owned()));

/// The keys of one lock and of its node.
const LOCK: &str = "lock:r";
const FENCE: &str = "{lock:r}:fence";
const META: &str = "lock:{node}";
const QUARANTINE: &str = "lock:{node}:quarantine";

/// A command, and whether what it sets ends soon: then time is to pass before the next one.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) words: Vec<String>,
    pub(crate) ends_soon: bool,
}

/// Lives that end before the pause does.
const SOON: [&str; 2] = ["1", "20"];
pub(crate) const PAUSE: Duration = Duration::from_millis(30);
impl Step {
    fn new(words: Vec<String>) -> Self {
        Self { words, ends_soon: false }
    }

    fn with_life(words: Vec<String>, life: &str) -> Self {
        Self { words, ends_soon: SOON.contains(&life) }
    }
}

pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

fn one_of(words: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(words)
}

fn key() -> impl Strategy<Value = &'static str> {
    one_of(&[LOCK, LOCK, LOCK, LOCK, FENCE, FENCE, META, QUARANTINE])
}

fn epoch() -> impl Strategy<Value = &'static str> {
    one_of(&["e1", "e1", "e1", "e1", "e1", "e1", "e1", "e2", ""])
}

fn owner() -> impl Strategy<Value = &'static str> {
    one_of(&["a", "a", "b"])
}

fn life() -> impl Strategy<Value = &'static str> {
    one_of(&["60000", "60000", "60000", "90000", "90000", "90000", "90000", "90000", "20", "1", "0", "-5", "x", "1.5"])
}

fn number() -> impl Strategy<Value = &'static str> {
    one_of(&[
        "0",
        "1",
        "5",
        "7",
        "100",
        "1700000000000000",
        "9007199254740990",
        "9007199254740991",
        "9007199254740992",
        "-1",
        "x",
        "",
    ])
}

fn retention() -> impl Strategy<Value = &'static str> {
    one_of(&["604800000", "604800000", "604800000", "604800000", "0", "x"])
}

/// A call of a script, by its hash or its source.
fn script() -> impl Strategy<Value = Step> {
    let arguments = (epoch(), owner(), life(), number(), retention());
    (0..6usize, any::<bool>(), arguments).prop_map(|(script, by_source, (epoch, owner, life, number, retention))| {
        let lock = [LOCK, FENCE, META];
        let (keys, arguments) = match script {
            0 => (vec![LOCK, FENCE, META, QUARANTINE], vec![epoch, owner, life, number, retention]),
            1 => (lock.to_vec(), vec![epoch, owner, number, retention]),
            2 => (lock.to_vec(), vec![epoch, owner, life]),
            3 => (lock.to_vec(), vec![epoch, owner, life, number, retention]),
            4 => (lock.to_vec(), vec![epoch, owner]),
            _ => {
                let expected = if owner == "a" { "" } else { "e1" };
                let quarantine = if life == "60000" { life } else { "0" };
                (vec![META, QUARANTINE], vec![expected, "run", epoch, "1", "3", "1000", "", quarantine])
            }
        };
        let which = if by_source { SCRIPTS[script] } else { &HASHES[script] };
        let count = keys.len().to_string();
        let call = [if by_source { "EVAL" } else { "EVALSHA" }, which, count.as_str()];
        Step::with_life(words(&[&call[..], &keys, &arguments].concat()), life)
    })
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

/// Any other command.
fn command() -> impl Strategy<Value = Step> {
    let on_key =
        (one_of(&["GET", "DEL", "EXISTS", "PTTL", "HGETALL"]), key()).prop_map(|(name, key)| words(&[name, key]));
    let fields = ["epoch", "e1", "run_id", "run"];
    let command = prop_oneof![
        6 => on_key,
        2 => (key(), number()).prop_map(|(key, value)| words(&["SET", key, value])),
        1 => one_of(&[LOCK, META, META, META]).prop_map(move |key| words(&[&["HSET", key][..], &fields].concat())),
        1 => key().prop_map(|key| words(&["HGET", key, "epoch"])),
        1 => (0..6usize).prop_map(|script| words(&["SCRIPT", "LOAD", SCRIPTS[script]])),
        1 => (0..6usize).prop_map(|script| words(&["SCRIPT", "EXISTS", &HASHES[script]])),
        1 => Just(words(&["SCRIPT", "FLUSH"])),
        1 => one_of(&["FLUSHALL", "PING", "GET", "TIME", "INFO"]).prop_map(|name| words(&[name])),
        1 => Just(words(&["CONFIG", "GET", "appendfsync"])),
        1 => one_of(&["0", "99", "x"]).prop_map(|database| words(&["SELECT", database])),
        1 => Just(words(&["CLIENT", "SETINFO", "LIB-NAME", "redis-rs"])),
        1 => Just(words(&["AUTH", "secret"])),
        1 => one_of(&["2", "3", "4", "x"]).prop_map(|protocol| words(&["HELLO", protocol])),
    ];
    command.prop_map(Step::new)
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![6 => script(), 1 => life_command(), 2 => command()]
}

/// Beginnings from which more than refusals are seen: a node that was established, with or without a holder.
pub(crate) fn beginning() -> impl Strategy<Value = Vec<Step>> {
    let establish = ["EVAL", SCRIPTS[5], "2", META, QUARANTINE, "", "run", "e1", "1", "3", "1000", "", "0"];
    let establish = Step::new(words(&establish));
    let acquire = ["EVAL", SCRIPTS[0], "4", LOCK, FENCE, META, QUARANTINE, "e1", "a", "60000", "5", "604800000"];
    let acquire = Step::new(words(&acquire));
    let load = SCRIPTS.map(|script| Step::new(words(&["SCRIPT", "LOAD", script])));
    prop_oneof![
        1 => Just(Vec::new()),
        3 => Just([&load[..], std::slice::from_ref(&establish)].concat()),
        4 => Just([&load[..], &[establish, acquire]].concat()),
    ]
}
