//! Explores all states of the model of the turns that waiters get ([`lock_model`]), and its mutants, each of which must violate a
//! property.

use lock_model::{
    BOUNDED_OVERTAKING, FREE_KEYS_RESERVED, MUTUAL_EXCLUSION, ONE_ORDER, QueueMutant, TAKEN_IN_TIME, TurnsSetting,
    explore_turns,
};

fn check(setting: TurnsSetting, at_least: usize) {
    let outcome = explore_turns(setting, None, |_, _| {});
    println!("{} states in {:?}", outcome.states, outcome.took);
    outcome.violations.iter().for_each(|violation| println!("{violation}"));
    assert!(outcome.violations.is_empty(), "the runs that violate a property are printed above");
    assert!(outcome.states >= at_least, "only {} states were explored", outcome.states);
    assert_eq!(
        outcome.properties,
        [BOUNDED_OVERTAKING, ONE_ORDER, TAKEN_IN_TIME, FREE_KEYS_RESERVED, MUTUAL_EXCLUSION]
    );
}

fn is_caught(setting: TurnsSetting, mutant: QueueMutant, property: &'static str) {
    let outcome = explore_turns(setting.with_mutant(mutant), Some(property), |_, _| {});
    println!("{mutant:?}: {} states in {:?}", outcome.states, outcome.took);
    assert!(outcome.violates(property), "{mutant:?} was not caught by: {property}");
}

#[test]
fn turns_are_in_order_and_cost_no_time() {
    check(TurnsSetting::ORDERLY, 25_000);
}

#[test]
fn all_nodes_have_one_order_although_votes_are_split() {
    check(TurnsSetting::TIES, 15_000);
}

#[test]
fn a_waiter_that_died_costs_no_reservation() {
    check(TurnsSetting::KILLED, 40_000);
}

#[test]
fn a_frozen_waiter_costs_one_reservation() {
    check(TurnsSetting::FROZEN, 10_000);
}

#[test]
fn a_waiter_that_reconnects_keeps_its_turn() {
    check(TurnsSetting::CUT, 40_000);
}

#[test]
fn a_waiter_whose_request_to_leave_is_lost_costs_no_reservation() {
    check(TurnsSetting::LEAVING, 60_000);
}

#[test]
fn a_waiter_that_polls_gets_its_turn() {
    check(TurnsSetting::POLLING, 90_000);
}

#[test]
fn a_lost_wakeup_costs_reservations_not_turns() {
    check(TurnsSetting::LOST_WAKEUP, 60_000);
}

#[test]
fn the_first_in_line_follows_a_stranger() {
    check(TurnsSetting::STRANGER, 1_000);
}

#[test]
fn callers_that_do_not_wait_pass_nobody() {
    check(TurnsSetting::TRYING, 2_000);
}

#[test]
fn a_full_queue_refuses_the_youngest() {
    check(TurnsSetting::FULL, 50_000);
}

#[test]
fn mutant_a_gone_waiter_that_is_kept_is_caught() {
    is_caught(TurnsSetting::KILLED, QueueMutant::GoneAreKept, TAKEN_IN_TIME);
}

#[test]
fn mutant_reservations_that_do_not_pass_are_caught() {
    is_caught(TurnsSetting::FROZEN, QueueMutant::ReservationsDoNotPass, TAKEN_IN_TIME);
}

#[test]
fn mutant_a_grant_that_removes_all_waiters_is_caught() {
    is_caught(TurnsSetting::ORDERLY, QueueMutant::GrantEmptiesQueue, BOUNDED_OVERTAKING);
}

#[test]
fn mutant_a_grant_that_keeps_the_reservations_is_caught() {
    is_caught(TurnsSetting::ORDERLY, QueueMutant::GrantKeepsReservations, FREE_KEYS_RESERVED);
}

#[test]
fn mutant_ties_in_the_order_of_arrival_are_caught() {
    is_caught(TurnsSetting::TIES, QueueMutant::TiesByArrival, ONE_ORDER);
}

#[test]
fn mutant_a_poller_that_is_removed_is_caught() {
    is_caught(TurnsSetting::POLLING, QueueMutant::PollersAreRemoved, BOUNDED_OVERTAKING);
}

#[test]
fn mutant_a_full_queue_that_drops_the_oldest_is_caught() {
    is_caught(TurnsSetting::FULL, QueueMutant::FullDropsOldest, BOUNDED_OVERTAKING);
}

#[test]
fn mutant_a_caller_that_takes_a_reserved_key_is_caught() {
    is_caught(TurnsSetting::TRYING, QueueMutant::TakesReserved, BOUNDED_OVERTAKING);
}

#[test]
fn mutant_a_position_that_is_lost_with_the_connection_is_caught() {
    is_caught(TurnsSetting { waits: 4, ..TurnsSetting::CUT }, QueueMutant::SinceIsLost, ONE_ORDER);
}

#[test]
fn mutant_a_wakeup_that_nobody_answers_is_caught() {
    is_caught(TurnsSetting::LEAVING, QueueMutant::LeaveIsNotSent, TAKEN_IN_TIME);
}
