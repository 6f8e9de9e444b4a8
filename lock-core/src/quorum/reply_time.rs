use std::mem::take;
use std::time::Duration;

use super::OUTAGE_GRACE;

/// How long a majority of the nodes takes to reply, lately: mean and mean deviation, smoothed as TCP does for round trips
/// ([RFC 6298](https://www.rfc-editor.org/rfc/rfc6298)).
///
/// Replies count whether they came in time or late. A node that hangs sends none, and so does not lengthen what the others are given. Of
/// the replies of a tenth of a second, the slowest counts, and one that took longer than expected counts at once: many fast ones must not
/// make forgotten that the nodes stop now and then. Times are counted from any fixed moment.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use lock_core::quorum::ReplyTime;
///
/// let ms = Duration::from_millis;
/// let (configured, ttl) = (ms(50), ms(10_000));
/// let mut lately = ReplyTime::default();
/// assert_eq!(lately.node_timeout(configured, ttl), configured);
/// lately.replied(ms(200), ms(1_000)); // too late, but it shows that the nodes are slow and not away
/// assert!(lately.node_timeout(configured, ttl) > ms(200));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplyTime {
    /// With the mean deviation; `None` before the first reply.
    mean: Option<(Duration, Duration)>,
    /// The slowest reply since one last counted, and when that was.
    slowest: Duration,
    counted: Duration,
}

/// Of the replies in this time, one counts.
const PERIOD: Duration = Duration::from_millis(100);

impl ReplyTime {
    /// A majority has replied to a round, this long after it was sent.
    pub fn replied(&mut self, after: Duration, now: Duration) {
        self.slowest = self.slowest.max(after);
        // Fast replies are many, and would drown a slow one in the mean: of each period, the slowest counts.
        if after <= self.expected() && now < self.counted + PERIOD {
            return;
        }
        self.counted = now;
        // What takes longer is an outage, and must not be remembered for longer than that.
        let after = take(&mut self.slowest).min(OUTAGE_GRACE);
        self.mean = Some(match self.mean {
            None => (after, after / 2),
            // The weights of RFC 6298: an eighth of the mean and a quarter of the deviation are new.
            Some((mean, deviation)) => ((mean * 7 + after) / 8, (deviation * 3 + mean.abs_diff(after)) / 4),
        });
    }

    /// How long a majority takes to reply, by all that is known: nearly all replies come within this time.
    pub fn expected(&self) -> Duration {
        self.mean.map_or(Duration::ZERO, |(mean, deviation)| mean + deviation * 4)
    }

    /// How long the nodes are given to reply: the configured time; or longer, if they have taken longer lately, but no longer than a
    /// quarter of the time to live, which leaves time to ask again, and than a second, after which they count as away.
    pub fn node_timeout(&self, configured: Duration, ttl: Duration) -> Duration {
        self.expected().min(ttl / 4).min(OUTAGE_GRACE).max(configured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIGURED: Duration = ms(50);
    const TTL: Duration = ms(10_000);

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// After replies that each count.
    fn after(replies: impl IntoIterator<Item = u64>) -> ReplyTime {
        let mut lately = ReplyTime::default();
        (1..).zip(replies).for_each(|(now, after)| lately.replied(ms(after), PERIOD * now));
        lately
    }

    #[test]
    fn nodes_that_reply_in_time_are_given_what_is_configured() {
        assert_eq!(after([]).node_timeout(CONFIGURED, TTL), CONFIGURED);
        assert_eq!(after([2, 1, 9, 1]).node_timeout(CONFIGURED, TTL), CONFIGURED);
    }

    #[test]
    fn one_late_reply_is_enough_to_be_given_that_long() {
        let usual = std::iter::repeat_n(1, 1000);
        for late in [60, 200, 700] {
            let given = after(usual.clone().chain([late])).node_timeout(CONFIGURED, TTL);
            assert!(given > ms(late), "{late}: {given:?}");
        }
    }

    #[test]
    fn nodes_that_are_always_late_are_given_little_more_than_they_take() {
        let given = after(std::iter::repeat_n(200, 50)).node_timeout(CONFIGURED, TTL);
        assert!((ms(200)..ms(201)).contains(&given), "{given:?}");
    }

    #[test]
    fn nodes_that_reply_fast_again_are_soon_given_what_is_configured() {
        let late = std::iter::repeat_n(900, 50);
        assert_eq!(after(late.chain(std::iter::repeat_n(1, 45))).node_timeout(CONFIGURED, TTL), CONFIGURED);
    }

    #[test]
    fn nodes_that_stop_now_and_then_are_given_that_long_however_fast_they_are_in_between() {
        let mut lately = ReplyTime::default();
        for millis in 1..5_000 {
            // Each stop of 80 ms is followed by a hundred fast replies.
            let (after, of_a_period) = (if millis % 100 == 0 { 80 } else { 1 }, millis % 100 < 20);
            for _ in 0..if of_a_period { 5 } else { 0 } {
                lately.replied(ms(after), ms(millis));
                let given = lately.node_timeout(CONFIGURED, TTL);
                assert!(millis < 100 || given > ms(80), "{millis}: {given:?}");
            }
        }
    }

    #[test]
    fn no_time_is_longer_than_a_lease_allows_or_shorter_than_configured() {
        let hung = after([3_600_000]);
        assert_eq!(hung.node_timeout(CONFIGURED, TTL), OUTAGE_GRACE);
        assert_eq!(hung.node_timeout(CONFIGURED, ms(800)), ms(200));
        assert_eq!(hung.node_timeout(CONFIGURED, ms(100)), CONFIGURED);
        assert_eq!(hung.node_timeout(ms(3_000), TTL), ms(3_000));
        // An outage is soon forgotten.
        let again = after([1, 3_600_000].into_iter().chain(std::iter::repeat_n(1, 30)));
        assert_eq!(again.node_timeout(CONFIGURED, TTL), CONFIGURED);
    }
}
