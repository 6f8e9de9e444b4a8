use std::time::Duration;

use tokio::time::Instant;

use super::{Engine, Wanted};
use crate::quorum::{OUTAGE_GRACE, validity};

/// How much longer the attempt of a caller that waits is given if a majority is late. It is then undone, because a reply may have been
/// lost, and the second attempt still ends in the second that callers ride out.
const PATIENCE: Duration = Duration::from_millis(500);

/// For how long an attempt waits for a majority that is late.
pub(super) struct Patience<'a> {
    engine: &'a Engine,
    wanted: &'a Wanted<'a>,
    sent: Instant,
    /// Since when the nodes have had time to reply: when it was sent, or later by as long as this process did not run.
    pub(super) waits_since: Instant,
}

impl<'a> Patience<'a> {
    pub(super) fn new(engine: &'a Engine, wanted: &'a Wanted<'a>, sent: Instant) -> Self {
        Self { engine, wanted, sent, waits_since: sent }
    }

    /// Until when the replies of a round are awaited after its deadline. What was done is not undone while it may still count: not if the
    /// caller does not wait, not beyond the validity that it asks for, and not beyond the second in which an outage is ridden out.
    pub(super) fn late_until(&mut self, deadline: Instant) -> Instant {
        let (&Wanted { options, until, .. }, now) = (self.wanted, Instant::now());
        // This process was paused for that long, or its runtime was blocked. The nodes may have replied at once.
        self.waits_since += now.saturating_duration_since(deadline);
        // The time that this attempt has waited is part of the outage, even if nobody has noticed that one yet.
        let lost_for = self.engine.cluster.answers.lost_for().max(now.saturating_duration_since(self.waits_since));
        let valid = validity(options.ttl, options.min_validity).unwrap_or_default();
        until.min(self.sent + valid).min(now + PATIENCE.min(OUTAGE_GRACE.saturating_sub(lost_for)))
    }
}
