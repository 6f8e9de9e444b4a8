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
mod tests;
