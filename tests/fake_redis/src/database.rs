use std::collections::BTreeMap;
use std::ops::Range;

use super::channels::Channels;
use super::declarations::{Declarations, keys_of};
use super::resp::Reply;
use super::store::{Store, WrongType};

/// The keys and channels of a server, with the commands on them that connections and scripts can execute.
#[derive(Clone, Debug, Default)]
pub(super) struct Database {
    pub(super) store: Store,
    pub(super) channels: Channels,
    pub(super) declarations: Declarations,
    /// Nobody may `PUBLISH`.
    pub(super) mute: bool,
    /// The keys are on their way to another server of a cluster: what is not here may be there.
    pub(super) is_leaving: bool,
    /// How many wake-ups somebody listened to, and how many nobody.
    pub(super) done: Tally,
}

/// How often something was done.
pub(super) type Tally = BTreeMap<&'static str, u64>;

pub(super) const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
pub(super) const SYNTAX_ERROR: &str = "ERR syntax error";
const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
const KNOWN: [&str; 25] = [
    "GET",
    "SET",
    "MGET",
    "DEL",
    "EXISTS",
    "PTTL",
    "PEXPIRE",
    "HGET",
    "HMGET",
    "HGETALL",
    "HSET",
    "HDEL",
    "ZADD",
    "ZREM",
    "ZRANGE",
    "ZRANK",
    "ZSCORE",
    "ZCARD",
    "ZPOPMAX",
    "TIME",
    "PUBLISH",
    "SUBSCRIBE",
    "PING",
    "EVAL",
    "EVALSHA",
];
/// The commands that scripts cannot execute.
const NOT_IN_SCRIPTS: [&str; 5] = ["SUBSCRIBE", "UNSUBSCRIBE", "HELLO", "EVAL", "EVALSHA"];

impl From<WrongType> for Reply {
    fn from(WrongType: WrongType) -> Self {
        Self::error(WRONG_TYPE)
    }
}

pub(super) fn flag(flag: bool) -> Reply {
    Reply::Number(i64::from(flag))
}

pub(super) fn upper(word: &[u8]) -> String {
    String::from_utf8_lossy(word).to_uppercase()
}

/// An integer in the one form that Redis accepts: no sign but a minus, no leading zeros.
pub(super) fn integer(word: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(word).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == word).then_some(number)
}

impl Database {
    /// Executes a command of a connection. The name is in capitals.
    pub(super) fn execute(&mut self, name: &str, arguments: &[Vec<u8>], now: i64) -> Reply {
        match self.on_keys(name, arguments, now) {
            Ok(Some(reply)) => reply,
            Ok(None) if KNOWN.contains(&name) => {
                Reply::error(format!("ERR wrong number of arguments for '{}' command", name.to_lowercase()))
            }
            Ok(None) => Reply::error(format!("ERR unknown command '{name}'")),
            Err(wrong_type) => wrong_type.into(),
        }
    }

    /// Executes a command of a script, at `now` in microseconds.
    pub(super) fn execute_in_script(&mut self, name: &[u8], arguments: &[Vec<u8>], now: i64) -> Reply {
        let name = upper(name);
        if name == "TIME" && arguments.is_empty() {
            return time(now);
        }
        if NOT_IN_SCRIPTS.contains(&name.as_str()) {
            return Reply::error("ERR This Redis command is not allowed from script");
        }
        if let Some(refusal) = self.declarations.refuse(&name, arguments) {
            return refusal;
        }
        if self.is_leaving && keys_of(&name, arguments).iter().any(|key| !self.store.exists(key, now / 1000)) {
            *self.done.entry("key that is not local").or_default() += 1;
            return Reply::error("ERR Script attempted to access a non local key in a cluster node");
        }
        match self.on_keys(&name, arguments, now / 1000) {
            Ok(Some(reply)) => reply,
            Ok(None) if KNOWN.contains(&name.as_str()) => {
                Reply::error("ERR Wrong number of args calling Redis command from script")
            }
            Ok(None) => Reply::error("ERR Unknown Redis command called from script"),
            Err(wrong_type) => wrong_type.into(),
        }
    }

    /// `None` for an unknown command, and for a wrong number of arguments.
    fn on_keys(&mut self, name: &str, arguments: &[Vec<u8>], now: i64) -> Result<Option<Reply>, WrongType> {
        let store = &mut self.store;
        let text = |text: Option<&[u8]>| text.map_or(Reply::Nil, Reply::text);
        Ok(Some(match (name, arguments) {
            ("GET", [key]) => text(store.get(key, now)?),
            ("SET", [key, value, options @ ..]) => set(store, key, value, options, now),
            ("MGET", keys @ [_, ..]) => {
                let values = keys.iter().map(|key| text(store.get(key, now).unwrap_or_default()));
                Reply::List(values.collect())
            }
            ("DEL", keys @ [_, ..]) => count(keys, |key| store.delete(key, now)),
            ("EXISTS", keys @ [_, ..]) => count(keys, |key| store.exists(key, now)),
            ("PTTL", [key]) => Reply::Number(store.pttl(key, now)),
            ("PEXPIRE", [key, ttl]) => match integer(ttl) {
                Some(ttl) => flag(store.expire(key, now + ttl, now)),
                None => Reply::error(NOT_AN_INTEGER),
            },
            ("HGET", [key, field]) => text(store.field(key, field, now)?),
            ("HMGET", [key, fields @ ..]) if !fields.is_empty() => {
                let mut values = Vec::with_capacity(fields.len());
                for field in fields {
                    values.push(text(store.field(key, field, now)?));
                }
                Reply::List(values)
            }
            ("HSET", [key, fields @ ..]) if !fields.is_empty() && fields.len() % 2 == 0 => {
                let pairs = fields.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone()));
                Reply::Number(store.set_fields(key, pairs, now)?)
            }
            ("HGETALL", [key]) => {
                let pairs = store.hash(key, now)?.into_iter().flatten();
                Reply::Map(pairs.map(|(name, value)| (Reply::text(name), Reply::text(value))).collect())
            }
            ("HDEL", [key, fields @ ..]) if !fields.is_empty() => Reply::length(store.delete_fields(key, fields, now)?),
            ("PUBLISH", [channel, message]) => self.publish("message", channel, message),
            ("SPUBLISH", [channel, message]) => self.publish("smessage", channel, message),
            _ => return self.on_sorted_sets(name, arguments, now),
        }))
    }

    fn publish(&mut self, kind: &str, channel: &[u8], message: &[u8]) -> Reply {
        if self.mute {
            *self.done.entry("wake-up denied").or_default() += 1;
            return Reply::error("NOPERM this user has no permissions to run the 'publish' command");
        }
        let listening = self.channels.publish(kind, channel, message);
        let what = if listening > 0 { "wake-up sent" } else { "wake-up to nobody" };
        *self.done.entry(what).or_default() += 1;
        Reply::length(listening)
    }
}

/// `TIME`, of a clock that shows these microseconds.
pub(super) fn time(micros: i64) -> Reply {
    let part = |number: i64| Reply::text(number.to_string());
    Reply::List(vec![part(micros / 1_000_000), part(micros % 1_000_000)])
}

fn count(keys: &[Vec<u8>], mut done: impl FnMut(&[u8]) -> bool) -> Reply {
    Reply::length(keys.iter().filter(|key| done(key)).count())
}

/// `SET key value [NX|XX] [PX milliseconds|KEEPTTL]`
fn set(store: &mut Store, key: &[u8], value: &[u8], options: &[Vec<u8>], now: i64) -> Reply {
    let (mut only_if, mut expires, mut keep_ttl) = (None, None, false);
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match upper(option).as_str() {
            "NX" if only_if.is_none() => only_if = Some(false),
            "XX" if only_if.is_none() => only_if = Some(true),
            "PX" if expires.is_none() && !keep_ttl => match options.next().map(|ttl| integer(ttl)) {
                Some(Some(ttl)) if ttl > 0 => expires = Some(now + ttl),
                Some(Some(_)) => return Reply::error("ERR invalid expire time in 'set' command"),
                Some(None) => return Reply::error(NOT_AN_INTEGER),
                None => return Reply::error(SYNTAX_ERROR),
            },
            "KEEPTTL" if expires.is_none() => keep_ttl = true,
            _ => return Reply::error(SYNTAX_ERROR),
        }
    }
    if only_if.is_some_and(|there| there != store.exists(key, now)) {
        return Reply::Nil;
    }
    if keep_ttl {
        expires = store.expires(key, now);
    }
    store.set(key, value, expires);
    Reply::Status("OK".into())
}

/// Where two indices point to in a sorted set of this length: both ends are included, and negative indices count from the end.
pub(super) fn places(length: usize, from: i64, to: i64) -> Range<usize> {
    let signed = i64::try_from(length).unwrap_or(i64::MAX);
    let place = |index: i64| {
        let place = if index < 0 { signed.saturating_add(index) } else { index };
        place.clamp(-1, signed)
    };
    let end = usize::try_from(place(to) + 1).unwrap_or_default().min(length);
    let start = usize::try_from(place(from)).unwrap_or_default().min(end);
    start..end
}
