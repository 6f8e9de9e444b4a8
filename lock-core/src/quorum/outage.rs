use std::time::Duration;

/// How long the quorum may be lost before callers that wait are answered.
pub const OUTAGE_GRACE: Duration = Duration::from_secs(1);

/// Since when no majority of the nodes could be used, as far as one client knows.
///
/// Two things show it: fewer than a majority of the nodes vote, by what inspections found out; or attempts end without a reply of
/// a majority, which also happens where nodes hang that were in good order at their last inspection. Failed attempts show it only
/// until a majority replies to anything, however late, because nodes that are slow are not away. And they show it only for a while:
/// what was true when the last one ended need not be true [a second](OUTAGE_GRACE) later.
///
/// The time in which [first connections](Self::expecting) are made is no outage.
///
/// Times are counted from any fixed moment.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use lock_core::quorum::Outage;
///
/// let ms = Duration::from_millis;
/// let mut outage = Outage::default();
/// outage.attempt_failed(ms(0), ms(50));
/// assert!(!outage.is_lasting(ms(50))); // worth another attempt
/// outage.attempt_failed(ms(950), ms(1000));
/// assert!(outage.is_lasting(ms(1000)));
/// outage.answered(ms(1020));
/// assert!(!outage.is_lasting(ms(1020)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Outage {
    /// Since when too few nodes vote; `None` while a majority does.
    too_few_since: Option<Duration>,
    failing: Option<Failing>,
    /// When a majority replied last, or was first to be expected to.
    answered_at: Duration,
}

/// The attempts that had no majority, since one last replied.
#[derive(Clone, Copy, Debug)]
struct Failing {
    /// When the first one began.
    since: Duration,
    /// When the last one ended.
    last: Duration,
}

impl Outage {
    /// The first connections are made until `contact`: a reply that does not come before says nothing. Attempts that fail before,
    /// because nodes cannot be connected to, count.
    #[must_use]
    pub fn expecting(contact: Duration) -> Self {
        Self { answered_at: contact, ..Self::default() }
    }

    /// A majority replied to something, in time or late, whatever it said.
    pub fn answered(&mut self, now: Duration) {
        (self.failing, self.answered_at) = (None, now);
    }

    /// An attempt that began at `began` has ended, and no majority had replied.
    pub fn attempt_failed(&mut self, began: Duration, now: Duration) {
        // A reply to another one meanwhile counts for the time before.
        let since = began.max(self.answered_at.min(now));
        self.failing = Some(match self.failing {
            // Attempts that failed far apart are two outages, with a time in between of which nothing is known.
            Some(before) if since <= before.last + OUTAGE_GRACE => {
                Failing { since: before.since.min(since), last: now }
            }
            _ => Failing { since, last: now },
        });
    }

    /// A majority of the nodes votes, or too few do.
    pub fn inspected(&mut self, majority: bool, now: Duration) {
        if !majority {
            if now < self.answered_at {
                return;
            }
            let since = self.lost_since(now).unwrap_or(now);
            self.too_few_since.get_or_insert(since);
        } else if self.too_few_since.take().is_some() || now < self.answered_at {
            self.answered(now);
        }
    }

    /// Since when the quorum has been lost, if it is.
    pub fn lost_since(&self, now: Duration) -> Option<Duration> {
        let failing = self.failing.filter(|failing| now <= failing.last + OUTAGE_GRACE).map(|failing| failing.since);
        match (self.too_few_since, failing) {
            // Two signs of one outage. The inspections notice it late, because they come at intervals; the attempts only while
            // somebody calls.
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Whether anything shows that the quorum may be lost.
    pub(crate) fn shows_anything(&self) -> bool {
        self.too_few_since.is_some() || self.failing.is_some()
    }

    /// Whether the quorum has been lost for so long that callers are answered at once.
    pub fn is_lasting(&self, now: Duration) -> bool {
        self.lost_since(now).is_some_and(|since| now >= since + OUTAGE_GRACE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn an_outage_lasts_when_attempts_have_failed_for_a_second() {
        let mut outage = Outage::default();
        assert_eq!(outage.lost_since(ms(100)), None);
        for began in (100..1000).step_by(50) {
            outage.attempt_failed(ms(began), ms(began + 50));
            assert_eq!(outage.lost_since(ms(began + 50)), Some(ms(100)));
            assert!(!outage.is_lasting(ms(began + 50)));
        }
        outage.attempt_failed(ms(1050), ms(1100));
        assert!(outage.is_lasting(ms(1100)));
    }

    #[test]
    fn a_majority_that_replies_to_any_attempt_ends_it() {
        let mut outage = Outage::default();
        outage.attempt_failed(ms(0), ms(900));
        outage.answered(ms(960));
        assert_eq!(outage.lost_since(ms(960)), None);
        // It began before, and says nothing of the time before that reply.
        outage.attempt_failed(ms(940), ms(990));
        assert_eq!(outage.lost_since(ms(990)), Some(ms(960)));
    }

    #[test]
    fn failures_from_long_ago_do_not_count() {
        let mut outage = Outage::default();
        outage.attempt_failed(ms(0), ms(50));
        assert_eq!(outage.lost_since(ms(1050)), Some(ms(0)));
        assert_eq!(outage.lost_since(ms(1051)), None);
        outage.attempt_failed(ms(60_000), ms(60_050));
        assert_eq!(outage.lost_since(ms(60_050)), Some(ms(60_000)));
    }

    #[test]
    fn an_outage_goes_on_between_attempts_while_too_few_nodes_vote() {
        let mut outage = Outage::default();
        outage.attempt_failed(ms(100), ms(150));
        outage.inspected(false, ms(400));
        outage.inspected(false, ms(60_000));
        assert_eq!(outage.lost_since(ms(60_000)), Some(ms(100)));
        assert!(outage.is_lasting(ms(60_000)));
        outage.inspected(true, ms(60_001));
        assert_eq!(outage.lost_since(ms(60_001)), None);
        // The next outage has a second of its own.
        outage.attempt_failed(ms(60_000), ms(60_050));
        assert!(!outage.is_lasting(ms(60_050)));
    }

    #[test]
    fn first_connections_that_take_their_time_are_none() {
        let mut outage = Outage::expecting(ms(1000));
        outage.inspected(false, ms(10));
        assert_eq!(outage.lost_since(ms(999)), None);
        outage.attempt_failed(ms(0), ms(1050));
        assert_eq!(outage.lost_since(ms(1050)), Some(ms(1000)));
        outage.inspected(false, ms(1060));
        assert!(!outage.is_lasting(ms(1999)) && outage.is_lasting(ms(2000)));
        // They were made in no time.
        let mut outage = Outage::expecting(ms(1000));
        outage.inspected(true, ms(10));
        outage.attempt_failed(ms(20), ms(70));
        assert_eq!(outage.lost_since(ms(70)), Some(ms(20)));
        // Nodes that refuse connections do not have to be waited for.
        let mut outage = Outage::expecting(ms(1000));
        outage.attempt_failed(ms(0), ms(5));
        outage.attempt_failed(ms(900), ms(905));
        assert!(outage.is_lasting(ms(1005)));
    }

    #[test]
    fn inspections_of_nodes_that_hang_do_not_end_it() {
        let mut outage = Outage::default();
        outage.attempt_failed(ms(0), ms(50));
        outage.inspected(true, ms(60));
        assert_eq!(outage.lost_since(ms(60)), Some(ms(0)));
    }
}
