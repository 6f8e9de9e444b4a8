use std::sync::atomic::{AtomicU32, Ordering};

/// What has to be seen in some run, or the model shows nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// An attempt was granted that began after another had been.
    OneAfterTheOther,
    /// An attempt failed.
    Failure,
    /// Two attempts hold a node each, and no one a majority.
    Split,
    /// Grants were put to a confirmation.
    Confirm,
    /// A second time.
    SecondConfirm,
    /// And it made the token.
    SecondConfirmGranted,
    /// A node granted an attempt that was over.
    LateAcquire,
    /// A node confirmed for an attempt that was over.
    LateConfirm,
    /// A node that had a key forgot.
    Forgot,
    /// An acquire came to a node that had forgotten since it was sent.
    OldEpoch,
    /// An attempt did without a node that sat out.
    NotAskedInQuarantine,
    /// A node that had forgotten granted.
    GrantedAfterForgetting,
    /// A lease was renewed.
    Renewed,
    /// A renewal told that the lease was lost.
    Lost,
    /// A key was put back.
    Replaced,
    /// A key was put back for a lease that was over.
    LateReplace,
    /// A lease was renewed on a node where it had been put back.
    KeptAfterReplace,
    /// Another lock moved the fence on between a grant and its confirm.
    MovedOn,
}

/// What was seen so far, in all runs.
#[derive(Debug, Default)]
pub struct Sights(AtomicU32);

impl Sights {
    pub(super) fn note(&self, sight: Sight) {
        // Nearly always it is there already, and the checkers' threads need not fight for it.
        let bit = 1 << sight as u32;
        if self.0.load(Ordering::Relaxed) & bit == 0 {
            self.0.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Whether it was seen.
    #[must_use]
    pub fn contains(&self, sight: Sight) -> bool {
        self.0.load(Ordering::Relaxed) & 1 << sight as u32 != 0
    }
}
