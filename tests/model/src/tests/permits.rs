//! Explores all states of the models of permits and of the pairing, and their mutants, each of which must violate a property.

use crate::{
    AT_MOST_PERMITS, NO_IDLE_SLOT, NO_SLOT_WAITS_FOR_A_TIMER, ONE_HOLDER_OF_A_SLOT, ORDERED_TOKENS, PairingSetting,
    PairingStart, PermitsMutant, PermitsSetting, TAKEN_AFTER_TIMERS, VALID_CLAIMS_ACCEPTED, explore_pairing,
    explore_permits,
};

fn check(setting: PermitsSetting, at_least: usize) {
    let outcome = explore_permits(setting, None, &|_, _| {});
    println!("{} states in {:?}", outcome.states, outcome.took);
    outcome.violations.iter().for_each(|violation| println!("{violation}"));
    assert!(outcome.violations.is_empty(), "the runs that violate a property are printed above");
    assert!(outcome.states >= at_least, "only {} states were explored", outcome.states);
    for property in [AT_MOST_PERMITS, ORDERED_TOKENS, VALID_CLAIMS_ACCEPTED, NO_IDLE_SLOT] {
        assert!(outcome.properties.contains(&property), "{property} was not checked");
    }
}

fn is_caught(setting: PermitsSetting, property: &'static str) {
    let mutant = setting.mutant;
    let outcome = explore_permits(setting, Some(property), &|_, _| {});
    println!("{mutant:?}: {} states in {:?}", outcome.states, outcome.took);
    outcome.violations.iter().for_each(|violation| println!("{violation}"));
    assert!(outcome.violates(property), "{mutant:?} was not caught by: {property}");
}

/// Two clients that take the slots, and one that waits.
const ONE_WAITS: PermitsSetting = PermitsSetting::new([1, 1, 2, 0]);
/// Another one takes a slot again.
const THREE: PermitsSetting = PermitsSetting::new([2, 1, 2, 0]);

// promise: permits
#[test]
fn permits_violate_no_property() {
    check(ONE_WAITS, 40_000);
}

// promise: permits
#[test]
#[ignore = "long: bash tests/run.sh --long"]
fn permits_violate_no_property_in_the_larger_settings() {
    PermitsSetting::long().into_iter().for_each(|setting| check(setting, 100_000));
}

// mutant: permits
#[test]
fn mutant_counted_permits_let_three_hold_two_permits_on_three_nodes() {
    is_caught(PermitsSetting::new([1, 1, 1, 0]).with_mutant(PermitsMutant::Counted), AT_MOST_PERMITS);
}

// mutant: permits
#[test]
fn mutant_one_fence_for_all_slots_refuses_a_valid_holder() {
    is_caught(THREE.with_mutant(PermitsMutant::OneFence), VALID_CLAIMS_ACCEPTED);
}

// mutant: permits
#[test]
fn mutant_a_queue_for_each_slot_leaves_one_idle() {
    is_caught(THREE.with_mutant(PermitsMutant::QueuePerSlot), NO_IDLE_SLOT);
}

fn check_pairing(setting: PairingSetting, at_least: usize) {
    let outcome = explore_pairing(setting, None, &|_, _| {});
    println!("{setting}: {} states in {:?}", outcome.states, outcome.took);
    outcome.violations.iter().for_each(|violation| println!("{violation}"));
    assert!(outcome.violations.is_empty(), "the runs that violate a property are printed above");
    assert!(outcome.states >= at_least, "only {} states were explored", outcome.states);
    for property in [NO_SLOT_WAITS_FOR_A_TIMER, TAKEN_AFTER_TIMERS, ONE_HOLDER_OF_A_SLOT] {
        assert!(outcome.properties.contains(&property), "{property} was not checked");
    }
}

// promise: permits
#[test]
fn a_slot_that_a_majority_has_free_is_taken_although_the_nodes_do_not_agree() {
    check_pairing(PairingSetting::new(PairingStart::Stuck), 4_000);
}

// promise: permits
#[test]
#[ignore = "long: bash tests/run.sh --long"]
fn a_slot_that_a_majority_has_free_is_taken_in_the_larger_settings() {
    PairingSetting::long().into_iter().for_each(|setting| check_pairing(setting, 10_000));
}

// mutant: permits
#[test]
fn mutant_slots_that_are_kept_in_the_order_of_the_releases_leave_one_idle() {
    let setting = PairingSetting { keeps: true, ..PairingSetting::new(PairingStart::BareAndStuck) };
    let outcome = explore_pairing(setting, Some(NO_SLOT_WAITS_FOR_A_TIMER), &|_, _| {});
    outcome.violations.iter().for_each(|violation| println!("{violation}"));
    assert!(outcome.violates(NO_SLOT_WAITS_FOR_A_TIMER));
}
