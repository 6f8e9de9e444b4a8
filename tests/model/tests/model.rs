//! The model of the protocol ([`lock_model`]), to the last state: two attempts on three masters. What takes minutes is behind
//! `cargo run --release -p lock-model`. And the nearest wrong rules, each of which has to be caught.

use lock_model::{
    CALM, Checked, EXCLUSIVE, MAJORITY, NODES, NOT_REVIVED, ORDERED, OWN_KEYS, Rules, Setting, Sight, Time, UNIQUE,
    explore, report,
};

fn check(setting: Setting, at_least: usize, to_be_seen: &[Sight]) {
    let outcome = explore(setting, None, |_, _| {});
    outcome.violations.iter().for_each(|violation| println!("{violation}"));
    assert!(outcome.violations.is_empty(), "the runs that break a promise are printed above");
    assert!(outcome.states >= at_least, "{} states are not all", outcome.states);
    for sight in to_be_seen {
        assert!(outcome.saw(*sight), "{sight:?} was never seen");
    }
    for property in [UNIQUE, ORDERED, MAJORITY, OWN_KEYS, CALM] {
        assert!(outcome.properties.contains(&property), "{property} was not checked");
    }
}

fn is_caught(setting: Setting, by: &'static str) {
    let rules = setting.rules;
    let outcome = explore(setting, Some(by), |_, _| {});
    assert!(outcome.violates(by), "{rules:?} was not caught: {by}");
}

/// Skewed numbers, so that grants differ from the beginning.
const SKEWED: Setting = Setting::attempts(2, [0, 1, 2], 4);
/// With fewer runs, in which a mutant shows as well: what breaks a promise here breaks it in [`SKEWED`], where more can happen.
const NARROW: Setting = Setting { doubled: false, held_is_told: false, ..SKEWED };
/// Long enough for a node to forget, to sit out and to grant again.
const FORGETTING: Setting = Setting::forgetting(2, 1, Time { ttl: 2, lag: 0, quarantine: 2, horizon: 3 });
const RENEWAL: Setting = Setting::renewal(2, 1, 1, Time { ttl: 2, lag: 0, quarantine: 2, horizon: 3 });
/// The clock may be behind, by as much the quarantine is longer, and clients pause between a look at it and sending.
const LAGGING: Setting =
    Setting { hesitant: true, ..Setting::forgetting(2, 1, Time { ttl: 2, lag: 1, quarantine: 3, horizon: 4 }) };

#[test]
fn tokens_are_unique_and_ordered_in_every_order_of_events() {
    let sights = [Sight::OneAfterTheOther, Sight::Split, Sight::Confirm, Sight::LateAcquire, Sight::LateConfirm];
    check(Setting::attempts(2, [0; NODES], 2), 50_000, &sights);
}

#[test]
fn nodes_that_forget_lead_neither_to_two_holders_nor_to_a_token_out_of_order() {
    let sights = [
        Sight::Forgot,
        Sight::OldEpoch,
        Sight::NotAskedInQuarantine,
        Sight::GrantedAfterForgetting,
        Sight::OneAfterTheOther,
        Sight::LateAcquire,
    ];
    check(FORGETTING, 30_000, &sights);
}

#[test]
fn what_was_lost_is_not_renewed_and_there_are_no_two_holders() {
    let setting = Setting { forgets: 0, ..RENEWAL };
    check(setting, 30_000, &[Sight::Renewed, Sight::Replaced, Sight::LateReplace]);
}

#[test]
fn mutant_1_the_largest_grant_is_no_token_by_itself() {
    is_caught(NARROW.under(Rules::LargestGrant), UNIQUE);
}

#[test]
fn mutant_2_a_confirm_without_the_owner_check_is_caught() {
    is_caught(NARROW.under(Rules::ConfirmWithoutOwner), UNIQUE);
}

#[test]
fn mutant_3_a_confirm_of_a_number_that_the_node_has_already_is_caught() {
    is_caught(NARROW.under(Rules::ConfirmOwnGrant), UNIQUE);
}

#[test]
fn mutant_4_one_owner_id_for_two_attempts_is_caught() {
    is_caught(NARROW.under(Rules::OneOwner), UNIQUE);
}

#[test]
fn mutant_5_a_node_that_forgets_and_votes_at_once_is_caught() {
    is_caught(FORGETTING.under(Rules::NoQuarantine), EXCLUSIVE);
    is_caught(FORGETTING.under(Rules::NoQuarantineNoClock), UNIQUE);
}

#[test]
fn mutant_6_a_renewal_that_counts_a_node_replaced_in_the_same_round_is_caught() {
    is_caught(RENEWAL.under(Rules::CountsReplaced), NOT_REVIVED);
    is_caught(RENEWAL.under(Rules::CountsReplaced), EXCLUSIVE);
}

#[test]
fn a_release_or_an_extend_of_the_key_of_another_is_caught() {
    is_caught(SKEWED.under(Rules::ReleaseForAnyone), OWN_KEYS);
    is_caught(RENEWAL.under(Rules::ExtendForAnyone), OWN_KEYS);
}

#[test]
fn a_deadlock_is_caught() {
    is_caught(SKEWED.under(Rules::KeysWithoutEnd), CALM);
}

#[test]
fn counters_that_are_lost_need_the_clock_to_keep_tokens_in_order() {
    is_caught(FORGETTING.under(Rules::NoClock), ORDERED);
}

#[test]
fn an_acquire_that_is_sent_into_a_quarantine_is_caught() {
    let short = Time { ttl: 2, lag: 1, quarantine: 2, horizon: 3 };
    is_caught(Setting { time: Some(short), ..FORGETTING }.under(Rules::AsksInQuarantine), ORDERED);
}

#[test]
fn a_quarantine_is_longer_by_what_the_clock_may_be_behind() {
    check(LAGGING, 50_000, &[Sight::Forgot, Sight::GrantedAfterForgetting, Sight::OneAfterTheOther]);
    let short = Time { ttl: 2, lag: 1, quarantine: 2, horizon: 4 };
    is_caught(Setting { time: Some(short), ..LAGGING }, ORDERED);
    is_caught(Setting { time: Some(short), ..LAGGING }, UNIQUE);
}

/// Another lock with the same fence moves it on, between any two steps.
const NEIGHBOURS: Setting =
    Setting { neighbours: 1, doubled: false, held_is_told: false, ..Setting::attempts(2, [0; NODES], 2) };

#[test]
fn locks_that_share_a_fence_only_skip_each_others_tokens() {
    check(NEIGHBOURS, 200_000, &[Sight::MovedOn, Sight::OneAfterTheOther, Sight::Confirm]);
}

#[test]
fn locks_that_share_a_fence_leave_each_other_one_holder() {
    let setting = Setting::sharing(2, 0, 1, Time { ttl: 2, lag: 0, quarantine: 2, horizon: 3 });
    check(setting, 400_000, &[Sight::MovedOn, Sight::OneAfterTheOther, Sight::SecondConfirmGranted]);
}

#[test]
fn a_lock_that_moves_a_shared_fence_back_is_caught() {
    is_caught(NEIGHBOURS.under(Rules::NeighboursCountApart), UNIQUE);
    is_caught(NEIGHBOURS.under(Rules::NeighboursCountApart), ORDERED);
}

/// One of two attempts reserves two tokens.
const BLOCKS: Setting =
    Setting { tokens: [2, 1, 1], doubled: false, held_is_told: false, ..Setting::attempts(2, [0; NODES], 3) };

#[test]
fn no_token_of_a_block_is_given_twice() {
    check(BLOCKS, 50_000, &[Sight::OneAfterTheOther, Sight::Confirm]);
}

#[test]
fn a_node_that_counts_a_block_as_one_token_is_caught() {
    is_caught(BLOCKS.under(Rules::BlockOfOne), UNIQUE);
}

#[test]
fn the_long_run_tells_what_holds_and_what_is_broken() {
    let few = Setting::attempts(1, [0; NODES], 1);
    let mut table = Vec::new();
    assert!(report(vec![Checked::Locks(few.clone())], &mut table, |_| {}).unwrap());
    assert!(String::from_utf8(table).unwrap().contains("all 5 hold"));
    let mut table = Vec::new();
    assert!(!report(vec![Checked::Locks(few.under(Rules::KeysWithoutEnd))], &mut table, |_| {}).unwrap());
    let told = String::from_utf8(table).unwrap();
    assert!(told.contains("BROKEN: a new attempt") && told.contains("1 BROKEN"), "{told}");
}
