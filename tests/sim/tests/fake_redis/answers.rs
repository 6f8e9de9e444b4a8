//! What answers of the two servers must have in common, and what is counted of them.

use std::collections::BTreeMap;
use std::time::Duration;

use lock_core::node::RESERVATION_TTL;
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
        ("EVAL" | "EVALSHA", Ok(real), Ok(fake)) => alike(real, fake),
        (_, Ok(real), Ok(fake)) => real == fake,
        _ => false,
    };
    if same { Ok(()) } else { Err(format!("{words:?}: the real server answers {real:?}, the fake {fake:?}")) }
}

/// The same answers to ballots, but for how long something is held or kept, or a quarantine lasts.
fn alike(real: &Value, fake: &Value) -> bool {
    let (Value::BulkString(real), Value::BulkString(fake)) = (real, fake) else { return real == fake };
    let [real, fake] = [real, fake].map(|text| std::str::from_utf8(text).unwrap().split('\n').collect::<Vec<_>>());
    let same = |at: usize| {
        let time = |line: &str| line.strip_prefix(&real[at][..1])?.parse().ok();
        match (time(real[at]), time(fake[at])) {
            (Some(one), Some(other)) if real[at].starts_with(['H', 'Q']) => one == other || near(one, other),
            _ => real[at] == fake[at],
        }
    };
    real.len() == fake.len() && (0..real.len()).all(same)
}

/// Two times to live, of a lock or of a turn: too large for a code.
fn near(real: i64, fake: i64) -> bool {
    let turn = 10..=millis(RESERVATION_TTL);
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
pub(crate) fn answer_kinds(words: &[String], answer: &RedisResult<Value>, kinds: &mut BTreeMap<String, u64>) {
    let mut count = |kind: &str| *kinds.entry(kind.to_owned()).or_default() += 1;
    match answer {
        Ok(Value::BulkString(text)) if words[0].starts_with("EVAL") => {
            let text = std::str::from_utf8(text).unwrap();
            for line in text.split('\n') {
                match line.split_at_checked(1) {
                    Some(("E", error)) => {
                        // The server's own have a code before them.
                        let code = error.split(' ').next().filter(|word| *word == word.to_uppercase());
                        count(&format!("failed: {}", code.unwrap_or(error)));
                    }
                    Some((digit, _)) if digit.parse::<u8>().is_ok() => count("a number"),
                    Some((letter, _)) => count(letter),
                    None => count("nothing at all"),
                }
            }
        }
        Ok(Value::Array(items)) => {
            let first = items.first().and_then(|first| redis::from_redis_value_ref::<String>(first).ok());
            count(first.as_deref().unwrap_or("nothing"));
        }
        Ok(_) => count("plain"),
        Err(error) => count(&error.code().map_or_else(|| format!("{:?}", error.kind()), ToOwned::to_owned)),
    }
}
