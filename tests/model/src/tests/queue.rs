//! Explores all states of the model of the nodes' queues, and its mutants, each of which must violate a
//! property.

use crate::{
    MAJORITY_GRANTS, MUTUAL_EXCLUSION, ORDERED_TOKENS, OWN_KEYS_ONLY, QueueMutant, QueueSetting, REFINEMENT,
    UNIQUE_TOKENS, explore_queue,
};

fn check(setting: QueueSetting, at_least: usize) {
    let outcome = explore_queue(setting, None, &|_, _| {});
    println!("{} states in {:?}", outcome.states, outcome.took);
    outcome.violations.iter().for_each(|violation| println!("{violation}"));
    assert!(outcome.violations.is_empty(), "the runs that violate a property are printed above");
    assert!(outcome.states >= at_least, "only {} states were explored", outcome.states);
    for property in [UNIQUE_TOKENS, ORDERED_TOKENS, MAJORITY_GRANTS, OWN_KEYS_ONLY, REFINEMENT] {
        assert!(outcome.properties.contains(&property), "{property} was not checked");
    }
}

fn is_caught(setting: QueueSetting, property: &'static str) {
    let mutant = setting.mutant;
    let outcome = explore_queue(setting, Some(property), &|_, _| {});
    println!("{mutant:?}: {} states in {:?}", outcome.states, outcome.took);
    assert!(outcome.violates(property), "{mutant:?} was not caught by: {property}");
}

/// Two processes, one of which tries again while requests of its first attempt are in flight.
const AGAIN: QueueSetting = QueueSetting::new([2, 1, 0]);
/// Two processes, and positions that are lost.
const LOSING: QueueSetting = QueueSetting { lost_positions: 1, ..QueueSetting::new([1, 1, 0]) };

// promise: exclusion, turns
#[test]
#[ignore = "long: bash tests/run.sh --long"]
fn the_queue_violates_no_property_when_a_process_tries_again() {
    check(AGAIN, 500_000);
}

// promise: exclusion, turns
#[test]
fn the_queue_violates_no_property_when_positions_are_lost() {
    check(LOSING, 200_000);
}

// mutant: exclusion, turns
#[test]
fn mutant_wakeups_that_count_as_votes_are_caught() {
    let delivered = QueueSetting { wakeups: true, ..AGAIN }.with_mutant(QueueMutant::WakeupsAsVotes);
    is_caught(delivered.clone(), MUTUAL_EXCLUSION);
    is_caught(delivered, MAJORITY_GRANTS);
}

// mutant: exclusion
#[test]
fn mutant_a_release_for_any_attempt_of_its_process_is_caught() {
    is_caught(AGAIN.with_mutant(QueueMutant::ReleaseByWaiterId), MUTUAL_EXCLUSION);
    is_caught(AGAIN.with_mutant(QueueMutant::ReleaseByWaiterId), OWN_KEYS_ONLY);
}

// mutant: exclusion
#[test]
fn mutant_one_owner_id_for_the_attempts_of_a_process_is_caught() {
    is_caught(AGAIN.with_mutant(QueueMutant::SharedOwnerId), MUTUAL_EXCLUSION);
}
