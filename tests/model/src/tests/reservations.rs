//! Explores all states of the model of the reservations that waiters get, and its mutants, each of which must violate a
//! property.

use crate::{
    BOUNDED_OVERTAKING, FREE_KEYS_RESERVED, MUTUAL_EXCLUSION, ONE_ORDER, QueueMutant, ReservationsSetting,
    TAKEN_IN_TIME, explore_reservations,
};

fn check(setting: ReservationsSetting, at_least: usize) {
    let outcome = explore_reservations(setting, None, &|_, _| {});
    println!("{} states in {:?}", outcome.states, outcome.took);
    outcome.violations.iter().for_each(|violation| println!("{violation}"));
    assert!(outcome.violations.is_empty(), "the runs that violate a property are printed above");
    assert!(outcome.states >= at_least, "only {} states were explored", outcome.states);
    assert_eq!(
        outcome.properties,
        [BOUNDED_OVERTAKING, ONE_ORDER, TAKEN_IN_TIME, FREE_KEYS_RESERVED, MUTUAL_EXCLUSION]
    );
}

fn is_caught(setting: ReservationsSetting, mutant: QueueMutant, property: &'static str) {
    let outcome = explore_reservations(setting.with_mutant(mutant), Some(property), &|_, _| {});
    println!("{mutant:?}: {} states in {:?}", outcome.states, outcome.took);
    assert!(outcome.violates(property), "{mutant:?} was not caught by: {property}");
}

// promise: turns
#[test]
fn reservations_are_in_order_and_cost_no_time() {
    check(ReservationsSetting::ORDERLY, 7_000);
}

// promise: turns
#[test]
fn all_nodes_have_one_order_although_votes_are_split() {
    check(ReservationsSetting::TIES, 6_000);
}

// promise: turns
#[test]
fn a_waiter_that_died_costs_no_reservation() {
    check(ReservationsSetting::KILLED, 15_000);
}

// promise: turns
#[test]
fn a_frozen_waiter_costs_one_reservation() {
    check(ReservationsSetting::FROZEN, 400_000);
}

// promise: turns
#[test]
fn a_waiter_that_is_not_woken_keeps_its_position() {
    check(ReservationsSetting::NOT_WOKEN, 500_000);
}

// promise: turns
#[test]
fn a_waiter_that_reconnects_keeps_its_position() {
    check(ReservationsSetting::CUT, 450_000);
}

// promise: turns
#[test]
fn a_waiter_whose_request_to_leave_is_lost_costs_no_reservation() {
    check(ReservationsSetting::LEAVING, 140_000);
}

// promise: turns
#[test]
fn a_waiter_that_polls_gets_its_reservation() {
    check(ReservationsSetting::POLLING, 35_000);
}

// promise: turns
#[test]
fn a_lost_wakeup_passes_nobody() {
    check(ReservationsSetting::LOST_WAKEUP, 60_000);
}

// promise: turns
#[test]
fn the_first_in_line_follows_a_stranger() {
    check(ReservationsSetting::STRANGER, 17_000);
}

// promise: turns
#[test]
fn callers_that_do_not_wait_pass_nobody() {
    check(ReservationsSetting::TRYING, 17_000);
}

// promise: turns
#[test]
fn a_full_queue_refuses_the_youngest() {
    check(ReservationsSetting::FULL, 650_000);
}

// promise: readers
#[test]
fn no_reader_passes_a_writer_that_waits() {
    check(ReservationsSetting::READERS, 70_000);
}

// mutant: readers
#[test]
fn mutant_readers_that_pass_a_waiting_writer_are_caught() {
    is_caught(ReservationsSetting::READERS, QueueMutant::ReadersPassWriters, BOUNDED_OVERTAKING);
    let behind = ReservationsSetting { stranger: true, ..ReservationsSetting::READERS };
    is_caught(behind, QueueMutant::WriterBehindIsNotHeard, BOUNDED_OVERTAKING);
}

// mutant: readers
#[test]
fn mutant_a_writer_that_gives_up_and_wakes_no_readers_is_caught() {
    is_caught(ReservationsSetting::WRITER_GIVES_UP, QueueMutant::LeavingWriterWakesNobody, TAKEN_IN_TIME);
}

// mutant: turns
#[test]
fn mutant_a_gone_waiter_that_is_kept_is_caught() {
    is_caught(ReservationsSetting::KILLED, QueueMutant::GoneAreKept, TAKEN_IN_TIME);
}

// mutant: turns
#[test]
fn mutant_reservations_that_do_not_pass_are_caught() {
    is_caught(ReservationsSetting::FROZEN, QueueMutant::ReservationsDoNotPass, TAKEN_IN_TIME);
}

// mutant: turns
#[test]
fn mutant_a_grant_that_removes_all_waiters_is_caught() {
    is_caught(ReservationsSetting::ORDERLY, QueueMutant::GrantEmptiesQueue, BOUNDED_OVERTAKING);
}

// mutant: turns
#[test]
fn mutant_a_grant_that_keeps_the_reservations_is_caught() {
    is_caught(ReservationsSetting::ORDERLY, QueueMutant::GrantKeepsReservations, FREE_KEYS_RESERVED);
}

// mutant: turns
#[test]
fn mutant_ties_in_the_order_of_arrival_are_caught() {
    is_caught(ReservationsSetting::TIES, QueueMutant::TiesByArrival, ONE_ORDER);
}

// mutant: turns
#[test]
fn mutant_a_poller_that_is_removed_is_caught() {
    is_caught(ReservationsSetting::POLLING, QueueMutant::PollersAreRemoved, BOUNDED_OVERTAKING);
}

// mutant: turns
#[test]
fn mutant_a_full_queue_that_drops_the_oldest_is_caught() {
    is_caught(ReservationsSetting::FULL, QueueMutant::FullDropsOldest, BOUNDED_OVERTAKING);
}

// mutant: turns
#[test]
fn mutant_a_caller_that_takes_a_reserved_key_is_caught() {
    is_caught(ReservationsSetting::TRYING, QueueMutant::TakesReserved, BOUNDED_OVERTAKING);
}

// mutant: turns
#[test]
fn mutant_a_position_that_is_lost_with_the_connection_is_caught() {
    is_caught(ReservationsSetting::CUT, QueueMutant::SinceIsLost, ONE_ORDER);
}

// mutant: turns
#[test]
fn mutant_a_wakeup_that_nobody_answers_is_caught() {
    is_caught(ReservationsSetting::LEAVING, QueueMutant::LeaveIsNotSent, TAKEN_IN_TIME);
}

// mutant: turns
#[test]
fn mutant_a_waiter_that_is_removed_although_it_was_not_woken_is_caught() {
    is_caught(ReservationsSetting::NOT_WOKEN, QueueMutant::UnwokenAreRemoved, BOUNDED_OVERTAKING);
}

// mutant: turns
#[test]
fn mutant_a_waiter_that_is_removed_although_it_came_late_is_caught() {
    is_caught(ReservationsSetting::FROZEN, QueueMutant::LateAreRemoved, BOUNDED_OVERTAKING);
}

// mutant: turns
#[test]
fn mutant_a_waiter_that_is_told_the_end_of_all_reservations_is_caught() {
    is_caught(ReservationsSetting::NOT_WOKEN, QueueMutant::ToldTheEnd, TAKEN_IN_TIME);
}
