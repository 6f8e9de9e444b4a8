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
    assert_eq!(tokens_grow_from_holder_to_holder(&far).len(), 2, "compared with the largest before, not with the last");
}

// mutant: exclusion
#[test]
fn two_valid_holders_are_found() {
    let overlap = |one, other| validity_does_not_overlap(&[one, other]).len();
    assert_eq!(overlap(grant(1, 10, 30, None), grant(2, 20, 40, None)), 1, "the first is still valid");
    assert_eq!(overlap(grant(1, 10, 30, Some(15)), grant(2, 20, 40, None)), 0, "the first was released");
    assert_eq!(overlap(grant(1, 10, 30, None), grant(2, 30, 40, None)), 0, "one after the other");
    assert_eq!(overlap(grant(1, 10, 30, Some(50)), grant(2, 30, 40, None)), 0, "the first was released after its end");
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
    assert_eq!(same(grant(1, 10, 50, None), adopted(grant(1, 20, 40, None))), 0, "an adopted lock has its holder's");
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
