//! What must hold of recorded grants. Each check returns the violations that it found.

use std::fmt;

use crate::{Grant, Span, by_resource};

/// Two grants of one resource that together break a promise.
#[derive(Debug)]
pub struct Violation<'a, H> {
    /// The promise that they break.
    pub kind: Kind,
    /// The one that came first.
    pub earlier: &'a Grant<H>,
    /// The other one.
    pub later: &'a Grant<H>,
}

/// Which promise is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Tokens are unique, but for readers: those may share one.
    SameToken,
    /// An acquisition that began after another one completed has the larger token, if one of the two is to write.
    TokenOutOfOrder,
    /// A writer has a larger token than every holder before it, and a reader one that is larger than that of every writer before it.
    HolderOutOfOrder,
    /// No writer is valid beside any other holder.
    TwoHolders,
    /// Who was evicted does not renew.
    RenewedAfterEviction,
    /// Who adopts a lock holds it no longer than the key of the holder lives who delegated it.
    AdoptedWithoutHolder,
    /// No more hold a permit of a resource than it has permits.
    TooManyHolders,
}

impl<H: fmt::Display> fmt::Display for Violation<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, earlier, later } = self;
        match kind {
            Kind::SameToken => write!(f, "two grants have the same token: {earlier}; {later}"),
            Kind::TokenOutOfOrder => {
                write!(f, "an acquisition began after {earlier} but has no larger token: {later}")
            }
            Kind::HolderOutOfOrder => {
                write!(f, "a holder has no larger token than an earlier one: {later} after {earlier}")
            }
            Kind::TwoHolders => write!(f, "two valid holders: {later} was granted while {earlier} was valid"),
            Kind::RenewedAfterEviction => {
                write!(f, "an evicted holder renewed: {earlier} ended too late after {later}")
            }
            Kind::AdoptedWithoutHolder => {
                write!(f, "an adopted lock without the key of its holder: {later}, adopted of {earlier}")
            }
            Kind::TooManyHolders => write!(f, "more holders than permits: {later} was granted beside {earlier}"),
        }
    }
}

/// Tokens of one resource are unique, except that readers may share one; also that of a writer who downgraded before they came.
pub fn tokens_are_unique<'a, H>(grants: impl IntoIterator<Item = &'a Grant<H>>) -> Vec<Violation<'a, H>> {
    let mut violations = Vec::new();
    for grants in by_resource(grants, |grant| (grant.token, grant.granted)).into_values() {
        let acquired: Vec<_> = grants.into_iter().filter(|grant| !grant.is_adopted).collect();
        for same in acquired.chunk_by(|one, other| one.token == other.token) {
            for (index, later) in same.iter().enumerate() {
                let clashes = |earlier: &&&'a Grant<H>| !later.reads || !read_by(earlier, later);
                let earlier = same[..index].iter().rfind(clashes);
                violations.extend(earlier.map(|earlier| Violation { kind: Kind::SameToken, earlier, later }));
            }
        }
    }
    violations
}

/// Whether a holder read only by the time when the later one was granted the lock.
fn read_by<H>(earlier: &Grant<H>, later: &Grant<H>) -> bool {
    earlier.reads || earlier.downgraded.is_some_and(|downgraded| downgraded <= later.granted)
}

/// The largest tokens so far: what the next ones have to exceed.
struct Largest<'a, H> {
    /// Of all grants.
    any: Option<&'a Grant<H>>,
    /// Of grants to write.
    writer: Option<&'a Grant<H>>,
}

impl<'a, H> Largest<'a, H> {
    const NONE: Self = Self { any: None, writer: None };

    fn add(&mut self, grant: &'a Grant<H>) {
        let larger = |largest: &mut Option<&'a Grant<H>>| {
            if largest.is_none_or(|largest| largest.token < grant.token) {
                *largest = Some(grant);
            }
        };
        larger(&mut self.any);
        if !grant.reads {
            larger(&mut self.writer);
        }
    }

    /// One whose token is too large for a later grant. That of a reader may be the same if the writer downgraded, that of an
    /// adopted lock is the same.
    fn too_large_for(&self, later: &Grant<H>) -> Option<&'a Grant<H>> {
        let earlier = if later.reads { self.writer? } else { self.any? };
        let may_be_equal = later.is_adopted || later.reads && read_by(earlier, later);
        let is_in_order = earlier.token < later.token || may_be_equal && earlier.token == later.token;
        (!is_in_order).then_some(earlier)
    }
}

/// If one acquisition completed before another began, its token is smaller. That of a reader is smaller than that of a later writer,
/// and larger than that of an earlier one; between readers there is no order.
pub fn tokens_are_ordered<'a, H>(grants: impl IntoIterator<Item = &'a Grant<H>>) -> Vec<Violation<'a, H>> {
    let mut violations = Vec::new();
    for mut completed in by_resource(grants, |grant| grant.granted).into_values() {
        completed.retain(|grant| !grant.is_adopted);
        let mut begun = completed.clone();
        begun.sort_by_key(|grant| grant.began);
        let mut completed = completed.into_iter().peekable();
        let mut largest = Largest::NONE;
        for later in begun {
            while let Some(before) = completed.next_if(|before| before.granted < later.began) {
                largest.add(before);
            }
            let earlier = largest.too_large_for(later);
            violations.extend(earlier.map(|earlier| Violation { kind: Kind::TokenOutOfOrder, earlier, later }));
        }
    }
    violations
}

/// Each writer has a larger token than all holders before it, and each reader a larger one than all writers before it: the order in
/// which they were valid is the order of their tokens. That includes holders whose acquisitions overlapped, holders to which the lock
/// was handed over, and those who adopted it.
///
/// Leave out grants that were never held ([`Grant::was_held`]): they have no place in that order.
pub fn tokens_grow_from_holder_to_holder<'a, H>(held: impl IntoIterator<Item = &'a Grant<H>>) -> Vec<Violation<'a, H>> {
    let mut violations = Vec::new();
    for held in by_resource(held, |grant| grant.granted).into_values() {
        let mut largest = Largest::NONE;
        for later in held {
            match largest.too_large_for(later) {
                Some(earlier) => violations.push(Violation { kind: Kind::HolderOutOfOrder, earlier, later }),
                None => largest.add(later),
            }
        }
    }
    violations
}

/// No writer is granted the lock while another holder is valid, and no reader while a writer is. Who adopted a lock holds it together
/// with who delegated it.
///
/// Leave out grants that were never held ([`Grant::was_held`]), if the history has any.
pub fn validity_does_not_overlap<'a, H>(held: impl IntoIterator<Item = &'a Grant<H>>) -> Vec<Violation<'a, H>> {
    let mut violations = Vec::new();
    for held in by_resource(held, |grant| grant.granted).into_values() {
        let mut spans: Vec<Span<'a, H>> = held.into_iter().flat_map(Grant::spans).collect();
        spans.sort_by_key(|span| span.from);
        // Those that may overlap a later one.
        let mut before: Vec<Span<'a, H>> = Vec::new();
        for later in spans {
            before.retain(|earlier| earlier.to > later.from);
            let earlier =
                before.iter().filter(|earlier| exclude_each_other(earlier, &later)).max_by_key(|span| span.to);
            violations.extend(earlier.map(|earlier| Violation {
                kind: Kind::TwoHolders,
                earlier: earlier.grant,
                later: later.grant,
            }));
            before.push(later);
        }
    }
    violations
}

fn exclude_each_other<H>(one: &Span<'_, H>, other: &Span<'_, H>) -> bool {
    let is_one_lock = one.grant.token == other.grant.token && (one.grant.is_adopted || other.grant.is_adopted);
    !(one.reads && other.reads || is_one_lock)
}

/// How many times a reader was granted a lock that another one was reading.
pub fn overlapping_readers<'a, H>(held: impl IntoIterator<Item = &'a Grant<H>>) -> u64
where
    H: 'a,
{
    let mut overlaps = 0;
    for held in by_resource(held, |grant| grant.granted).into_values() {
        let mut reading: Vec<Span<'a, H>> = held.into_iter().flat_map(Grant::spans).filter(|span| span.reads).collect();
        reading.sort_by_key(|span| span.from);
        let mut longest = crate::Moment(0);
        for span in reading {
            overlaps += u64::from(longest > span.from);
            longest = longest.max(span.to);
        }
    }
    overlaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Moment;

    /// A grant whose acquisition took one unit, held up to `claimed` or `ended`.
    fn grant(token: u64, granted: u64, claimed: u64, ended: Option<u64>) -> Grant<&'static str> {
        let ended = ended.map(Moment);
        let granted = Grant::new(("r", token), "holder", [granted - 1, granted, claimed].map(Moment));
        Grant { ended, released: ended, ..granted }
    }

    fn waited(began: u64, grant: Grant<&'static str>) -> Grant<&'static str> {
        Grant { began: Moment(began), ..grant }
    }

    fn elsewhere(mut grant: Grant<&'static str>) -> Grant<&'static str> {
        grant.resource = "other".into();
        grant
    }

    // mutant: fencing
    #[test]
    fn two_grants_with_the_same_token_are_found() {
        let twice = |one, other| tokens_are_unique(&[one, other]).len();
        assert_eq!(twice(grant(1, 10, 20, None), grant(2, 30, 40, None)), 0);
        assert_eq!(twice(grant(1, 10, 20, None), grant(1, 30, 40, None)), 1);
        assert_eq!(twice(grant(1, 10, 20, None), elsewhere(grant(1, 30, 40, None))), 0, "another resource");
    }

    // mutant: fencing
    #[test]
    fn a_token_smaller_than_an_earlier_one_is_found() {
        let unordered = |one, other| tokens_are_ordered(&[one, other]).len();
        assert_eq!(unordered(grant(2, 10, 20, None), grant(1, 30, 40, None)), 1);
        assert_eq!(unordered(grant(1, 10, 20, None), grant(1, 30, 40, None)), 1);
        assert_eq!(unordered(grant(1, 10, 20, None), grant(2, 30, 40, None)), 0);
        assert_eq!(unordered(grant(2, 10, 20, None), waited(9, grant(1, 30, 40, None))), 0, "the acquisitions overlap");
        assert_eq!(unordered(grant(2, 10, 20, None), elsewhere(grant(1, 30, 40, None))), 0, "another resource");
        let far = [grant(5, 10, 20, None), grant(2, 30, 40, None), grant(3, 50, 60, None)];
        assert_eq!(tokens_are_ordered(&far).len(), 2, "compared with the largest before, not with the last");
    }

    // mutant: fencing
    #[test]
    fn a_holder_with_a_smaller_token_is_found_even_if_acquisitions_overlap() {
        let smaller = |token| {
            tokens_grow_from_holder_to_holder(&[grant(2, 10, 20, None), waited(9, grant(token, 30, 40, None))]).len()
        };
        assert_eq!([1, 2, 3].map(smaller), [1, 1, 0]);
        let far = [grant(5, 10, 20, None), grant(2, 30, 40, None), grant(3, 50, 60, None)];
        assert_eq!(
            tokens_grow_from_holder_to_holder(&far).len(),
            2,
            "compared with the largest before, not with the last"
        );
    }

    // mutant: exclusion
    #[test]
    fn two_valid_holders_are_found() {
        let overlap = |one, other| validity_does_not_overlap(&[one, other]).len();
        assert_eq!(overlap(grant(1, 10, 30, None), grant(2, 20, 40, None)), 1, "the first is still valid");
        assert_eq!(overlap(grant(1, 10, 30, Some(15)), grant(2, 20, 40, None)), 0, "the first was released");
        assert_eq!(overlap(grant(1, 10, 30, None), grant(2, 30, 40, None)), 0, "one after the other");
        assert_eq!(
            overlap(grant(1, 10, 30, Some(50)), grant(2, 30, 40, None)),
            0,
            "the first was released after its end"
        );
        assert_eq!(
            overlap(grant(1, 10, 90, None), grant(2, 20, 40, Some(20))),
            1,
            "the second ended as soon as it was granted"
        );
        assert_eq!(overlap(grant(1, 10, 30, None), elsewhere(grant(2, 20, 40, None))), 0, "another resource");
        let inner = [grant(1, 10, 90, None), grant(2, 20, 30, None), grant(3, 40, 50, None)];
        assert_eq!(validity_does_not_overlap(&inner).len(), 2, "the first is valid during both later ones");
    }

    #[test]
    fn a_grant_that_ended_before_its_holder_saw_it_was_never_held() {
        assert!(grant(1, 10, 30, None).was_held());
        assert!(!grant(1, 20, 15, None).was_held(), "its validity had ended");
        assert!(!grant(1, 20, 40, Some(20)).was_held(), "its loss was noticed");
    }

    #[test]
    fn a_violation_names_both_grants() {
        let (one, other) = (grant(7, 10, 30, None), grant(8, 20, 40, None));
        let text = validity_does_not_overlap([&one, &other]).remove(0).to_string();
        assert!(text.contains("token 7 of r") && text.contains("token 8 of r"), "{text}");
    }

    fn reader(token: u64, granted: u64, claimed: u64, ended: Option<u64>) -> Grant<&'static str> {
        Grant { reads: true, ..grant(token, granted, claimed, ended) }
    }

    fn downgraded(at: u64, grant: Grant<&'static str>) -> Grant<&'static str> {
        Grant { downgraded: Some(Moment(at)), ..grant }
    }

    fn adopted(grant: Grant<&'static str>) -> Grant<&'static str> {
        Grant { is_adopted: true, ..grant }
    }

    // mutant: readers
    #[test]
    fn a_writer_beside_a_reader_is_found_and_two_readers_are_none() {
        let overlap = |one, other| validity_does_not_overlap(&[one, other]).len();
        assert_eq!(overlap(reader(1, 10, 30, None), reader(1, 20, 40, None)), 0, "readers overlap");
        assert_eq!(overlap(reader(1, 10, 30, None), grant(2, 20, 40, None)), 1, "a writer beside a reader");
        assert_eq!(overlap(grant(1, 10, 30, None), reader(2, 20, 40, None)), 1, "a reader beside a writer");
        assert_eq!(overlap(reader(1, 10, 30, Some(20)), grant(2, 20, 40, None)), 0, "it was released");
        let long = [reader(1, 10, 90, None), reader(1, 20, 30, None), grant(2, 40, 50, None)];
        assert_eq!(validity_does_not_overlap(&long).len(), 1, "the first reader is still valid");
        let readers = [reader(1, 10, 30, None), reader(1, 20, 40, None), reader(2, 50, 60, None)];
        assert_eq!(overlapping_readers(&readers), 1);
    }

    // mutant: readers
    #[test]
    fn a_reader_beside_a_writer_that_has_not_downgraded_yet_is_found() {
        let overlap = |writer, granted| validity_does_not_overlap(&[writer, reader(1, granted, 80, None)]).len();
        let writer = || downgraded(30, grant(1, 10, 90, None));
        assert_eq!([29, 30, 31].map(|granted| overlap(writer(), granted)), [1, 0, 0]);
        let writers = [writer(), grant(2, 40, 50, None)];
        assert_eq!(validity_does_not_overlap(&writers).len(), 1, "it reads on beside a writer");
        let late = downgraded(50, grant(1, 10, 40, None));
        assert_eq!(validity_does_not_overlap(&[late, grant(2, 45, 60, None)]).len(), 0, "it was lost before");
    }

    // mutant: fencing
    #[test]
    fn a_token_that_a_writer_shares_is_found() {
        let same = |one, other| tokens_are_unique(&[one, other]).len();
        assert_eq!(same(reader(1, 10, 30, None), reader(1, 20, 40, None)), 0, "readers may share one");
        assert_eq!(same(reader(1, 10, 20, None), grant(1, 30, 40, None)), 1, "a writer with the token of a reader");
        assert_eq!(same(grant(1, 10, 20, None), reader(1, 30, 40, None)), 1, "a reader with the token of a writer");
        let writer = || downgraded(15, grant(1, 10, 50, None));
        assert_eq!(same(writer(), reader(1, 30, 40, None)), 0, "who downgraded");
        assert_eq!(same(writer(), reader(1, 14, 40, None)), 1, "but later");
        assert_eq!(same(writer(), downgraded(35, grant(1, 30, 40, None))), 1, "two writers");
        let three = [writer(), reader(1, 20, 30, None), grant(1, 60, 70, None)];
        assert_eq!(tokens_are_unique(&three).len(), 1);
        assert_eq!(
            same(grant(1, 10, 50, None), adopted(grant(1, 20, 40, None))),
            0,
            "an adopted lock has its holder's"
        );
    }

    // mutant: readers
    #[test]
    fn tokens_of_readers_are_ordered_against_those_of_writers_only() {
        let unordered = |one: Grant<_>, other: Grant<_>| {
            let grants = [one, other];
            assert_eq!(tokens_are_ordered(&grants).len(), tokens_grow_from_holder_to_holder(&grants).len());
            tokens_are_ordered(&grants).len()
        };
        assert_eq!(unordered(reader(2, 10, 20, None), reader(1, 30, 40, None)), 0, "between readers there is no order");
        assert_eq!(unordered(grant(2, 10, 20, None), reader(1, 30, 40, None)), 1, "a reader below an earlier writer");
        assert_eq!(unordered(grant(2, 10, 20, None), reader(2, 30, 40, None)), 1);
        assert_eq!(unordered(reader(2, 10, 20, None), grant(1, 30, 40, None)), 1, "a writer below an earlier reader");
        assert_eq!(unordered(reader(2, 10, 20, None), grant(2, 30, 40, None)), 1);
        let writer = || downgraded(15, grant(2, 10, 50, None));
        assert_eq!(unordered(writer(), reader(2, 30, 40, None)), 0, "readers join the one that downgraded");
        assert_eq!(unordered(writer(), reader(1, 30, 40, None)), 1);
        let far = [grant(5, 10, 20, None), reader(6, 30, 40, None), reader(4, 50, 60, None)];
        assert_eq!(tokens_are_ordered(&far).len(), 1, "compared with the largest writer before");
        assert_eq!(tokens_grow_from_holder_to_holder(&far).len(), 1);
    }

    // mutant: delegation
    #[test]
    fn an_adopted_lock_excludes_all_but_its_own_holder() {
        let overlap = |one, other| validity_does_not_overlap(&[one, other]).len();
        assert_eq!(overlap(grant(1, 10, 30, None), adopted(grant(1, 20, 40, None))), 0);
        assert_eq!(overlap(adopted(grant(1, 20, 40, None)), grant(2, 35, 50, None)), 1, "the next holder");
        assert_eq!(overlap(adopted(reader(1, 20, 40, None)), reader(1, 35, 50, None)), 0, "it reads");
        let smaller = [grant(3, 10, 15, None), adopted(grant(1, 20, 40, None))];
        assert_eq!(tokens_grow_from_holder_to_holder(&smaller).len(), 1, "of a holder before the last one");
    }
}
