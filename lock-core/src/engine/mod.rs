//! Sends requests to all nodes at once, feeds the replies to [`quorum`](crate::quorum), and does what it decides.
//!
//! A request is submitted to a node when it is sent, not when its reply is awaited
//! ([`LockNode`](crate::node::LockNode)). Dropping a future in here never takes a request back, and never lets a later request
//! overtake it. So the [`Grant`] of an attempt exists before the first request leaves, and releases when it is dropped: an attempt
//! that is dropped, at whatever point, leaves a release behind every acquire.
//!
//! Every `select!` is biased, here and elsewhere in the crate, so that a simulated run with one seed is the same run each time.

mod attempt;
mod attempt_record;
mod confirm;
mod engine;
mod failed_attempt;
mod grant;
mod home;
mod line;
mod patience;
mod queue_position;
mod release;
mod round;
mod slots;
mod watcher;

pub(crate) use self::attempt::Wanted;
pub(crate) use self::engine::{Background, Engine};
pub(crate) use self::failed_attempt::{FailedAttempt, QueueReport};
pub(crate) use self::grant::Grant;
pub(crate) use self::home::{Home, Tenure};
pub(crate) use self::line::{AttemptKind, AttemptPlace};
pub(crate) use self::queue_position::QueuePositions;
pub(crate) use self::release::{Release, Unacknowledged, UnawaitedReleases};
pub(crate) use self::round::{NodeReply, Round};
pub(crate) use self::slots::SlotOffers;
