//! What a lock manager tells its observers: [`LockObserver`], and the events.
//!
//! Everything that is told goes through here: to observers, to the recorder of metrics, and to spans.

mod acquiring;
mod events;
mod hold;
#[cfg(feature = "metrics")]
mod metrics;
mod observer;
mod reporter;

pub(crate) use self::acquiring::Acquiring;
pub use self::events::{
    AcquireBegan, AcquireEnded, AcquireOutcome, AttemptBegan, HandedOver, HoldBegan, HoldEnd, HoldEnded, NodeChanged,
    NodeVoted, RenewalEnded, RenewalOutcome, VoteOutcome,
};
pub(crate) use self::hold::Hold;
pub use self::observer::LockObserver;
pub(crate) use self::reporter::Reporter;
pub use crate::options::OTHER;
