//! The properties, each with the name that the report prints.

/// Uniqueness of tokens.
pub const UNIQUE_TOKENS: &str = "tokens are unique";
/// Order of tokens.
pub const ORDERED_TOKENS: &str = "an acquisition that began after another completed has the larger token";
/// A token requires a majority.
pub const MAJORITY_GRANTS: &str = "no token without the grants of a majority";
/// A request changes no key of another owner.
pub const OWN_KEYS_ONLY: &str = "no request changes the key of another owner";
/// Mutual exclusion.
pub const MUTUAL_EXCLUSION: &str = "no two leases are valid at once";
/// A lost lease is not renewed.
pub const NO_LOST_RENEWAL: &str = "a lease is renewed only by a majority that still had its key";
/// A holder that was evicted does not renew.
pub const EVICTED_CANNOT_RENEW: &str = "no renewal that begins after an eviction succeeds";
/// The token of an eviction is above those of the evicted.
pub const EVICTED_SHUT_OUT: &str = "the token of an eviction shuts out the evicted";
/// The token of an eviction is below those of later holders.
pub const SUCCESSOR_NOT_SHUT_OUT: &str = "the token of an eviction that takes less than a ttl shuts out nobody else";
/// An evicted hold is shared with nobody, and handed over to nobody, beside a successor.
pub const EVICTED_JOINED_BY_NOBODY: &str = "nobody gets an evicted lock by its holder's word beside a successor";
/// Freedom from deadlock.
pub const NO_DEADLOCK: &str = "a new attempt acquires the lock once faults stop";
