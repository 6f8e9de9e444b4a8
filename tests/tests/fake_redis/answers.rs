//! What answers of the two servers must have in common, and what is counted of them.

use std::collections::BTreeMap;
use std::time::Duration;

use lock_core::TURN_LIFE;
use redis::{RedisResult, Value};

/// How far two times to live may be apart, on a machine with much else to do.
const TOLERANCE: i64 = 5_000;

/// What two answers must have in common. `Err` names what differs.
pub(crate) fn compare(words: &[String], real: &RedisResult<Value>, fake: &RedisResult<Value>) -> Result<(), String> {
    let same = match (words[0].as_str(), real, fake) {
        // Newer servers take it, and redis-rs does not mind either way.
        ("CLIENT", ..) => true,
        // Errors are told apart by their code; the words change with the version.
        (_, Err(real), Err(fake)) => real.code() == fake.code() && real.kind() == fake.kind(),
        ("TIME", Ok(_), Ok(fake)) => redis::from_redis_value_ref::<(u64, u64)>(fake).is_ok(),
        ("PTTL", Ok(Value::Int(real)), Ok(Value::Int(fake))) => real == fake || near(*real, *fake),
        ("INFO", Ok(real), Ok(fake)) => facts(real) == facts(fake),
        ("HELLO", Ok(real), Ok(fake)) => hello(real) == hello(fake),
        (_, Ok(real), Ok(fake)) => alike(real, fake),
        _ => false,
    };
    if same { Ok(()) } else { Err(format!("{words:?}: the real server answers {real:?}, the fake {fake:?}")) }
}

/// The same answers to ballots, but for how long something is held or kept, or a quarantine lasts: what follows these codes.
/// Each element by itself, for where a fencing number is none, its place is missing, and codes and numbers change theirs.
fn alike(real: &Value, fake: &Value) -> bool {
    let (Value::Array(real), Value::Array(fake)) = (real, fake) else { return real == fake };
    let same = |at: usize| match (&real[at], &fake[at]) {
        (Value::Int(one), Value::Int(other)) if at > 0 && matches!(real[at - 1], Value::Int(2 | 3)) => {
            one == other || near(*one, *other)
        }
        (one, other) => one == other,
    };
    real.len() == fake.len() && (0..real.len()).all(same)
}

/// Two times to live, of a lock or of a turn: too large for a code.
fn near(real: i64, fake: i64) -> bool {
    let turn = 10..=millis(TURN_LIFE);
    let both = |real_one: &dyn Fn(&i64) -> bool| real_one(&real) && real_one(&fake);
    both(&|time| turn.contains(time)) || (both(&|time| *time > 1_000) && (real - fake).abs() < TOLERANCE)
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap()
}

/// What is read of `INFO`.
fn facts(info: &Value) -> Vec<Option<String>> {
    let info: String = redis::from_redis_value_ref(info).unwrap();
    let fields: BTreeMap<&str, &str> = info.lines().filter_map(|line| line.split_once(':')).collect();
    ["role", "maxmemory_policy", "aof_enabled"].map(|name| fields.get(name).map(ToString::to_string)).into()
}

/// What `HELLO` tells, but for the number of the connection, and the version of the server.
fn hello(answer: &Value) -> BTreeMap<String, String> {
    let pairs: Vec<(Value, Value)> = match answer {
        Value::Map(pairs) => pairs.clone(),
        Value::Array(items) => items.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect(),
        other => panic!("{other:?}"),
    };
    let text = |value: &Value| format!("{value:?}");
    pairs
        .iter()
        .map(|(name, value)| (text(name), text(value)))
        .filter(|(name, _)| !name.contains("id") && !name.contains("version"))
        .collect()
}

/// Counts what an answer tells: of one to ballots, each code.
pub(crate) fn answer_kinds(answer: &RedisResult<Value>, kinds: &mut BTreeMap<String, u64>) {
    let mut count = |kind: String| *kinds.entry(kind).or_default() += 1;
    match answer {
        Ok(Value::Array(items)) => match items.as_slice() {
            [Value::Int(0)] => count("unadmitted".to_owned()),
            [Value::Int(_), _, ..] => {
                for answer in items.chunks(2) {
                    match answer {
                        [Value::Int(-1), Value::BulkString(error)] => {
                            let error = String::from_utf8_lossy(error);
                            let first = error.split([' ', ':']).next().unwrap_or_default();
                            count(format!("failed: {first}"));
                        }
                        [Value::Int(code), _] => count(format!("code {code}")),
                        _ => count("half an answer".to_owned()),
                    }
                }
            }
            [first, ..] => count(redis::from_redis_value_ref(first).unwrap_or_default()),
            [] => count("nothing".to_owned()),
        },
        Ok(_) => count("plain".to_owned()),
        Err(error) => count(error.code().map_or_else(|| format!("{:?}", error.kind()), ToOwned::to_owned)),
    }
}
