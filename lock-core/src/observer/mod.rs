//! What a lock manager tells its observers: [`LockObserver`], and each [`LockEvent`].
//!
//! Everything that is told goes through here: to observers, to the recorder of metrics, and to spans.

mod acquiring;
mod hold;
mod labels;
#[cfg(feature = "metrics")]
mod metrics;
mod observer;

pub(crate) use self::acquiring::Acquiring;
pub(crate) use self::hold::Hold;
pub use self::labels::{AcquireOutcome, HoldEnd, RenewalOutcome, VoteOutcome};
pub(crate) use self::observer::Reporter;
pub use self::observer::{LockEvent, LockObserver};
pub use crate::options::OTHER;
