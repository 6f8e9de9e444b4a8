use std::fmt;

/// The number that fences a resource against holders of the past.
///
/// Every grant of a lock carries one. For one resource, tokens are unique, and an acquisition that began after
/// another had completed has the larger token. A resource that remembers the largest token it has seen and refuses
/// smaller ones is safe even from a holder that was paused for longer than its lock lived:
///
/// ```sql
/// UPDATE stock SET fence = :token WHERE sku = :sku AND fence <= :token   -- no row: stale, stop
/// ```
///
/// Make this claim *first*, in the transaction that then reads and writes. A token is at most 2^53 − 1, so that it
/// fits a PostgreSQL `BIGINT`, an SQLite `INTEGER` and a JavaScript number.
///
/// The idea is from Kleppmann, *How to do distributed locking* (2016); where the numbers come from is told in
/// [`quorum`](crate::quorum).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct FencingToken(u64);

impl FencingToken {
    pub(crate) const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The token as an unsigned number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The token as a signed number, for databases without unsigned ones. Never negative.
    #[must_use]
    pub const fn as_i64(self) -> i64 {
        self.0.cast_signed()
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
