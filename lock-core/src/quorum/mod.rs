//! What a number of votes means: decisions without I/O.
//!
//! Votes and times go in, verdicts come out. There is no runtime, no connection and no clock in here, so that the engine,
//! the simulation and the model checker run the same lines.
//!
//! # The lock
//!
//! Redlock, as the Redis documentation tells it (*Distributed Locks with Redis*): a lock is held while a majority of N
//! independent nodes holds its key, and for what is left of the time to live ([`validity`]) counted from before the first
//! request was sent.
//!
//! # The token
//!
//! Each node keeps a number `F` per lock and answers a grant with `max(F + 1, hint)`, where the hint is the cluster's
//! clock, the same for all nodes of an attempt ([`cluster_clock`]). If a majority answers the same number, that is the
//! token. If not, the largest of the answers is proposed to the nodes that granted, and becomes the token when a majority
//! confirms it while it still holds the key for us ([`Acquisition`]).
//!
//! Why that is enough: any two majorities share a node, and a node's number only grows. The shared node had granted the
//! earlier attempt before the later one and answered the later with more than the earlier's token, so the later token is
//! larger. The clock is not needed for that; it keeps tokens growing when the numbers themselves were lost.

mod acquisition;
mod clock;
mod majority;
mod membership;
mod release;
mod renewal;
mod validity;

pub use self::acquisition::{AcquireVote, Acquisition, ConfirmVote, Failure, Step, Terms};
pub use self::clock::cluster_clock;
pub use self::majority::majority;
pub use self::membership::{Admission, Census, admit, census, clock_lag};
pub use self::release::{ReleaseTally, ReleaseVerdict, ReleaseVote};
pub use self::renewal::{RenewalTally, RenewalVerdict, RenewalVote};
pub use self::validity::{drift, validity};
