//! What the replies of the two servers must have in common, and how many there were of each kind.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use lock_core::node::RESERVATION_TTL;
use redis::{RedisResult, Value};

/// How far two times, in milliseconds, may be apart on a busy machine.
const TOLERANCE: i64 = 5_000;
/// Numbers in these ranges may be times, in microseconds and in milliseconds.
const MICROS: Range<u64> = 1_600_000_000_000_000..1 << 53;
const MILLIS: Range<u64> = 1_600_000_000_000..9_000_000_000_000;
/// The most waiters for whom a free key is reserved.
const MAX_RESERVATIONS: u32 = 9;

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
        // The reply to a write of the record, or the fields of one.
        (Value::Array(real), Value::Array(fake)) => {
            let text = |value: &Value| redis::from_redis_value_ref::<String>(value).unwrap_or_default();
            let same = |(real, fake): (&Value, &Value)| match (real, fake) {
                (Value::Array(real), Value::Array(fake)) => same_state(real, fake),
                _ => real == fake || same_text(&text(real), &text(fake)),
            };
            return real.len() == fake.len() && real.iter().zip(fake).all(same);
        }
        _ => return real == fake,
    };
    let [real, fake] = [real, fake].map(|text| std::str::from_utf8(text).unwrap().split('\n').collect::<Vec<_>>());
    let same = |at: usize| match (held(real[at]), held(fake[at])) {
        (Some((one, as_one)), Some((other, as_other))) => as_one == as_other && (one == other || near(one, other)),
        _ => real[at] == fake[at],
    };
    real.len() == fake.len() && (0..real.len()).all(same)
}

/// Whether two states of a lock, as `look.lua` replies with them, are the same but for remaining times.
fn same_state(real: &[Value], fake: &[Value]) -> bool {
    let same = |(real, fake): (&Value, &Value)| match (real, fake) {
        (Value::Int(one), Value::Int(other)) => {
            // What is no time is below 20.
            let is_soon = *one.min(other) > 20 && one.abs_diff(*other) < 20;
            one == other || is_soon || *one > 1_000 && near(*one, *other)
        }
        (Value::Array(real), Value::Array(fake)) => same_readers(real, fake),
        _ => real == fake,
    };
    real.len() == fake.len() && real.iter().zip(fake).all(same)
}

/// Whether two lists of readers, each with its remaining time, are the same but for these times. They are in the order of the times,
/// which differs with them, and those that are about to expire may have expired on one of the two.
fn same_readers(real: &[Value], fake: &[Value]) -> bool {
    let readers = |list: &[Value]| {
        let pair = |pair: &[Value]| {
            let owner = redis::from_redis_value_ref::<String>(&pair[0]).ok()?;
            let remaining = redis::from_redis_value_ref::<i64>(pair.get(1)?).ok()?;
            (remaining > 1_000).then_some((owner, remaining))
        };
        list.chunks(2).filter_map(pair).collect::<BTreeMap<_, _>>()
    };
    let (real, fake) = (readers(real), readers(fake));
    let same = |(real, fake): ((&String, &i64), (&String, &i64))| real.0 == fake.0 && near(*real.1, *fake.1);
    real.len() == fake.len() && real.iter().zip(&fake).all(same)
}

/// For how long a lock is held or kept, and all else that the line says: by whom, and the caller's position.
fn held(line: &str) -> Option<(i64, (&str, &str))> {
    let (letter, detail) = line.split_at_checked(1).filter(|(letter, _)| matches!(*letter, "H" | "A" | "S"))?;
    let (remaining, position) = detail.split_once(' ').unwrap_or((detail, ""));
    Some((remaining.parse().ok()?, (letter, position)))
}

/// Whether two texts are the same but for the times in them, which may differ a little.
fn same_text(real: &str, fake: &str) -> bool {
    let words = |text: &str| text.split(['-', ' ']).map(ToOwned::to_owned).collect::<Vec<_>>();
    let (real, fake) = (words(real), words(fake));
    let same = |(real, fake): (&String, &String)| real == fake || same_time(real, fake);
    real.len() == fake.len() && real.iter().zip(&fake).all(same)
}

/// Whether two texts are times that differ only a little.
fn same_time(real: &str, fake: &str) -> bool {
    let [Ok(real), Ok(fake)] = [real, fake].map(str::parse::<u64>) else { return false };
    [(MICROS, TOLERANCE * 1000), (MILLIS, TOLERANCE)].into_iter().any(|(range, tolerance)| {
        range.contains(&real) && range.contains(&fake) && real.abs_diff(fake) < tolerance.unsigned_abs()
    })
}

/// Which values of a list are times in milliseconds.
pub(crate) fn times(answer: &RedisResult<Value>) -> Vec<usize> {
    let Ok(Value::Array(values)) = answer else { return Vec::new() };
    let is_time = |value: &Value| redis::from_redis_value_ref(value).is_ok_and(|number: u64| MILLIS.contains(&number));
    (0..values.len()).filter(|at| is_time(&values[*at])).collect()
}

/// Whether two hashes have the same fields, but for the times in them.
fn same_fields(real: &BTreeMap<String, String>, fake: &BTreeMap<String, String>) -> bool {
    let same = |(real, fake): ((&String, &String), (&String, &String))| {
        // A fence is not a time.
        let may_differ = real.0.parse::<u64>().is_err();
        real.0 == fake.0 && (real.1 == fake.1 || may_differ && same_text(real.1, fake.1))
    };
    real.len() == fake.len() && real.iter().zip(fake).all(same)
}

/// Whether two times to live, both of a lock or both of reservations, are near each other.
fn near(real: i64, fake: i64) -> bool {
    let reservation = 1..=millis(RESERVATION_TTL * MAX_RESERVATIONS);
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
        Some((letter, detail)) if detail.contains(' ') => format!("{letter} with a position"),
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
        Ok(Value::Array(items)) if matches!(items[..], [Value::Array(_), ..]) => "states of locks".to_owned(),
        Ok(Value::Array(items)) => {
            let first = items.first().and_then(|first| redis::from_redis_value_ref::<String>(first).ok());
            first.unwrap_or_else(|| "nothing".to_owned())
        }
        Ok(_) => "plain".to_owned(),
        Err(error) => error.code().map_or_else(|| format!("{:?}", error.kind()), ToOwned::to_owned),
    }
}
