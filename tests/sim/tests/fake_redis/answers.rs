//! What the replies of the two servers must have in common, and how many there were of each kind.

use std::collections::BTreeMap;
use std::time::Duration;

use lock_core::node::RESERVATION_TTL;
use redis::{RedisResult, Value};

/// How far two times to live, in milliseconds, may be apart on a busy machine.
const TOLERANCE: i64 = 5_000;
/// Larger numbers than this may be times, in microseconds.
const LONG_AGO: u64 = 1_600_000_000_000_000;

/// Compares two replies. `Err` names the difference.
pub(crate) fn compare(words: &[String], real: &RedisResult<Value>, fake: &RedisResult<Value>) -> Result<(), String> {
    let same = match (words[0].as_str(), real, fake) {
        // Newer servers accept it, and redis-rs works either way.
        ("CLIENT", ..) => true,
        // Errors are compared by their code: the text changes with the version.
        (_, Err(real), Err(fake)) => real.code() == fake.code() && real.kind() == fake.kind(),
        ("TIME", Ok(_), Ok(fake)) => redis::from_redis_value_ref::<(u64, u64)>(fake).is_ok(),
        ("PTTL", Ok(Value::Int(real)), Ok(Value::Int(fake))) => real == fake || near(*real, *fake),
        ("HGETALL", Ok(real), Ok(fake)) => same_fields(&fields(real), &fields(fake)),
        ("INFO", Ok(real), Ok(fake)) => facts(real) == facts(fake),
        ("HELLO", Ok(real), Ok(fake)) => hello(real) == hello(fake),
        ("EVAL" | "EVALSHA", Ok(real), Ok(fake)) => alike(real, fake),
        (_, Ok(real), Ok(fake)) => real == fake,
        _ => false,
    };
    if same { Ok(()) } else { Err(format!("{words:?}: the real server replies {real:?}, the simulated one {fake:?}")) }
}

/// Whether two replies of scripts are the same. For how long a lock is held, and the time, may differ a little.
fn alike(real: &Value, fake: &Value) -> bool {
    let (real, fake) = match (real, fake) {
        (Value::BulkString(real), Value::BulkString(fake)) => (real, fake),
        // The reply to a write of the record.
        (Value::Array(real), Value::Array(fake)) if real.len() == 3 => {
            let text = |value: &Value| redis::from_redis_value_ref::<String>(value).unwrap_or_default();
            return fake.len() == 3
                && (0..3).all(|at| real[at] == fake[at] || same_text(&text(&real[at]), &text(&fake[at])));
        }
        _ => return real == fake,
    };
    let [real, fake] = [real, fake].map(|text| std::str::from_utf8(text).unwrap().split('\n').collect::<Vec<_>>());
    let same = |at: usize| {
        let time = |line: &str| line.strip_prefix(real[at].get(..1)?)?.parse().ok();
        match (time(real[at]), time(fake[at])) {
            (Some(one), Some(other)) if real[at].starts_with('H') => one == other || near(one, other),
            _ => real[at] == fake[at],
        }
    };
    real.len() == fake.len() && (0..real.len()).all(same)
}

/// Whether two texts are the same but for the times in them, which may differ a little.
fn same_text(real: &str, fake: &str) -> bool {
    let words = |text: &str| text.split(['-', ' ']).map(ToOwned::to_owned).collect::<Vec<_>>();
    let (real, fake) = (words(real), words(fake));
    let same = |(real, fake): (&String, &String)| {
        let times = [real, fake].map(|word| word.parse().ok().filter(|number: &u64| *number > LONG_AGO));
        real == fake
            || matches!(times, [Some(real), Some(fake)] if real.abs_diff(fake) < TOLERANCE.unsigned_abs() * 1000)
    };
    real.len() == fake.len() && real.iter().zip(&fake).all(same)
}

/// Whether two hashes have the same fields, but for the times in them.
fn same_fields(real: &BTreeMap<String, String>, fake: &BTreeMap<String, String>) -> bool {
    let same = |(real, fake): ((&String, &String), (&String, &String))| {
        real.0 == fake.0 && (real.1 == fake.1 || real.0.parse::<u64>().is_err() && same_text(real.1, fake.1))
    };
    real.len() == fake.len() && real.iter().zip(fake).all(same)
}

/// Whether two times to live, both of a lock or both of a reservation, are near each other.
fn near(real: i64, fake: i64) -> bool {
    let reservation = 10..=millis(RESERVATION_TTL);
    let both = |real_one: &dyn Fn(&i64) -> bool| real_one(&real) && real_one(&fake);
    both(&|time| reservation.contains(time)) || (both(&|time| *time > 1_000) && (real - fake).abs() < TOLERANCE)
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap()
}

/// The fields of `INFO` that are compared.
fn facts(info: &Value) -> Vec<Option<String>> {
    let info: String = redis::from_redis_value_ref(info).unwrap();
    let fields: BTreeMap<&str, &str> = info.lines().filter_map(|line| line.split_once(':')).collect();
    ["role", "maxmemory_policy", "aof_enabled"].map(|name| fields.get(name).map(ToString::to_string)).into()
}

/// The fields of a hash, which a server lists in any order.
fn fields(answer: &Value) -> BTreeMap<String, String> {
    redis::from_redis_value_ref(answer).unwrap()
}

/// The reply to `HELLO`, without the id of the connection and the version of the server.
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

/// The kinds of the replies to a call of the engine: one for each request.
pub(crate) fn call_kinds(answer: &RedisResult<Value>) -> Vec<String> {
    let Ok(Value::BulkString(text)) = answer else { return vec![plain_kind(answer)] };
    let text = std::str::from_utf8(text).unwrap();
    let kind = |line: &str| match line.split_at_checked(1) {
        Some(("E", error)) => {
            // Errors of the server begin with a code.
            let code = error.split(' ').next().filter(|word| *word == word.to_uppercase());
            format!("failed: {}", code.unwrap_or(error))
        }
        Some((digit, _)) if digit.parse::<u8>().is_ok() => "a number".to_owned(),
        Some((letter, _)) => letter.to_owned(),
        None => "nothing at all".to_owned(),
    };
    text.split('\n').map(kind).collect()
}

/// The kind of the reply to any other command.
pub(crate) fn command_kind(words: &[String], answer: &RedisResult<Value>) -> String {
    match (words[0].as_str(), answer) {
        ("EVAL", Ok(_)) => "snippet: a value".to_owned(),
        ("EVAL", Err(_)) => format!("snippet: {}", plain_kind(answer)),
        _ => plain_kind(answer),
    }
}

fn plain_kind(answer: &RedisResult<Value>) -> String {
    match answer {
        Ok(Value::Array(items)) => {
            let first = items.first().and_then(|first| redis::from_redis_value_ref::<String>(first).ok());
            first.unwrap_or_else(|| "nothing".to_owned())
        }
        Ok(_) => "plain".to_owned(),
        Err(error) => error.code().map_or_else(|| format!("{:?}", error.kind()), ToOwned::to_owned),
    }
}
