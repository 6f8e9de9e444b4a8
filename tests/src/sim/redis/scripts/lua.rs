use super::{BALLOTS, Call};
use crate::sim::redis::commands::{NOT_AN_INTEGER, WRONG_TYPE, integer};
use crate::sim::redis::store::WrongType;

/// What ends a script, or one ballot of it: the text of the error.
pub(super) struct Broken(pub(super) String);

impl Broken {
    pub(super) fn new(error: impl Into<String>) -> Self {
        Self(error.into())
    }

    /// An error of Lua's own, on the first line of the source that has `code` in it.
    pub(super) fn on_line(code: &str, error: &str) -> Self {
        let line = BALLOTS.lines().position(|line| line.contains(code)).map_or(0, |before| before + 1);
        Self(format!("user_script:{line}: {error}"))
    }
}

impl From<WrongType> for Broken {
    fn from(WrongType: WrongType) -> Self {
        Self::new(WRONG_TYPE)
    }
}

const NO_NIL: &str = "ERR Lua redis lib command arguments must be strings or integers";

/// `redis.call`, for the commands that are called. Keys are told by their place among the script's keys, from 0 on.
impl<'a> Call<'a> {
    pub(super) fn key(&self, at: usize) -> Result<&'a [u8], Broken> {
        self.keys.get(at).map(Vec::as_slice).ok_or(Broken::new(NO_NIL))
    }

    /// `ARGV[2]`
    pub(super) fn retention(&self) -> Result<&'a [u8], Broken> {
        self.arguments.get(1).map(Vec::as_slice).ok_or(Broken::new(NO_NIL))
    }

    /// `ARGV[3]`
    pub(super) fn waiter(&self) -> Result<&'a [u8], Broken> {
        self.arguments.get(2).map(Vec::as_slice).ok_or(Broken::new(NO_NIL))
    }

    pub(super) fn get(&mut self, at: usize) -> Result<Option<Vec<u8>>, Broken> {
        Ok(self.store.get(self.key(at)?, self.now)?.map(<[u8]>::to_vec))
    }

    /// `MGET`, to which a key of another type is none.
    pub(super) fn mget<const N: usize>(&mut self, at: [usize; N]) -> Result<[Option<Vec<u8>>; N], Broken> {
        let mut values = [const { None }; N];
        for (value, at) in values.iter_mut().zip(at) {
            *value = self.store.get(self.key(at)?, self.now).ok().flatten().map(<[u8]>::to_vec);
        }
        Ok(values)
    }

    pub(super) fn pttl(&mut self, at: usize) -> Result<i64, Broken> {
        Ok(self.store.pttl(self.key(at)?, self.now))
    }

    pub(super) fn delete(&mut self, at: usize) -> Result<(), Broken> {
        self.store.delete(self.key(at)?, self.now);
        Ok(())
    }

    pub(super) fn expire(&mut self, at: usize, life: &[u8]) -> Result<(), Broken> {
        let life = integer(life).ok_or(Broken::new(NOT_AN_INTEGER))?;
        self.store.expire(self.key(at)?, self.now + life, self.now);
        Ok(())
    }

    /// `SET key text PX life`
    pub(super) fn set(&mut self, at: usize, text: &[u8], life: &[u8]) -> Result<(), Broken> {
        let ends = self.now + lifetime(life)?;
        self.store.set(self.key(at)?, text, Some(ends));
        Ok(())
    }

    /// `SET key text NX PX life`. Whether it was set.
    pub(super) fn set_new(&mut self, at: usize, text: &[u8], life: &[u8]) -> Result<bool, Broken> {
        let ends = self.now + lifetime(life)?;
        let free = !self.store.exists(self.key(at)?, self.now);
        if free {
            self.store.set(self.key(at)?, text, Some(ends));
        }
        Ok(free)
    }
}

fn lifetime(life: &[u8]) -> Result<i64, Broken> {
    match integer(life) {
        None => Err(Broken::new(NOT_AN_INTEGER)),
        Some(..=0) => Err(Broken::new("ERR invalid expire time in 'set' command")),
        Some(life) => Ok(life),
    }
}

/// `tonumber`, for the numbers that are ever sent.
pub(super) fn number(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let plain = text.chars().all(|c| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e'));
    if plain { text.parse().ok() } else { None }
}

/// `string.format('%.0f')`
pub(super) fn whole(number: f64) -> String {
    format!("{number:.0}")
}

/// How a number reaches a command: `%.17g`, as far as it can be told from an integer there.
pub(super) fn word(number: f64) -> Vec<u8> {
    let plain = number.fract() == 0.0 && number.abs() < 1e17;
    if plain { whole(number) } else { format!("{number:e}") }.into_bytes()
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
        assert_eq!((word(1e3), integer(&word(1.5)), integer(&word(1e18))), (b"1000".to_vec(), None, None));
        assert_eq!(
            (truncated(1.9), truncated(-1.0), truncated(9_007_199_254_740_991.0)),
            (1, -1, 9_007_199_254_740_991)
        );
    }
}
