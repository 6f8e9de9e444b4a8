use std::time::Duration;

use crate::check::{Kind, Violation};
use crate::{Grant, Moment};

/// A forced release: it evicts who holds the lock, and nobody who acquires it afterwards.
#[derive(Clone, Debug)]
pub struct Eviction {
    /// What was released.
    pub resource: String,
    /// Its token. `None` if it failed, or nobody knows how it ended: it may have evicted the holder all the same.
    pub token: Option<u64>,
    /// When it began.
    pub began: Moment,
    /// When it was over: from then on, it evicts nobody who matters.
    pub ended: Moment,
}

impl Eviction {
    /// Whether a violation is not one, because this evicted one of the two holders: that one is valid until its next renewal, beside
    /// its successor, and its token is the smaller one. It holds what was taken from the nodes before the eviction was over; who took
    /// the lock later is never excused, nor who got it from another one of the same process beside the successor.
    ///
    /// No lock lives for longer than `max_ttl`.
    #[must_use]
    pub fn excuses<H>(&self, Violation { earlier, later, .. }: &Violation<'_, H>, max_ttl: Duration) -> bool {
        let (evicted, successor) = if earlier.token < later.token { (earlier, later) } else { (later, earlier) };
        let last = self.ended.plus(max_ttl);
        let is_new = evicted.taken() < evicted.began && successor.granted < evicted.granted;
        evicted.resource == self.resource
            && evicted.token < successor.token
            && self.token.is_none_or(|token| evicted.token < token)
            && evicted.taken() <= self.ended
            && !is_new
            && self.began <= successor.granted
            && earlier.granted <= last
            && later.granted <= last
    }

    /// Whether this evicted the holder of a grant, if it was held: it had been granted before anybody looked who holds the lock.
    fn evicted<H>(&self, grant: &Grant<H>) -> bool {
        let is_known = |token| grant.token < token && grant.granted < self.began;
        grant.resource == self.resource && self.token.is_some_and(is_known)
    }
}

/// Who was evicted is not valid for longer than a time to live after that. `forced` are the tokens of the evictions, as grants that were
/// never held: they are what a violation names.
pub fn the_evicted_do_not_renew<'a, H>(
    held: impl IntoIterator<Item = &'a Grant<H>>,
    evictions: &[Eviction],
    forced: &'a [Grant<H>],
    max_ttl: Duration,
) -> Vec<Violation<'a, H>> {
    let mut violations = Vec::new();
    for grant in held {
        let by = evictions.iter().find(|it| it.evicted(grant) && grant.ends() > it.ended.plus(max_ttl));
        let named = by.and_then(|by| forced.iter().find(|it| it.resource == by.resource && Some(it.token) == by.token));
        let violation = |later| Violation { kind: Kind::RenewedAfterEviction, earlier: grant, later };
        violations.extend(named.map(violation));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;

    const TTL: Duration = Duration::from_micros(30);

    fn grant(token: u64, granted: u64, claimed: u64) -> Grant<&'static str> {
        Grant::new(("r", token), "holder", [granted - 1, granted, claimed].map(Moment))
    }

    fn eviction() -> Eviction {
        Eviction { resource: "r".into(), token: Some(50), began: Moment(20), ended: Moment(25) }
    }

    /// How many violations of these grants the eviction does not excuse.
    fn left(grants: &[Grant<&'static str>], eviction: &Eviction) -> usize {
        let mut found = check::validity_does_not_overlap(grants);
        found.extend(check::tokens_are_ordered(grants));
        found.retain(|violation| !eviction.excuses(violation, TTL));
        found.len()
    }

    #[test]
    fn an_evicted_holder_beside_its_successor_is_excused() {
        assert_eq!(left(&[grant(1, 10, 40), grant(51, 24, 60)], &eviction()), 0);
        assert_eq!(left(&[grant(1, 10, 40), grant(51, 19, 60)], &eviction()), 1, "before anybody was evicted");
        assert_eq!(
            left(&[grant(60, 10, 40), grant(61, 24, 60)], &eviction()),
            1,
            "its token was not below the forced one"
        );
        let failed = Eviction { token: None, ..eviction() };
        assert_eq!(left(&[grant(60, 10, 40), grant(61, 24, 60)], &failed), 0, "which nobody knows");
        let elsewhere = Eviction { resource: "other".into(), ..eviction() };
        assert_eq!(left(&[grant(1, 10, 40), grant(51, 24, 60)], &elsewhere), 1);
    }

    // mutant: forced-release
    #[test]
    fn a_successor_that_is_evicted_is_found() {
        assert_eq!(left(&[grant(51, 27, 70), grant(52, 40, 60)], &eviction()), 1);
        assert_eq!(left(&[grant(1, 27, 70), grant(52, 40, 60)], &eviction()), 1, "whatever its token");
    }

    // mutant: forced-release
    #[test]
    fn a_caller_that_gets_an_evicted_lock_within_its_process_beside_the_successor_is_found() {
        let joined = |granted| Grant {
            inherited: Some(Moment(9)),
            ..Grant::to_read(("r", 1), "holder", [granted - 1, granted, 50].map(Moment))
        };
        assert_eq!(left(&[joined(21), grant(51, 24, 60)], &eviction()), 0, "before it");
        assert_eq!(left(&[grant(51, 24, 60), joined(26)], &eviction()), 2, "beside it, and with a smaller token");
        let late = Grant { inherited: None, began: Moment(19), ..joined(26) };
        assert_eq!(left(&[grant(51, 24, 60), late], &eviction()), 0, "the nodes granted it before they evicted");
        let anew = Grant { inherited: None, ..joined(40) };
        assert_eq!(left(&[grant(51, 24, 25), anew], &eviction()), 1, "a new acquisition has a new token");
    }

    // mutant: forced-release
    #[test]
    fn an_evicted_holder_that_renews_is_found() {
        let forced = [grant(50, 25, 25)];
        let renewed =
            |grant: Grant<_>, eviction: Eviction| the_evicted_do_not_renew([&grant], &[eviction], &forced, TTL).len();
        assert_eq!([55, 56].map(|claimed| renewed(grant(1, 10, claimed), eviction())), [0, 1]);
        assert_eq!(renewed(grant(1, 22, 90), eviction()), 0, "it may not have been seen");
        assert_eq!(renewed(grant(51, 10, 90), eviction()), 0, "it is a successor");
        assert_eq!(renewed(grant(1, 10, 90), Eviction { token: None, ..eviction() }), 0, "the eviction failed");
    }
}
