//! What Lua and its `redis.call` do by themselves.

use crate::redis::commands::{NOT_AN_INTEGER, WRONG_TYPE, integer};
use crate::redis::store::{Store, WrongType};

/// What ends a script: the text of the error.
pub(super) struct Broken(pub(super) String);

impl Broken {
    pub(super) fn new(error: impl Into<String>) -> Self {
        Self(error.into())
    }

    /// Arguments that no client sends. Of what Lua makes of them, nothing is told here.
    pub(super) fn malformed() -> Self {
        Self::new("ERR not a call as lock-core makes it")
    }
}

impl From<WrongType> for Broken {
    fn from(WrongType: WrongType) -> Self {
        Self::new(WRONG_TYPE)
    }
}

/// `MGET`, to which a key of another type is none.
pub(super) fn texts(store: &mut Store, keys: &[Vec<u8>], now: i64) -> Vec<Option<Vec<u8>>> {
    keys.iter().map(|key| store.get(key, now).unwrap_or_default().map(<[u8]>::to_vec)).collect()
}

/// `SET key text NX PX life`, tried: whether it was set, or the text of the error.
pub(super) fn set_new(store: &mut Store, key: &[u8], text: &[u8], life: &[u8], now: i64) -> Result<bool, String> {
    let life = match integer(life) {
        None => return Err(NOT_AN_INTEGER.into()),
        Some(..=0) => return Err("ERR invalid expire time in 'set' command".into()),
        Some(life) => life,
    };
    let free = !store.exists(key, now);
    if free {
        store.set(key, text, Some(now + life));
    }
    Ok(free)
}

/// `tonumber`, for the numbers that are ever stored or sent.
pub(super) fn number(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let plain = text.chars().all(|c| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e'));
    if plain { text.parse().ok() } else { None }
}

/// `string.format('%.0f')`
pub(super) fn whole(number: f64) -> String {
    format!("{number:.0}")
}

/// How a number leaves a script.
pub(super) fn truncated(number: f64) -> i64 {
    whole(number.trunc()).parse().unwrap_or(i64::MIN)
}

pub(super) fn float(number: i64) -> f64 {
    // Times to live are far below 2^53.
    #[expect(clippy::cast_precision_loss, reason = "see above")]
    {
        number as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_written_as_in_lua() {
        assert_eq!(
            [number(b" 12 "), number(b"1e3"), number(b""), number(b"x")],
            [Some(12.0), Some(1000.0), None, None]
        );
        assert_eq!([whole(2.5), whole(3.5), whole(1e15)], ["2", "4", "1000000000000000"]);
        assert_eq!(
            (truncated(1.9), truncated(-1.0), truncated(9_007_199_254_740_991.0)),
            (1, -1, 9_007_199_254_740_991)
        );
    }
}
