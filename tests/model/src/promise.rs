//! What must hold, by name.

/// Tokens are unique.
pub const UNIQUE: &str = "tokens are unique";
/// They are ordered.
pub const ORDERED: &str = "an acquisition that began after another completed has the larger token";
/// They take a majority.
pub const MAJORITY: &str = "no token without the grants of a majority";
/// Keys of others are safe.
pub const OWN_KEYS: &str = "no message changes the key of another owner";
/// The lock is exclusive.
pub const EXCLUSIVE: &str = "no two holders are valid at once";
/// What is lost is lost.
pub const NOT_REVIVED: &str = "a renewal rests on a majority that still had the key";
/// There is no deadlock.
pub const CALM: &str = "a new attempt gets the lock once it is calm";
