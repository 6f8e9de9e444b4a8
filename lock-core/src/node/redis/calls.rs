//! Which ballots travel together: what one call of the script carries.

use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

use crate::node::{Ballot, Place, Request};

/// What is sent with one call, in the order in which the script takes it. No two ballots have the same fence, and so none the
/// same lock: they have no order among them. But for pairs: a lock is released, and then acquired.
pub(super) struct Call<T> {
    /// How many pairs there are: the first of both.
    pub(super) pairs: usize,
    pub(super) releases: Vec<T>,
    pub(super) acquires: Vec<T>,
    pub(super) others: Vec<T>,
    /// What becomes of the places of those that release: as of the first, for since when is each one's own.
    pub(super) place: Option<Place>,
    /// What those that acquire have in common.
    pub(super) terms: Option<Terms>,
    fences: Vec<u16>,
}

/// What those that acquire in one call have in common, as it is told once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) ttl: Duration,
    pub(super) tokens: u32,
}

impl Terms {
    fn of(ballot: &Ballot) -> Option<Self> {
        match ballot.request {
            Request::Acquire { ttl, tokens, .. } => Some(Self { ttl, tokens }),
            _ => None,
        }
    }
}

impl<T: AsRef<Ballot>> Call<T> {
    fn new() -> Self {
        let (releases, acquires, others) = (Vec::new(), Vec::new(), Vec::new());
        Self { pairs: 0, releases, acquires, others, place: None, terms: None, fences: Vec::new() }
    }

    pub(super) fn letters(&self) -> impl Iterator<Item = &T> {
        self.releases.iter().chain(&self.acquires).chain(&self.others)
    }

    pub(super) fn into_letters(self) -> impl Iterator<Item = T> {
        self.releases.into_iter().chain(self.acquires).chain(self.others)
    }

    /// Whether a ballot can be added, as far as what is told once goes.
    fn suits(&self, ballot: &Ballot) -> bool {
        match ballot.request {
            Request::Release { place, .. } => {
                self.place.is_none_or(|present| discriminant(&present) == discriminant(&place))
            }
            _ => Terms::of(ballot).is_none_or(|terms| self.terms.is_none_or(|present| present == terms)),
        }
    }

    /// The release that a ballot can make a pair with, if it acquires the same lock.
    fn release_before(&self, ballot: &Ballot) -> Option<usize> {
        let acquires = Terms::of(ballot).is_some() && self.suits(ballot);
        let mut alone = self.releases.iter().skip(self.pairs);
        let found = alone.position(|release| release.as_ref().keys.lock() == ballot.keys.lock());
        found.filter(|_| acquires).map(|found| self.pairs + found)
    }

    /// Adds an acquire that makes a pair with this release.
    fn pair(&mut self, release: usize, acquire: T) {
        self.terms = Terms::of(acquire.as_ref());
        self.releases.swap(release, self.pairs);
        self.acquires.push(acquire);
        let last = self.acquires.len() - 1;
        self.acquires.swap(last, self.pairs);
        self.pairs += 1;
    }

    /// Adds a letter, behind which at most so many come.
    fn add(&mut self, letter: T, left: usize) {
        let Ballot { keys, request, .. } = letter.as_ref();
        let (fence, terms) = (keys.fence(), Terms::of(letter.as_ref()));
        if let Request::Release { place, .. } = request {
            self.place = Some(*place);
        }
        let letters = match request {
            Request::Release { .. } => &mut self.releases,
            Request::Acquire { .. } => &mut self.acquires,
            Request::Confirm { .. } | Request::Extend { .. } | Request::Replace { .. } => &mut self.others,
        };
        if letters.is_empty() {
            letters.reserve(1 + left);
        }
        letters.push(letter);
        self.terms = self.terms.or(terms);
        self.fences.push(fence);
    }
}

/// Deals ballots out to calls, which are to be sent in this order: those of one lock stay in the order in which they came.
pub(super) fn deal<T: AsRef<Ballot>>(letters: impl ExactSizeIterator<Item = T>) -> Vec<Call<T>> {
    let (mut calls, mut left): (Vec<Call<T>>, _) = (Vec::with_capacity(1), letters.len());
    // The calls before this one have another head.
    let mut from = 0;
    for letter in letters {
        left -= 1;
        let ballot = letter.as_ref();
        let same = |call: &Call<T>| call.letters().next().is_none_or(|first| same_head(first.as_ref(), ballot));
        if !calls.last().is_none_or(same) {
            from = calls.len();
        }
        let fence = ballot.keys.fence();
        let last = calls[from..].iter().rposition(|call| call.fences.contains(&fence)).map(|last| from + last);
        let pair = last.and_then(|last| Some((last, calls[last].release_before(ballot)?)));
        if let Some((call, release)) = pair {
            calls[call].pair(release, letter);
            continue;
        }
        let earliest = last.map_or(from, |last| last + 1);
        let place = calls[earliest..].iter().position(|call| call.suits(ballot));
        let place = place.map_or(calls.len(), |place| earliest + place);
        if place == calls.len() {
            calls.push(Call::new());
        }
        calls[place].add(letter, left);
    }
    calls
}

/// Whether what is told once for a call is the same for both.
fn same_head(one: &Ballot, other: &Ballot) -> bool {
    let same_keyspace = Arc::ptr_eq(one.keys.keyspace(), other.keys.keyspace());
    same_keyspace && (one.epoch, one.waiter) == (other.epoch, other.waiter)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::node::{Keyspace, LockKeys};
    use crate::random::{Epoch, OwnerId, WaiterId};

    struct Letter(&'static str, Ballot);

    impl AsRef<Ballot> for Letter {
        fn as_ref(&self) -> &Ballot {
            &self.1
        }
    }

    const A: Request =
        Request::Acquire { owner: OwnerId::from_bits(1), ttl: Duration::ZERO, hint: 0, tokens: 1, since: None };
    const R: Request = Request::Release { owner: OwnerId::from_bits(1), place: Place::None };
    const E: Request = Request::Extend { owner: OwnerId::from_bits(1), ttl: Duration::ZERO };

    /// The calls that ballots make: resource, request, epoch.
    fn dealt(ballots: &[(&'static str, Request, u128)]) -> Vec<Vec<&'static str>> {
        let keyspace = Arc::new(Keyspace::new(""));
        let letter = |(resource, request, epoch): &(&'static str, Request, u128)| {
            let (epoch, waiter) = (Epoch::from_bits(*epoch), WaiterId::from_bits(1));
            Letter(resource, Ballot { keys: LockKeys::new(&keyspace, resource), epoch, waiter, request: *request })
        };
        let calls = deal(ballots.iter().map(letter));
        calls.into_iter().map(|call| call.into_letters().map(|letter| letter.0).collect()).collect()
    }

    #[test]
    fn a_lock_comes_once_in_a_call_and_keeps_its_order() {
        let calls = dealt(&[("x", A, 1), ("x", R, 1), ("y", A, 1), ("y", R, 1), ("z", E, 1), ("x", E, 1), ("y", E, 1)]);
        assert_eq!(calls, [vec!["x", "y", "z"], vec!["x", "y"], vec!["x", "y"]]);
    }

    #[test]
    fn a_release_and_the_next_acquire_are_a_pair() {
        let calls = dealt(&[("v", A, 1), ("w", R, 1), ("x", R, 1), ("x", A, 1), ("w", A, 1), ("y", R, 1), ("x", R, 1)]);
        assert_eq!(calls, [vec!["x", "w", "y", "x", "w", "v"], vec!["x"]]);
        assert_eq!(dealt(&[("x", R, 1), ("x", A, 2)]), [["x"], ["x"]], "not where the epoch changed");
    }

    #[test]
    fn those_that_release_come_first_and_then_those_that_acquire() {
        let calls = dealt(&[("v", E, 1), ("w", R, 1), ("x", A, 1), ("y", R, 1), ("z", A, 1)]);
        assert_eq!(calls, [["w", "y", "x", "z", "v"]]);
    }

    #[test]
    fn what_is_told_once_is_the_same_for_all_of_a_call() {
        let owner = OwnerId::from_bits(2);
        let longer = Request::Acquire { owner, ttl: Duration::from_secs(1), hint: 0, tokens: 1, since: None };
        let calls = dealt(&[("v", longer, 1), ("w", A, 1), ("x", R, 1), ("y", A, 1), ("z", longer, 1), ("x", A, 1)]);
        assert_eq!(calls, [vec!["x", "v", "z"], vec!["w", "y", "x"]]);
        let leave = Request::Release { owner, place: Place::Leave };
        assert_eq!(dealt(&[("x", leave, 1), ("y", R, 1), ("z", leave, 1)]), [vec!["x", "z"], vec!["y"]]);
        let keep = |since| Request::Release { owner, place: Place::Keep(NonZeroU64::new(since).unwrap()) };
        assert_eq!(dealt(&[("x", keep(1), 1), ("y", keep(2), 1)]), [["x", "y"]], "since when is told for each");
    }

    #[test]
    fn another_epoch_is_another_call_behind_it() {
        let calls = dealt(&[("x", A, 1), ("y", A, 2), ("x", R, 2), ("z", A, 2), ("y", A, 1)]);
        assert_eq!(calls, [vec!["x"], vec!["x", "y", "z"], vec!["y"]]);
    }
}
