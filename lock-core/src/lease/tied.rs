use std::time::Duration;

use crate::error::LossReason;

/// A lease, as those see it that it ends with: the set that it was acquired for, and the grant that it shares with other readers.
pub(super) trait Tied: Send + Sync {
    /// Whether the lock is still held, whatever became of other locks of its set.
    fn is_valid_alone(&self) -> bool;

    /// The remaining validity, whatever becomes of other locks of its set.
    fn remaining_alone(&self) -> Duration;

    /// Ends the lease for good; unless it was released, also the other leases of its set.
    fn end(&self, reason: LossReason);

    /// Ends the lease, but no other of its set. Returns whether it had not ended before.
    fn end_alone(&self, reason: LossReason) -> bool;
}
