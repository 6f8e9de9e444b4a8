use std::fmt;

/// The largest token, 2^53 - 1. Beyond it, Lua and JavaScript cannot tell a number from the next one.
pub(crate) const MAX_TOKEN: u64 = (1 << 53) - 1;

/// The number that protects a resource against earlier holders of its lock.
///
/// Every grant of a lock carries a token. The tokens of one resource are unique, and an acquisition that began after another
/// had completed has the larger one. A data store that remembers the largest token it has seen and refuses smaller ones is safe
/// even from a holder that was paused for longer than its lock lived:
///
/// ```sql
/// UPDATE stock SET fence = :token WHERE sku = :sku AND fence <= :token   -- no row: stale, stop
/// ```
///
/// Make this claim *first*, in the transaction that then reads and writes; `lock_axum::fence` has such claims for SQL
/// databases and Redis. A token is at most 2^53 − 1, so that it
/// fits a PostgreSQL `BIGINT`, an SQLite `INTEGER` and a JavaScript number. The smallest is 1, so that a column can begin
/// with 0.
///
/// With the feature `serde`, a token is serialized as its number. A number that no token can be is refused.
///
/// The idea is from Kleppmann, *How to do distributed locking* (2016). How tokens are assigned is described in
/// [`quorum`](crate::quorum).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// # let locks = lock_core::LockManager::in_memory();
/// let first = locks.lock("stock:42").run(async |lease| lease.token()).await?;
/// let second = locks.lock("stock:42").run(async |lease| lease.token()).await?;
/// assert!(first < second);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
pub struct FencingToken(#[cfg_attr(feature = "serde", serde(deserialize_with = "in_range"))] u64);

impl FencingToken {
    pub(crate) const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The token as an unsigned integer.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The token as a signed integer, for databases without unsigned ones. Never negative.
    pub const fn as_i64(self) -> i64 {
        self.0.cast_signed()
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// For serde: a number that a token can be.
#[cfg(feature = "serde")]
fn in_range<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    use serde::de::{Deserialize as _, Error as _, Unexpected};

    let expected = format!("a fencing token from 1 to {MAX_TOKEN}");
    let number = u64::deserialize(deserializer);
    let number = number.map_err(|error| D::Error::custom(format_args!("not {expected}: {error}")))?;
    match number {
        1..=MAX_TOKEN => Ok(number),
        _ => Err(D::Error::invalid_value(Unexpected::Unsigned(number), &expected.as_str())),
    }
}
