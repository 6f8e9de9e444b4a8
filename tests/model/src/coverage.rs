use std::sync::atomic::{AtomicU32, Ordering};

/// A situation that some run has to reach. A model that never reaches it shows nothing about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoveragePoint {
    /// An attempt was granted that began after another had been granted.
    OrderedGrants,
    /// An attempt failed.
    Failure,
    /// Two attempts hold one node each.
    Split,
    /// An attempt proposed a token.
    Confirm,
    /// An attempt proposed a second token.
    SecondConfirm,
    /// The second proposal became the token.
    SecondConfirmGranted,
    /// A node granted an attempt that had ended.
    LateAcquire,
    /// A node confirmed a token of an attempt that had ended.
    LateConfirm,
    /// A node lost a key.
    LostKey,
    /// An acquire arrived at a node that had lost its data since it was sent.
    OldEpoch,
    /// An attempt did not send its acquire to a node in quarantine.
    SkippedQuarantined,
    /// A node that had lost its data granted.
    GrantedAfterDataLoss,
    /// A lease was renewed.
    Renewed,
    /// A renewal found the lease lost.
    LostLease,
    /// A key was put back on a node that had lost it.
    Replaced,
    /// A key was put back for a lease that had ended.
    LateReplace,
    /// An extend found a key that had been put back.
    KeptAfterReplace,
    /// Another lock advanced the fence while an attempt held the key.
    FenceAdvanced,
    /// A holder was evicted.
    Evicted,
    /// An eviction met the key of a successor.
    Superseded,
    /// An eviction took a second round.
    SecondEviction,
    /// A writer became a reader.
    Downgraded,
    /// A reader was granted the token of another.
    SharedToken,
    /// Two readers held the lock at once.
    SharedLock,
}

/// The coverage points that any run has reached.
#[derive(Debug, Default)]
pub struct Coverage(AtomicU32);

impl Coverage {
    pub(super) fn mark(&self, point: CoveragePoint) {
        // Nearly always it is set already. Reading first keeps the checker's threads from contending for the cache line.
        let bit = 1 << point as u32;
        if self.0.load(Ordering::Relaxed) & bit == 0 {
            self.0.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Whether any run has reached this point.
    #[must_use]
    pub fn contains(&self, point: CoveragePoint) -> bool {
        self.0.load(Ordering::Relaxed) & 1 << point as u32 != 0
    }
}
