use std::sync::MutexGuard;
use std::time::Duration;

use tokio::time::Instant;

use crate::mutex::Mutex;
use crate::node::MajorityTimer;
use crate::quorum::{Outage, ReplyTime};

/// What the replies of a majority show, in time or late: that there is a quorum, and how long its nodes take.
pub(crate) struct Answers {
    created: Instant,
    outage: Mutex<Outage>,
    reply_time: Mutex<ReplyTime>,
}

impl Answers {
    pub(super) fn new() -> Self {
        Self { created: Instant::now(), outage: Mutex::default(), reply_time: Mutex::default() }
    }

    /// The time since the manager was built.
    pub(super) fn now(&self) -> Duration {
        self.created.elapsed()
    }

    /// When a majority was last known to be usable.
    pub(crate) fn outage(&self) -> MutexGuard<'_, Outage> {
        self.outage.lock()
    }

    /// For how long no majority could be used.
    pub(crate) fn lost_for(&self) -> Duration {
        let now = self.now();
        now.saturating_sub(self.outage().lost_since(now).unwrap_or(now))
    }

    /// How long a majority has taken to reply lately.
    pub(crate) fn reply_time(&self) -> ReplyTime {
        *self.reply_time.lock()
    }
}

impl MajorityTimer for Answers {
    fn majority_replied(&self, after: Duration) {
        let now = self.now();
        self.reply_time.lock().replied(after, now);
        self.outage().answered(now);
    }
}
