//! Adopted locks: another service works under the lock of the holder who delegated it, and with its token.

use std::time::Duration;

use crate::check::{Kind, Violation};
use crate::{Grant, by_resource};

/// An adopted lock is that of a holder with the same token, who had it when it was adopted, and it ends with the key of that holder: not
/// later than `max_ttl` after the holder, and never to begin with once the holder knew that the key was deleted. Also finds what was
/// adopted of nobody, of whom it names the adopter itself.
pub fn ends_with_the_key_of_its_holder<'a, H>(
    grants: impl IntoIterator<Item = &'a Grant<H>>,
    max_ttl: Duration,
) -> Vec<Violation<'a, H>> {
    let mut violations = Vec::new();
    for grants in by_resource(grants, |grant| (grant.token, grant.granted)).into_values() {
        for same in grants.chunk_by(|one, other| one.token == other.token) {
            let (adopted, holders): (Vec<&Grant<H>>, Vec<_>) = same.iter().partition(|grant| grant.is_adopted);
            for later in adopted {
                let has_key = |holder: &&Grant<H>| {
                    let was_there =
                        holder.granted <= later.granted && holder.deleted.is_none_or(|at| later.began <= at);
                    was_there && (!later.was_held() || later.ends() <= holder.ends().plus(max_ttl))
                };
                if !holders.iter().any(has_key) {
                    let earlier = holders.last().copied().unwrap_or(later);
                    violations.push(Violation { kind: Kind::AdoptedWithoutHolder, earlier, later });
                }
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Moment;

    const TTL: Duration = Duration::from_micros(30);

    fn grant(token: u64, granted: u64, claimed: u64) -> Grant<&'static str> {
        Grant::new(("r", token), "holder", [granted - 1, granted, claimed].map(Moment))
    }

    fn adopted(token: u64, granted: u64, claimed: u64) -> Grant<&'static str> {
        Grant { is_adopted: true, ..grant(token, granted, claimed) }
    }

    // mutant: delegation
    #[test]
    fn an_adopted_lock_that_outlives_the_key_of_its_holder_is_found() {
        let found = |grants: &[Grant<_>]| ends_with_the_key_of_its_holder(grants, TTL).len();
        assert_eq!(found(&[grant(1, 10, 40), adopted(1, 20, 70)]), 0);
        assert_eq!(found(&[grant(1, 10, 40), adopted(1, 20, 71)]), 1, "the key has expired by then");
        assert_eq!(found(&[adopted(1, 20, 40)]), 1, "of nobody");
        assert_eq!(found(&[grant(2, 10, 40), adopted(1, 20, 40)]), 1, "of another token");
        assert_eq!(found(&[grant(1, 25, 40), adopted(1, 20, 40)]), 1, "before its holder had it");
    }

    // mutant: delegation
    #[test]
    fn a_lock_that_is_adopted_after_its_release_is_found() {
        let found = |granted| {
            let (ended, deleted) = (Some(Moment(20)), Some(Moment(22)));
            let holder = Grant { ended, released: ended, deleted, ..grant(1, 10, 40) };
            ends_with_the_key_of_its_holder(&[holder, adopted(1, granted, granted)], TTL).len()
        };
        assert_eq!([22, 23, 24].map(found), [0, 0, 1]);
    }

    #[test]
    fn one_of_several_readers_with_the_token_is_enough() {
        let gone = Grant { ended: Some(Moment(20)), deleted: Some(Moment(20)), ..grant(1, 10, 40) };
        assert_eq!(ends_with_the_key_of_its_holder(&[gone, grant(1, 15, 60), adopted(1, 30, 50)], TTL).len(), 0);
    }
}
