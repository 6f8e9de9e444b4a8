//! Explores all states of the model of the protocol with two attempts on three nodes, and its mutants, each of
//! which must violate a property. The larger settings take minutes and are explored by `cargo run --release -p lock-model`.

use crate::{
    CLIENTS, CoveragePoint, MAJORITY_GRANTS, MUTUAL_EXCLUSION, ModelSetting, Mutant, NO_DEADLOCK, NO_LOST_RENEWAL,
    NODES, ORDERED_TOKENS, OWN_KEYS_ONLY, Setting, Time, UNIQUE_TOKENS, explore, report,
};

pub(super) fn check(setting: Setting, at_least: usize, points: &[CoveragePoint]) {
    let counts_tokens = setting.tokens != [0; CLIENTS];
    let has_time = setting.time.is_some();
    let outcome = explore(setting, None, &|_, _| {});
    outcome.violations.iter().for_each(|violation| println!("{violation}"));
    assert!(outcome.violations.is_empty(), "the runs that violate a property are printed above");
    assert!(outcome.states >= at_least, "only {} states were explored", outcome.states);
    for point in points {
        assert!(outcome.reached(*point), "no run reached {point:?}");
    }
    for property in [MAJORITY_GRANTS, OWN_KEYS_ONLY, NO_DEADLOCK] {
        assert!(outcome.properties.contains(&property), "{property} was not checked");
    }
    assert_eq!(outcome.properties.contains(&UNIQUE_TOKENS), counts_tokens);
    assert_eq!(outcome.properties.contains(&ORDERED_TOKENS), counts_tokens);
    assert_eq!(outcome.properties.contains(&MUTUAL_EXCLUSION), has_time);
}

pub(super) fn is_caught(setting: Setting, property: &'static str) {
    let mutant = setting.mutant;
    let outcome = explore(setting, Some(property), &|_, _| {});
    assert!(outcome.violates(property), "{mutant:?} was not caught by: {property}");
}

/// A lease, or a quarantine, and a tick beyond.
pub(super) const THREE_TICKS: Time = Time { ttl: 2, quarantine: 2, last_tick: 3 };
/// Initial fences that differ, so that the first grants do.
const SKEWED: Setting = Setting::attempts(2, [0, 1, 2], 4);
/// A part of [`SKEWED`] with fewer runs, which suffices for mutants: a run that violates a property here is a run there, too.
const NARROW: Setting = Setting { duplicates: false, held_replies: false, prompt: true, ..SKEWED };
/// Long enough for a node to lose its data, to be quarantined and to grant again.
const FORGETTING: Setting = Setting::forgetting(2, 1, THREE_TICKS);
/// Leases that are renewed while a node loses its data.
const RENEWAL: Setting = Setting::renewal(2, 1, 1, THREE_TICKS);

// promise: fencing
#[test]
fn tokens_are_unique_and_ordered_in_every_order_of_events() {
    let points = [
        CoveragePoint::OrderedGrants,
        CoveragePoint::Split,
        CoveragePoint::Confirm,
        CoveragePoint::LateAcquire,
        CoveragePoint::LateConfirm,
    ];
    check(Setting::attempts(2, [0; NODES], 2), 50_000, &points);
}

// promise: fencing, exclusion
#[test]
fn nodes_that_lose_their_data_break_neither_exclusion_nor_the_order_of_tokens() {
    let points = [
        CoveragePoint::LostKey,
        CoveragePoint::OldEpoch,
        CoveragePoint::SkippedQuarantined,
        CoveragePoint::GrantedAfterDataLoss,
        CoveragePoint::OrderedGrants,
        CoveragePoint::LateAcquire,
    ];
    check(FORGETTING, 30_000, &points);
}

// promise: no-resurrection
#[test]
fn a_lost_key_is_not_renewed_and_two_leases_are_never_valid_at_once() {
    let setting = Setting { forgets: 0, ..RENEWAL };
    check(setting, 30_000, &[CoveragePoint::Renewed, CoveragePoint::Replaced, CoveragePoint::LateReplace]);
}

// mutant: fencing
#[test]
fn mutant_1_the_largest_grant_as_the_token_is_caught() {
    is_caught(NARROW.with_mutant(Mutant::LargestGrant), UNIQUE_TOKENS);
}

// mutant: fencing
#[test]
fn mutant_2_a_confirm_without_the_owner_check_is_caught() {
    is_caught(NARROW.with_mutant(Mutant::ConfirmWithoutOwnerCheck), UNIQUE_TOKENS);
}

// mutant: fencing
#[test]
fn mutant_3_a_confirm_of_the_nodes_own_fence_is_caught() {
    is_caught(NARROW.with_mutant(Mutant::ConfirmOfEqualFence), UNIQUE_TOKENS);
}

// mutant: exclusion
#[test]
fn mutant_4_one_owner_id_for_two_attempts_is_caught() {
    is_caught(NARROW.with_mutant(Mutant::SharedOwnerId), UNIQUE_TOKENS);
}

// mutant: quarantine
#[test]
fn mutant_5_a_node_that_votes_right_after_losing_its_data_is_caught() {
    is_caught(FORGETTING.with_mutant(Mutant::NoQuarantine), MUTUAL_EXCLUSION);
    is_caught(FORGETTING.with_mutant(Mutant::NoQuarantineNoFloor), UNIQUE_TOKENS);
}

// mutant: no-resurrection
#[test]
fn mutant_6_a_renewal_that_counts_a_replaced_key_is_caught() {
    is_caught(RENEWAL.with_mutant(Mutant::CountsReplacedKeys), NO_LOST_RENEWAL);
}

// mutant: exclusion
#[test]
fn a_release_or_an_extend_without_the_owner_check_is_caught() {
    is_caught(SKEWED.with_mutant(Mutant::ReleaseWithoutOwnerCheck), OWN_KEYS_ONLY);
    is_caught(RENEWAL.with_mutant(Mutant::ExtendWithoutOwnerCheck), OWN_KEYS_ONLY);
}

// mutant: no-deadlock
#[test]
fn a_deadlock_is_caught() {
    is_caught(SKEWED.with_mutant(Mutant::KeysNeverExpire), NO_DEADLOCK);
}

// mutant: fencing
#[test]
fn lost_fences_without_a_floor_are_caught() {
    is_caught(FORGETTING.with_mutant(Mutant::NoFloor), ORDERED_TOKENS);
}

// mutant: fencing
#[test]
fn a_floor_that_is_read_while_others_still_grant_is_caught() {
    is_caught(FORGETTING.with_mutant(Mutant::FloorWithoutInstall), ORDERED_TOKENS);
}

/// Another lock advances the shared fence, between any two steps.
const SHARED_FENCE: Setting =
    Setting { fence_advances: 1, duplicates: false, held_replies: false, ..Setting::attempts(2, [0; NODES], 2) };

// promise: fencing
#[test]
fn locks_that_share_a_fence_only_skip_each_others_tokens() {
    check(SHARED_FENCE, 200_000, &[CoveragePoint::FenceAdvanced, CoveragePoint::OrderedGrants, CoveragePoint::Confirm]);
}

// promise: fencing
#[test]
fn locks_that_share_a_fence_leave_each_other_one_holder() {
    let setting = Setting::sharing(2, 0, 1, THREE_TICKS);
    check(
        setting,
        300_000,
        &[CoveragePoint::FenceAdvanced, CoveragePoint::OrderedGrants, CoveragePoint::SecondConfirmGranted],
    );
}

// mutant: fencing
#[test]
fn a_lock_that_moves_a_shared_fence_back_is_caught() {
    is_caught(SHARED_FENCE.with_mutant(Mutant::SharedFenceSetBack), UNIQUE_TOKENS);
    is_caught(SHARED_FENCE.with_mutant(Mutant::SharedFenceSetBack), ORDERED_TOKENS);
}

/// One of two attempts reserves two tokens.
const BLOCKS: Setting =
    Setting { tokens: [2, 1, 1, 1], duplicates: false, held_replies: false, ..Setting::attempts(2, [0; NODES], 3) };

// promise: fencing
#[test]
fn no_token_of_a_block_is_granted_twice() {
    check(BLOCKS, 50_000, &[CoveragePoint::OrderedGrants, CoveragePoint::Confirm]);
}

// mutant: fencing
#[test]
fn a_node_that_counts_a_block_as_one_token_is_caught() {
    is_caught(BLOCKS.with_mutant(Mutant::BlockCountsAsOne), UNIQUE_TOKENS);
}

#[test]
fn the_report_lists_what_holds_and_what_is_violated() {
    let small = Setting::attempts(1, [0; NODES], 1);
    let mut table = Vec::new();
    assert!(report(vec![ModelSetting::Lock(small.clone())], &mut table, |_| {}).unwrap());
    assert!(String::from_utf8(table).unwrap().contains("all 5 hold"));
    let mut table = Vec::new();
    assert!(!report(vec![ModelSetting::Lock(small.with_mutant(Mutant::KeysNeverExpire))], &mut table, |_| {}).unwrap());
    let reported = String::from_utf8(table).unwrap();
    assert!(reported.contains("VIOLATED: a new attempt") && reported.contains("1 VIOLATED"), "{reported}");
}
