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
        self.time_of(Instant::now())
    }

    /// The same, at another time than now.
    pub(crate) fn time_of(&self, instant: Instant) -> Duration {
        instant.saturating_duration_since(self.created)
    }

    /// When a majority was last known to be usable.
    pub(crate) fn outage(&self) -> MutexGuard<'_, Outage> {
        self.outage.lock()
    }

    /// Whether the quorum has been lost for so long that callers are answered at once.
    pub(crate) fn outage_lasts(&self) -> bool {
        let outage = self.outage();
        // Every caller asks, and to read the clock takes longer than all of the rest.
        outage.shows_anything() && outage.is_lasting(self.now())
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
    fn majority_replied(&self, since: Instant) {
        let instant = Instant::now();
        let now = self.time_of(instant);
        self.reply_time.lock().replied(instant.saturating_duration_since(since), now);
        self.outage().answered(now);
    }
}
