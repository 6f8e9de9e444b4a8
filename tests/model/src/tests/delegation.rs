//! Explores all states of the model of delegations, and its mutants, each of which must violate a property.

use crate::{DelegationMutant, DelegationSetting, MUTUAL_EXCLUSION, NO_UNGUARDED_ADOPTER, explore_delegation};

fn is_caught(mutant: DelegationMutant) {
    let outcome = explore_delegation(
        DelegationSetting::LOOKING_AGAIN.with_mutant(mutant),
        Some(NO_UNGUARDED_ADOPTER),
        &|_, _| {},
    );
    println!("{mutant:?}: {} states in {:?}", outcome.states, outcome.took);
    assert!(outcome.violates(NO_UNGUARDED_ADOPTER), "{mutant:?} was not caught");
}

// promise: delegation
#[test]
fn no_adopter_works_while_another_holder_does() {
    let outcome = explore_delegation(DelegationSetting::LOOKING_AGAIN, None, &|_, _| {});
    println!("{} states in {:?}", outcome.states, outcome.took);
    outcome.violations.iter().for_each(|violation| println!("{violation}"));
    assert!(outcome.violations.is_empty(), "the runs that violate a property are printed above");
    assert!(outcome.states >= 70_000, "only {} states were explored", outcome.states);
    assert_eq!(outcome.properties, [NO_UNGUARDED_ADOPTER, MUTUAL_EXCLUSION]);
}

// mutant: delegation
#[test]
fn mutant_a_credential_whose_code_is_not_checked_is_caught() {
    is_caught(DelegationMutant::CodeUnchecked);
}

// mutant: delegation
#[test]
fn mutant_a_proof_by_a_majority_of_those_that_replied_is_caught() {
    is_caught(DelegationMutant::MajorityOfReplies);
}

// mutant: delegation
#[test]
fn mutant_a_delegated_lock_that_is_handed_over_is_caught() {
    is_caught(DelegationMutant::HandedOver);
}

// mutant: delegation
#[test]
fn mutant_a_release_under_an_adopter_is_caught() {
    is_caught(DelegationMutant::ReleasedUnderAdopter);
}
