//! The model of the queue that nodes keep ([`lock_model`]), to the last state. And the nearest wrong rules, each of which has to
//! be caught.

use lock_model::{
    EXCLUSIVE, MAJORITY, NARROWER, ORDERED, OWN_KEYS, QueueRules, QueueSetting, SERVED, UNIQUE, explore_queue,
};

fn check(setting: QueueSetting, at_least: usize) {
    let outcome = explore_queue(setting, None, |_, _| {});
    println!("{} states in {:?}", outcome.states, outcome.took);
    outcome.violations.iter().for_each(|violation| println!("{violation}"));
    assert!(outcome.violations.is_empty(), "the runs that break a promise are printed above");
    assert!(outcome.states >= at_least, "{} states are not all", outcome.states);
    for property in [UNIQUE, ORDERED, MAJORITY, OWN_KEYS, NARROWER, SERVED] {
        assert!(outcome.properties.contains(&property), "{property} was not checked");
    }
}

fn is_caught(setting: QueueSetting, by: &'static str) {
    let rules = setting.rules;
    let outcome = explore_queue(setting, Some(by), |_, _| {});
    println!("{rules:?}: {} states in {:?}", outcome.states, outcome.took);
    assert!(outcome.violates(by), "{rules:?} was not caught: {by}");
}

/// A process that tries again while messages of its first attempt are under way, and another.
const AGAIN: QueueSetting = QueueSetting::new([2, 1, 0]);
/// Two, and places that are lost.
const LOSING: QueueSetting = QueueSetting { lost: 1, ..QueueSetting::new([1, 1, 0]) };

#[test]
fn a_queue_breaks_no_promise_when_a_process_tries_again() {
    check(AGAIN, 500_000);
}

#[test]
fn nobody_is_stuck_whatever_is_lost() {
    check(LOSING, 200_000);
}

#[test]
fn mutant_a_call_that_is_taken_for_the_lock_is_caught() {
    let called = QueueSetting { calls: true, ..LOSING }.under(QueueRules::CallIsAVote);
    is_caught(called.clone(), EXCLUSIVE);
    is_caught(called, MAJORITY);
}

#[test]
fn mutant_a_release_for_any_attempt_of_its_process_is_caught() {
    is_caught(AGAIN.under(QueueRules::ReleaseByWaiter), EXCLUSIVE);
    is_caught(AGAIN.under(QueueRules::ReleaseByWaiter), OWN_KEYS);
}

#[test]
fn mutant_a_turn_that_never_lapses_is_caught() {
    is_caught(LOSING.under(QueueRules::TurnWithoutEnd), SERVED);
}

#[test]
fn mutant_one_owner_id_for_the_attempts_of_a_process_is_caught() {
    is_caught(AGAIN.under(QueueRules::OneOwner), EXCLUSIVE);
}

#[test]
fn mutant_a_head_that_is_offered_again_and_again_is_caught() {
    is_caught(LOSING.under(QueueRules::OfferKeepsPlace), SERVED);
}
