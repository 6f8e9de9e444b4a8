//! What a set of votes means: decisions without I/O.
//!
//! **Unstable**: everything in this module may change in a minor release. Users of locks need none of it.
//!
//! Votes and times go in, verdicts come out. There is no runtime, no connection and no clock in here, so that the engine,
//! the simulation and the model checker run the same code.
//!
//! # The lock
//!
//! Redlock, as described in the Redis documentation (*Distributed Locks with Redis*): a lock is held while a majority of N
//! independent nodes holds its key, for what is left of the time to live ([`validity`]) counted from before the first request
//! was sent.
//!
//! # The token
//!
//! For each lock a node keeps a counter, its fence `F`, and replies to an acquire with the token `max(F + 1, hint)`. The hint is
//! the cluster clock ([`cluster_clock`]), and is the same for all nodes in an attempt. If a majority replies with the same token,
//! that is the token of the grant. Otherwise the largest token is proposed to the nodes that granted, and becomes the token of
//! the grant when a majority confirms it while still holding the key for this attempt ([`Acquisition`]).
//!
//! Why this is enough: any two majorities share a node, and the fence of a node only grows. The shared node granted the earlier
//! attempt before the later one, and replied to the later one with more than the earlier token. So the later token is larger.
//! This does not depend on the clock; the clock keeps tokens increasing where fences were lost.

mod acquisition;
mod clock;
mod eviction;
mod holding;
mod majority;
mod membership;
mod outage;
mod renewal;
mod reply_time;
mod roll_call;
mod set;
mod tally;
mod validity;
mod word;

pub use self::acquisition::{AcquireVote, Acquisition, ConfirmVote, Failure, Step, Terms};
pub use self::clock::cluster_clock;
pub use self::eviction::{EvictVerdict, eviction, eviction_token, to_evict};
pub use self::holding::{Holding, HoldingVote, holding};
pub use self::majority::majority;
pub use self::membership::{
    Change, LogPositions, Membership, MembershipConfig, Standing, Step as MembershipStep, quarantine_length,
};
pub use self::outage::{OUTAGE_GRACE, Outage};
pub use self::renewal::renewal_pause;
pub use self::reply_time::ReplyTime;
pub use self::roll_call::{NotCalled, RollCall};
pub use self::set::{kept_of_batch, set_order};
pub use self::tally::{KeyVote, Tally, Verdict};
pub use self::validity::{drift, validity};
pub use self::word::{WORD_TTL, word_is_good};
