//! Explores the membership ([`lock_core::quorum::Membership`]) together with a lock, and mutants of it, each of which must
//! violate a property. The larger settings take minutes and are explored by
//! `cargo run --release -p lock-model -- membership`.

use crate::{
    Locks, MUTUAL_EXCLUSION, MembershipMutant, MembershipSetting, NO_DEADLOCK_OF_CHANGES, ONE_ROSTER,
    ONE_RULING_ROSTER, ORDERED_TOKENS, Pace, QUARANTINE_IS_LONG_ENOUGH, explore_membership,
};

fn check(setting: MembershipSetting, at_least: usize, properties: &[&'static str]) {
    let outcome = explore_membership(setting, None, &|_, _| {});
    println!("{} states in {:?}", outcome.states, outcome.took);
    outcome.violations.iter().for_each(|violation| println!("{violation}"));
    assert!(outcome.violations.is_empty(), "the runs that violate a property are printed above");
    assert!(outcome.states >= at_least, "only {} states were explored", outcome.states);
    for property in [ONE_ROSTER, ONE_RULING_ROSTER].iter().chain(properties) {
        assert!(outcome.properties.contains(property), "{property} was not checked");
    }
}

fn is_caught(setting: MembershipSetting, property: &'static str) {
    let mutant = setting.mutant;
    let outcome = explore_membership(setting, Some(property), &|_, _| {});
    println!("{mutant:?}: {} states in {:?}", outcome.states, outcome.took);
    assert!(outcome.violates(property), "{mutant:?} was not caught by: {property}");
}

/// Two clients, one of which puts node 3 in the place of node 2.
const OLD_AND_NEW: &[&[usize]] = &[&[0, 1, 2], &[0, 1, 3]];

/// A change while the lock is acquired twice: a node is replaced by one that only one of two clients has in its list.
const REPLACED: MembershipSetting = MembershipSetting {
    attempts: &[0, 1],
    locks: Locks::Timed { ttl: 1 },
    last_tick: 1,
    reads_all: true,
    pace: Pace::Everything,
    ..MembershipSetting::new("a node is replaced", OLD_AND_NEW)
};
/// One client, and a node that forgets.
const FORGOTTEN: MembershipSetting = MembershipSetting {
    attempts: &[0, 0],
    locks: Locks::Timed { ttl: 1 },
    last_tick: 1,
    forgets: 1,
    faulty: &[2],
    reads_all: true,
    pace: Pace::Everything,
    ..MembershipSetting::new("a node forgets", &[&[0, 1, 2]])
};
/// The same, one message after the other once the roster is chosen. Keys expire at any step, and quarantines have no length.
const ORDER: MembershipSetting = MembershipSetting {
    attempts: &[0, 0],
    forgets: 1,
    faulty: &[2],
    reads_all: true,
    pace: Pace::Choice,
    ..MembershipSetting::new("order of tokens", &[&[0, 1, 2]])
};
/// One client, and a node that is started with an earlier copy of its files, under its run id.
const RESTORED: MembershipSetting =
    MembershipSetting { name: "a node is an earlier copy", forgets: 0, restores: 1, ..FORGOTTEN };
/// Clients that put different nodes in the place of one.
const RIVALS: MembershipSetting = MembershipSetting {
    reads_all: true,
    passive: &[0],
    ..MembershipSetting::new("rivals", &[&[0, 1, 2], &[0, 1, 3], &[1, 2, 4]])
};
/// A client that has not seen a change has to complete it, with the node that left.
const ENDED_BY_ANOTHER: MembershipSetting = MembershipSetting {
    reads_all: true,
    pace: Pace::Choice,
    ignorant: &[2],
    deadlocks: true,
    ..MembershipSetting::new("a change is completed", &[&[0, 1, 2], &[0, 1, 3], &[0, 2, 3]])
};

/// A client whose list names one master twice, and finds out about each address on its own.
const TWO_ADDRESSES: MembershipSetting = MembershipSetting {
    attempts: &[0, 1],
    locks: Locks::Timed { ttl: 1 },
    renewals: 1,
    last_tick: 1,
    ignorant: &[1],
    passive: &[0, 1],
    joins_late: true,
    ..MembershipSetting::new("two addresses of one master", &[&[0, 1, 2], &[1, 1, 2]])
};
/// Addresses that lead to another set, and back: all nodes of both sets keep their data.
const DETOURS: MembershipSetting = MembershipSetting {
    attempts: &[0, 1, 0, 1],
    locks: Locks::Timed { ttl: 1 },
    last_tick: 3,
    detours: 3,
    fresh: &[0, 1],
    passive: &[0, 1],
    ..MembershipSetting::new("addresses that lead elsewhere", &[&[0], &[0]])
};

/// A set of which a majority was lost, and another one that was formed over it, while a client of the first one goes on.
const SUCCEEDED: MembershipSetting = MembershipSetting {
    attempts: &[0, 1],
    locks: Locks::Timed { ttl: 1 },
    last_tick: 3,
    reads_all: true,
    pace: Pace::Everything,
    successor: Some(1),
    max_generation: 3,
    ..MembershipSetting::new("a set is formed over another", &[&[0, 1, 2], &[3, 4, 2]])
};

// promise: membership
#[test]
fn a_set_that_another_one_was_formed_over_has_ended() {
    check(SUCCEEDED, 100, &[MUTUAL_EXCLUSION, ORDERED_TOKENS]);
}

// mutant: membership
#[test]
fn mutant_a_client_that_does_not_see_what_was_formed_over_its_set_is_caught() {
    is_caught(SUCCEEDED.with_mutant(MembershipMutant::SuccessorIgnored), MUTUAL_EXCLUSION);
}

// promise: membership
#[test]
fn a_master_with_two_addresses_has_one_vote() {
    check(TWO_ADDRESSES, 1_000, &[MUTUAL_EXCLUSION, ORDERED_TOKENS]);
}

// promise: membership
#[test]
fn a_client_that_left_a_set_waits_until_its_locks_have_ended() {
    let outcome = explore_membership(DETOURS, Some(MUTUAL_EXCLUSION), &|_, _| {});
    println!("{} states in {:?}", outcome.states, outcome.took);
    // Tokens of sets that know nothing of each other are in no order but that of their clocks, which the model does not have.
    assert!(!outcome.violates(MUTUAL_EXCLUSION) && outcome.states > 100_000);
}

// mutant: membership
#[test]
fn mutant_a_seat_that_is_asked_over_two_addresses_is_caught() {
    is_caught(TWO_ADDRESSES.with_mutant(MembershipMutant::SeatAskedTwice), MUTUAL_EXCLUSION);
}

// mutant: membership
#[test]
fn mutant_a_client_that_counts_votes_of_the_next_set_at_once_is_caught() {
    is_caught(DETOURS.with_mutant(MembershipMutant::LeftSetNotWaitedFor), MUTUAL_EXCLUSION);
}

// promise: exclusion, membership, fencing
#[test]
fn clients_with_different_lists_hold_no_lock_at_once() {
    check(REPLACED, 10_000, &[MUTUAL_EXCLUSION, ORDERED_TOKENS, QUARANTINE_IS_LONG_ENOUGH]);
}

// promise: quarantine, exclusion, fencing
#[test]
fn a_node_that_forgot_breaks_neither_exclusion_nor_the_order_of_tokens() {
    check(FORGOTTEN, 5_000, &[MUTUAL_EXCLUSION, ORDERED_TOKENS, QUARANTINE_IS_LONG_ENOUGH]);
}

// promise: quarantine
#[test]
fn a_wrong_clock_ends_no_quarantine() {
    let setting = MembershipSetting { jumps: 1, ..FORGOTTEN };
    check(setting, 10_000, &[MUTUAL_EXCLUSION, ORDERED_TOKENS, QUARANTINE_IS_LONG_ENOUGH]);
}

// promise: membership
#[test]
fn a_change_that_was_begun_can_be_completed_by_another_client() {
    check(ENDED_BY_ANOTHER, 3_000, &[NO_DEADLOCK_OF_CHANGES]);
}

// mutant: membership
#[test]
fn mutant_votes_that_are_not_bound_to_the_roster_are_caught() {
    is_caught(REPLACED.with_mutant(MembershipMutant::VotesNotBoundToRoster), MUTUAL_EXCLUSION);
}

// mutant: membership
#[test]
fn mutant_a_vote_without_a_seat_is_caught() {
    is_caught(REPLACED.with_mutant(MembershipMutant::NoOwnSeatNeeded), MUTUAL_EXCLUSION);
}

// mutant: membership
#[test]
fn mutant_an_address_as_the_identity_is_caught() {
    is_caught(FORGOTTEN.with_mutant(MembershipMutant::AddressAsIdentity), MUTUAL_EXCLUSION);
}

// mutant: membership
#[test]
fn mutant_a_roster_that_a_minority_chose_is_caught() {
    let setting = MembershipSetting { fresh: &[1, 2], ..RIVALS };
    is_caught(setting.with_mutant(MembershipMutant::ChosenByMinority), ONE_ROSTER);
}

// mutant: membership
#[test]
fn mutant_a_promise_that_is_forgotten_is_caught() {
    let setting = MembershipSetting { lists: &[&[0, 1, 2], &[0, 1, 3], &[0, 1, 4]], ..RIVALS };
    is_caught(setting.with_mutant(MembershipMutant::PromiseForgotten), ONE_ROSTER);
}

// mutant: membership
#[test]
fn mutant_an_id_that_the_client_alone_draws_is_caught() {
    let setting = MembershipSetting { formed: false, late_writes: 1, last_tick: 0, ..FORGOTTEN };
    is_caught(setting.with_mutant(MembershipMutant::IdDrawnByProposer), MUTUAL_EXCLUSION);
}

// mutant: fencing
#[test]
fn mutant_a_floor_that_is_not_applied_is_caught() {
    is_caught(ORDER.with_mutant(MembershipMutant::FloorNotApplied), ORDERED_TOKENS);
}

// mutant: fencing
#[test]
fn mutant_a_floor_from_a_minority_is_caught() {
    is_caught(ORDER.with_mutant(MembershipMutant::FloorFromMinority), ORDERED_TOKENS);
}

// mutant: fencing
#[test]
fn mutant_a_floor_that_is_read_before_the_install_is_caught() {
    is_caught(ORDER.with_mutant(MembershipMutant::FloorReadBeforeInstall), ORDERED_TOKENS);
}

// mutant: fencing
#[test]
fn mutant_a_floor_from_the_others_of_the_next_roster_is_caught() {
    is_caught(ENDED_BY_ANOTHER.with_mutant(MembershipMutant::FloorFromOthersOfNext), NO_DEADLOCK_OF_CHANGES);
}

// mutant: quarantine
#[test]
fn mutant_a_node_that_joins_without_a_quarantine_is_caught() {
    is_caught(FORGOTTEN.with_mutant(MembershipMutant::NoQuarantine), MUTUAL_EXCLUSION);
}

// mutant: quarantine
#[test]
fn mutant_an_exemption_for_durable_servers_is_caught() {
    let setting = MembershipSetting { forgets: 0, restarts: 1, ..FORGOTTEN };
    is_caught(setting.with_mutant(MembershipMutant::ExemptionForDurable), MUTUAL_EXCLUSION);
}

// promise: quarantine, exclusion, fencing
#[test]
fn a_node_that_was_started_with_an_earlier_copy_of_its_files_is_one_that_forgot() {
    check(RESTORED, 5_000, &[MUTUAL_EXCLUSION, ORDERED_TOKENS, QUARANTINE_IS_LONG_ENOUGH]);
}

// mutant: quarantine
#[test]
fn mutant_an_earlier_end_of_a_log_that_is_not_seen_is_caught() {
    is_caught(RESTORED.with_mutant(MembershipMutant::LogPositionIgnored), MUTUAL_EXCLUSION);
}

// mutant: quarantine
#[test]
fn mutant_an_observer_that_knows_nothing_and_says_over_is_caught() {
    is_caught(FORGOTTEN.with_mutant(MembershipMutant::AbsenceTakenForOver), QUARANTINE_IS_LONG_ENOUGH);
}

// mutant: membership
#[test]
fn mutant_a_first_start_by_a_client_that_knew_the_set_is_caught() {
    let setting = MembershipSetting { lists: &[&[0]], faulty: &[0], ..FORGOTTEN };
    is_caught(setting.with_mutant(MembershipMutant::FirstStartByOneThatKnew), MUTUAL_EXCLUSION);
}

// mutant: membership
#[test]
fn mutant_a_set_that_a_majority_formed_is_caught() {
    let setting = MembershipSetting {
        formed: false,
        reads_all: true,
        fresh: &[1],
        ..MembershipSetting::new("a majority forms", OLD_AND_NEW)
    };
    is_caught(setting.with_mutant(MembershipMutant::FormedByMajority), ONE_RULING_ROSTER);
}

// mutant: quarantine
#[test]
fn mutant_a_quarantine_that_is_lowered_with_max_ttl_is_caught() {
    let setting =
        MembershipSetting { locks: Locks::Timed { ttl: 2 }, lowering: Some(0), max_generation: 3, ..FORGOTTEN };
    is_caught(setting.with_mutant(MembershipMutant::QuarantineLoweredWithMaxTtl), MUTUAL_EXCLUSION);
}

// mutant: quarantine
#[test]
fn mutant_one_wrong_clock_that_ends_a_quarantine_is_caught() {
    let setting = MembershipSetting { jumps: 1, ..FORGOTTEN };
    is_caught(setting.with_mutant(MembershipMutant::OneClockEndsQuarantine), QUARANTINE_IS_LONG_ENOUGH);
}
