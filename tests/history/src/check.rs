//! What must hold of recorded grants. Each check returns the violations that it found.

use std::fmt;

use crate::{Grant, by_resource};

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
    /// Tokens are unique.
    SameToken,
    /// An acquisition that began after another one completed has the larger token.
    TokenOutOfOrder,
    /// A holder has a larger token than every holder before it.
    HolderOutOfOrder,
    /// No two holders are valid at once.
    TwoHolders,
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
        }
    }
}

/// Tokens of one resource are unique.
pub fn tokens_are_unique<'a, H>(grants: impl IntoIterator<Item = &'a Grant<H>>) -> Vec<Violation<'a, H>> {
    let mut violations = Vec::new();
    for grants in by_resource(grants, |grant| (grant.token, grant.granted)).into_values() {
        let twice = grants.windows(2).filter(|pair| pair[0].token == pair[1].token);
        violations.extend(twice.map(|pair| Violation { kind: Kind::SameToken, earlier: pair[0], later: pair[1] }));
    }
    violations
}

/// If one acquisition completed before another began, its token is smaller.
pub fn tokens_are_ordered<'a, H>(grants: impl IntoIterator<Item = &'a Grant<H>>) -> Vec<Violation<'a, H>> {
    let mut violations = Vec::new();
    for completed in by_resource(grants, |grant| grant.granted).into_values() {
        let mut begun = completed.clone();
        begun.sort_by_key(|grant| grant.began);
        let mut completed = completed.into_iter().peekable();
        let mut largest: Option<&Grant<H>> = None;
        for later in begun {
            while let Some(before) = completed.next_if(|before| before.granted < later.began) {
                if largest.is_none_or(|largest| largest.token < before.token) {
                    largest = Some(before);
                }
            }
            if let Some(earlier) = largest.filter(|largest| largest.token >= later.token) {
                violations.push(Violation { kind: Kind::TokenOutOfOrder, earlier, later });
            }
        }
    }
    violations
}

/// Each holder has a larger token than all holders before it: the order in which they were valid is the order of their tokens.
/// That includes holders whose acquisitions overlapped, and holders to which the lock was handed over.
///
/// Leave out grants that were never held ([`Grant::was_held`]): they have no place in that order.
pub fn tokens_grow_from_holder_to_holder<'a, H>(held: impl IntoIterator<Item = &'a Grant<H>>) -> Vec<Violation<'a, H>> {
    let mut violations = Vec::new();
    for held in by_resource(held, |grant| grant.granted).into_values() {
        let mut largest: Option<&Grant<H>> = None;
        for later in held {
            if let Some(earlier) = largest.filter(|largest| largest.token >= later.token) {
                violations.push(Violation { kind: Kind::HolderOutOfOrder, earlier, later });
            } else {
                largest = Some(later);
            }
        }
    }
    violations
}

/// No holder is granted the lock while another one is valid.
///
/// Leave out grants that were never held ([`Grant::was_held`]), if the history has any.
pub fn validity_does_not_overlap<'a, H>(held: impl IntoIterator<Item = &'a Grant<H>>) -> Vec<Violation<'a, H>> {
    let mut violations = Vec::new();
    for held in by_resource(held, |grant| grant.granted).into_values() {
        let mut longest: Option<&Grant<H>> = None;
        for later in held {
            if let Some(earlier) = longest.filter(|longest| longest.ends() > later.granted) {
                violations.push(Violation { kind: Kind::TwoHolders, earlier, later });
            }
            if longest.is_none_or(|longest| longest.ends() < later.ends()) {
                longest = Some(later);
            }
        }
    }
    violations
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

    #[test]
    fn two_grants_with_the_same_token_are_found() {
        let twice = |one, other| tokens_are_unique(&[one, other]).len();
        assert_eq!(twice(grant(1, 10, 20, None), grant(2, 30, 40, None)), 0);
        assert_eq!(twice(grant(1, 10, 20, None), grant(1, 30, 40, None)), 1);
        assert_eq!(twice(grant(1, 10, 20, None), elsewhere(grant(1, 30, 40, None))), 0, "another resource");
    }

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
}
