//! Permits: the slots of a resource, each of which is a lock of its own, with a name such as `export{2}`.
//!
//! That a slot has one holder at a time, and tokens that grow, is what the checks of any lock find ([`check`](crate::check)). Here,
//! holders of different slots count together.

use std::collections::BTreeMap;

use crate::Grant;
use crate::check::{Kind, Violation};

/// The resource of a slot. `None` if it is the name of no slot.
#[must_use]
pub fn resource_of_slot(name: &str) -> Option<&str> {
    Some(name.strip_suffix('}')?.rsplit_once('{')?.0)
}

/// No more slots of a resource are held at once than it has permits. Counts each slot once: two holders of one slot are found by
/// [`validity_does_not_overlap`](crate::check::validity_does_not_overlap), which also knows them if one of them was evicted.
///
/// Leave out grants that were never held ([`Grant::was_held`]).
pub fn no_more_hold_than_there_are_permits<'a, H>(
    held: impl IntoIterator<Item = &'a Grant<H>>,
    permits: impl Fn(&str) -> u32,
) -> Vec<Violation<'a, H>> {
    let beyond = |(resource, together): (&str, Vec<&'a Grant<H>>)| match &together[..] {
        [earlier @ .., later] if earlier.len() >= permits(resource) as usize => {
            Some(Violation { kind: Kind::TooManyHolders, earlier: earlier[0], later })
        }
        _ => None,
    };
    held_together(held).into_iter().filter_map(beyond).collect()
}

/// The most slots of each resource that were held at once.
pub fn most_held_at_once<'a, H: 'a>(held: impl IntoIterator<Item = &'a Grant<H>>) -> BTreeMap<&'a str, usize> {
    let mut most = BTreeMap::new();
    for (resource, together) in held_together(held) {
        let most: &mut usize = most.entry(resource).or_default();
        *most = together.len().max(*most);
    }
    most
}

/// For each grant of a slot: its resource, and the grants of different slots that were held when it was granted. It is the last one.
fn held_together<'a, H>(held: impl IntoIterator<Item = &'a Grant<H>>) -> Vec<(&'a str, Vec<&'a Grant<H>>)> {
    let mut slots: Vec<&Grant<H>> = held.into_iter().filter(|it| resource_of_slot(&it.resource).is_some()).collect();
    slots.sort_by_key(|grant| grant.granted);
    let mut open: BTreeMap<&str, Vec<&Grant<H>>> = BTreeMap::new();
    let mut all = Vec::new();
    for grant in slots {
        let resource = resource_of_slot(&grant.resource).unwrap_or_default();
        let open = open.entry(resource).or_default();
        open.retain(|other| other.ends() > grant.granted);
        let others: BTreeMap<&str, &Grant<H>> = open.iter().map(|other| (other.resource.as_str(), *other)).collect();
        let others = others.into_values().filter(|other| other.resource != grant.resource);
        all.push((resource, others.chain([grant]).collect()));
        open.push(grant);
    }
    all
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Eviction, Moment, check};

    /// A grant of a slot of `r`.
    fn slot(slot: u32, token: u64, granted: u64, claimed: u64) -> Grant<&'static str> {
        Grant::new((format!("r{{{slot}}}"), token), "holder", [granted - 1, granted, claimed].map(Moment))
    }

    fn too_many(grants: &[Grant<&'static str>]) -> usize {
        no_more_hold_than_there_are_permits(grants, |_| 2).len()
    }

    #[test]
    fn a_slot_has_a_resource_and_a_lock_has_none() {
        assert_eq!(resource_of_slot("r{12}"), Some("r"));
        assert_eq!(resource_of_slot("r"), None);
    }

    // mutant: permits
    #[test]
    fn a_holder_beyond_the_permits_is_found() {
        let (one, other) = (slot(0, 1, 10, 40), slot(1, 1, 20, 50));
        assert_eq!(too_many(&[one.clone(), other.clone()]), 0);
        assert_eq!(too_many(&[one.clone(), other.clone(), slot(2, 1, 30, 60)]), 1);
        assert_eq!(too_many(&[one.clone(), other.clone(), slot(2, 1, 40, 60)]), 0, "the first one is over");
        let gone = Grant { ended: Some(Moment(25)), ..one.clone() };
        assert_eq!(too_many(&[gone, other.clone(), slot(2, 1, 30, 60)]), 0, "the first one was released");
        let elsewhere = Grant { resource: "s{2}".into(), ..slot(2, 1, 30, 60) };
        let lock = Grant { resource: "r".into(), ..slot(2, 1, 30, 60) };
        let grants = [one, other, elsewhere, lock];
        assert_eq!(too_many(&grants), 0, "another resource, and the lock on it");
        assert_eq!(most_held_at_once(&grants), BTreeMap::from([("r", 2), ("s", 1)]));
    }

    // mutant: permits
    #[test]
    fn two_holders_of_one_slot_are_found_unless_one_was_evicted() {
        let grants = [slot(0, 1, 10, 40), slot(1, 1, 12, 60), slot(0, 51, 24, 60)];
        assert_eq!(too_many(&grants), 0, "they have two slots");
        let (began, ended) = (Moment(20), Moment(23));
        let left = |name: &str| {
            let eviction = Eviction { resource: name.into(), token: Some(50), began, ended };
            let mut found = check::validity_does_not_overlap(&grants);
            found.retain(|violation| !eviction.excuses(violation, Duration::from_micros(30)));
            found.len()
        };
        assert_eq!((left("r{0}"), left("r{1}"), left("r")), (0, 1, 1), "of that slot; another one; the lock");
    }

    // mutant: permits
    #[test]
    fn a_token_of_a_slot_that_does_not_grow_is_found() {
        let unordered = |other| {
            let grants = [slot(0, 5, 10, 20), slot(other, 4, 30, 40)];
            assert_eq!(
                check::tokens_are_ordered(&grants).len(),
                check::tokens_grow_from_holder_to_holder(&grants).len()
            );
            check::tokens_are_ordered(&grants).len()
        };
        assert_eq!((unordered(0), unordered(1)), (1, 0), "each slot has tokens of its own");
        assert_eq!(check::tokens_are_unique(&[slot(0, 5, 10, 20), slot(0, 5, 30, 40)]).len(), 1);
    }
}
