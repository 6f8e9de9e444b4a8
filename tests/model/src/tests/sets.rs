//! Explores all states of the model of sets of locks, and its mutants, each of which must be stuck.

use crate::{COMPLETE_SETS, NO_STUCK_SET, SetsMutant, SetsSetting, explore_sets};

fn check(setting: SetsSetting, at_least: usize) {
    let outcome = explore_sets(setting, None, &|_, _| {});
    println!("{} states in {:?}", outcome.states, outcome.took);
    outcome.violations.iter().for_each(|violation| println!("{violation}"));
    assert!(outcome.violations.is_empty(), "the runs that violate a property are printed above");
    assert!(outcome.states >= at_least, "only {} states were explored", outcome.states);
    assert_eq!(outcome.properties, [COMPLETE_SETS, NO_STUCK_SET]);
}

fn is_caught(setting: SetsSetting) {
    let mutant = setting.mutant;
    let outcome = explore_sets(setting, Some(NO_STUCK_SET), &|_, _| {});
    println!("{mutant:?}: {} states in {:?}", outcome.states, outcome.took);
    assert!(outcome.violates(NO_STUCK_SET), "{mutant:?} was not caught");
}

/// Two callers that write the same locks in opposite orders.
const OPPOSITE: SetsSetting = SetsSetting::new(&["abc", "cba"]);
/// Three callers, each of which shares a lock with each other one.
const CIRCLE: SetsSetting = SetsSetting::new(&["ab", "bc", "ca"]);

// promise: several-locks
#[test]
fn sets_that_are_written_in_opposite_orders_are_never_stuck() {
    check(OPPOSITE, 100);
}

// promise: several-locks
#[test]
fn sets_that_overlap_in_a_circle_are_never_stuck() {
    check(CIRCLE, 1000);
}

// mutant: several-locks
#[test]
fn mutant_locks_in_the_order_in_which_they_are_written_are_caught() {
    is_caught(OPPOSITE.with_mutant(SetsMutant::Unsorted));
    is_caught(CIRCLE.with_mutant(SetsMutant::Unsorted));
}

// mutant: several-locks
#[test]
fn mutant_locks_that_are_kept_behind_a_contended_one_are_caught() {
    is_caught(OPPOSITE.with_mutant(SetsMutant::KeepsBehind));
}
