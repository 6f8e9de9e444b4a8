//! Explores all states of the model of the protocol ([`lock_model`]) with two attempts on three nodes, and its mutants, each of
//! which must violate a property. The larger settings take minutes and are explored by `cargo run --release -p lock-model`.

use lock_model::{
    CLIENTS, CoveragePoint, EVICTED_CANNOT_RENEW, EVICTED_JOINED_BY_NOBODY, EVICTED_SHUT_OUT, MAJORITY_GRANTS,
    MUTUAL_EXCLUSION, ModelSetting, Mutant, NO_DEADLOCK, NO_LOST_RENEWAL, NODES, ORDERED_TOKENS, OWN_KEYS_ONLY,
    SUCCESSOR_NOT_SHUT_OUT, Setting, Time, UNIQUE_TOKENS, explore, report,
};

fn check(setting: Setting, at_least: usize, points: &[CoveragePoint]) {
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

fn is_caught(setting: Setting, property: &'static str) {
    let mutant = setting.mutant;
    let outcome = explore(setting, Some(property), &|_, _| {});
    assert!(outcome.violates(property), "{mutant:?} was not caught by: {property}");
}

/// Initial fences that differ, so that the first grants do.
const SKEWED: Setting = Setting::attempts(2, [0, 1, 2], 4);
/// A part of [`SKEWED`] with fewer runs, which suffices for mutants: a run that violates a property here is a run there, too.
const NARROW: Setting = Setting { duplicates: false, held_replies: false, ..SKEWED };
/// Long enough for a node to lose its data, to be quarantined and to grant again.
const FORGETTING: Setting = Setting::forgetting(2, 1, Time { ttl: 2, quarantine: 2, last_tick: 3 });
/// Leases that are renewed while a node loses its data.
const RENEWAL: Setting = Setting::renewal(2, 1, 1, Time { ttl: 2, quarantine: 2, last_tick: 3 });

const THREE_TICKS: Time = Time { ttl: 2, quarantine: 2, last_tick: 3 };

/// A writer and a reader.
const READING: Setting = Setting::reading(2, 1, 0, Time { ttl: 2, quarantine: 2, last_tick: 3 });
/// A writer and two readers.
const TWO_READERS: Setting = Setting::shared(1, 2, THREE_TICKS);
/// Two writers and a reader. Who writes may become a reader.
const DOWNGRADES: Setting = Setting { downgrades: true, ..Setting::shared(2, 1, THREE_TICKS) };
/// Two writers. Who writes may become a reader.
const DOWNGRADES_OF_TWO: Setting = Setting { downgrades: true, ..Setting::shared(2, 0, THREE_TICKS) };
/// The tokens of a writer and a reader, on nodes whose fences differ.
const READING_TOKENS: Setting = Setting::shared_tokens(1, 1, [0, 1, 1], 4);
/// Readers that renew and are evicted meanwhile.
const EVICTED_READER: Setting = Setting { evicts: true, renewals: 2, ..Setting::shared(0, 1, THREE_TICKS) };
/// Two readers, of which one may not have been seen.
const EVICTED_READERS: Setting =
    Setting { readers: 2, prompt: true, ..Setting::eviction(2, 0, Time { ttl: 2, quarantine: 2, last_tick: 1 }) };

// promise: readers
#[test]
fn a_writer_and_a_reader_never_hold_the_lock_at_once() {
    check(READING, 5_000, &[CoveragePoint::OrderedGrants, CoveragePoint::LateAcquire]);
    check(Setting { renewals: 1, prompt: true, ..READING }, 10_000, &[CoveragePoint::Renewed, CoveragePoint::Replaced]);
    check(
        Setting { forgets: 1, prompt: true, ..READING },
        10_000,
        &[CoveragePoint::LostKey, CoveragePoint::GrantedAfterDataLoss],
    );
}

// promise: readers
#[test]
fn writers_and_several_readers_never_hold_the_lock_at_once() {
    check(TWO_READERS, 50_000, &[CoveragePoint::SharedLock, CoveragePoint::LateAcquire]);
    let one_tick = Time { ttl: 1, quarantine: 1, last_tick: 2 };
    check(Setting::shared(2, 2, one_tick), 40_000, &[CoveragePoint::SharedLock, CoveragePoint::LateAcquire]);
}

// promise: readers
#[test]
fn a_writer_that_downgrades_lets_readers_in_and_no_writer() {
    let setting = Setting { downgrades: true, ..Setting::shared(1, 1, THREE_TICKS) };
    check(setting, 15_000, &[CoveragePoint::Downgraded, CoveragePoint::SharedLock]);
    check(DOWNGRADES_OF_TWO, 10_000, &[CoveragePoint::Downgraded]);
}

// promise: readers
#[test]
#[ignore = "long: bash tests/run.sh --long"]
fn two_writers_and_two_readers_never_hold_the_lock_at_once() {
    check(Setting::shared(2, 2, THREE_TICKS), 500_000, &[CoveragePoint::SharedLock, CoveragePoint::LateAcquire]);
}

// promise: readers
#[test]
#[ignore = "long: bash tests/run.sh --long"]
fn a_readers_token_is_between_those_of_the_writers_before_and_after_it() {
    let one_tick = Time { ttl: 1, quarantine: 1, last_tick: 3 };
    let two_writers = Setting { prompt: true, ..Setting::reading(3, 1, 0, one_tick) };
    check(two_writers, 150_000, &[CoveragePoint::OrderedGrants, CoveragePoint::Confirm]);
    let two_readers = Setting { prompt: true, ..Setting::reading(3, 2, 0, one_tick) };
    check(two_readers, 700_000, &[CoveragePoint::OrderedGrants, CoveragePoint::SharedToken]);
}

// promise: readers
#[test]
#[ignore = "long: bash tests/run.sh --long"]
fn two_writers_and_a_reader_never_hold_the_lock_at_once_although_one_downgrades() {
    check(DOWNGRADES, 400_000, &[CoveragePoint::Downgraded, CoveragePoint::SharedLock]);
}

// promise: readers
#[test]
#[ignore = "long: bash tests/run.sh --long"]
fn a_writer_and_two_readers_never_hold_the_lock_at_once_although_a_node_forgets() {
    let points = [CoveragePoint::LostKey, CoveragePoint::GrantedAfterDataLoss, CoveragePoint::SharedLock];
    check(Setting { forgets: 1, ..TWO_READERS }, 100_000, &points);
}

// promise: forced-release, readers
#[test]
fn evicted_readers_do_not_renew_in_any_order_of_events() {
    check(EVICTED_READER, 50_000, &[CoveragePoint::Evicted, CoveragePoint::Renewed, CoveragePoint::LostLease]);
}

// mutant: readers
#[test]
fn flawed_rules_for_readers_are_caught() {
    is_caught(READING.with_mutant(Mutant::ReaderWithoutMarker), MUTUAL_EXCLUSION);
    is_caught(READING.with_mutant(Mutant::ReaderBesideWriter), MUTUAL_EXCLUSION);
    is_caught(READING.with_mutant(Mutant::FirstReaderKeepsFence), UNIQUE_TOKENS);
    is_caught(Setting { forgets: 1, ..READING }.with_mutant(Mutant::NoQuarantine), MUTUAL_EXCLUSION);
    is_caught(Setting { renewals: 1, ..READING }.with_mutant(Mutant::ReplaceOverWriter), OWN_KEYS_ONLY);
    // The second reader's time to live is the shorter one.
    let differ = Setting { ttls: Some([2, 3, 1, 1]), ..Setting::shared(1, 2, Time { ttl: 3, ..THREE_TICKS }) };
    is_caught(differ.with_mutant(Mutant::MarkerShrunkByJoin), MUTUAL_EXCLUSION);
}

// mutant: readers
#[test]
fn flawed_tokens_of_readers_are_caught() {
    is_caught(READING_TOKENS.with_mutant(Mutant::LargestGrant), UNIQUE_TOKENS);
    is_caught(READING_TOKENS.with_mutant(Mutant::LargestGrant), ORDERED_TOKENS);
    is_caught(READING_TOKENS.with_mutant(Mutant::ConfirmWithoutMarker), UNIQUE_TOKENS);
}

// mutant: readers
#[test]
fn flawed_downgrades_are_caught() {
    is_caught(DOWNGRADES_OF_TWO.with_mutant(Mutant::DowngradeForAnyOwner), OWN_KEYS_ONLY);
    is_caught(DOWNGRADES_OF_TWO.with_mutant(Mutant::DowngradeWithGap), MUTUAL_EXCLUSION);
}

// mutant: forced-release
#[test]
fn a_tombstone_that_readers_do_not_look_at_is_caught() {
    is_caught(EVICTED_READER.with_mutant(Mutant::ReadsDespiteTombstone), EVICTED_CANNOT_RENEW);
}

// mutant: forced-release
#[test]
fn an_eviction_of_readers_that_were_not_seen_is_caught() {
    is_caught(EVICTED_READERS.with_mutant(Mutant::EvictsUnseenReaders), OWN_KEYS_ONLY);
}

// mutant: readers
#[test]
#[ignore = "long: bash tests/run.sh --long"]
fn flawed_rules_for_several_readers_are_caught() {
    is_caught(TWO_READERS.with_mutant(Mutant::FirstLeaverDeletesMarker), MUTUAL_EXCLUSION);
    is_caught(TWO_READERS.with_mutant(Mutant::MarkerNotProlonged), MUTUAL_EXCLUSION);
    is_caught(DOWNGRADES.with_mutant(Mutant::DowngradeForAnyOwner), MUTUAL_EXCLUSION);
    is_caught(READING_TOKENS.with_mutant(Mutant::RelaxedConfirm), UNIQUE_TOKENS);
    let readers = Setting { renewals: 2, ..Setting::shared(0, 2, THREE_TICKS) };
    is_caught(readers.with_mutant(Mutant::ExpiredReaderCounts), NO_LOST_RENEWAL);
}

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
    let setting = Setting::sharing(2, 0, 1, Time { ttl: 2, quarantine: 2, last_tick: 3 });
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

const TWO_TICKS: Time = Time { ttl: 2, quarantine: 2, last_tick: 3 };
/// A holder that renews twice and is evicted meanwhile: its acquire and its replace may arrive late.
const EVICTED: Setting = Setting::eviction(1, 2, TWO_TICKS);
/// Two attempts, of which one is evicted before any key expires.
const SUCCEEDED: Setting =
    Setting { max_fence: 3, ..Setting::eviction(2, 0, Time { ttl: 2, quarantine: 2, last_tick: 1 }) };

// promise: forced-release
#[test]
fn an_evicted_holder_does_not_renew_in_any_order_of_events() {
    check(EVICTED, 1_000, &[CoveragePoint::Evicted, CoveragePoint::Renewed, CoveragePoint::LostLease]);
}

// promise: forced-release
#[test]
#[ignore = "long: bash tests/run.sh --long"]
fn an_eviction_leaves_successors_alone_and_its_token_is_below_theirs() {
    let points = [CoveragePoint::Evicted, CoveragePoint::Superseded, CoveragePoint::SecondEviction];
    check(SUCCEEDED, 10_000, &points);
}

/// A writer that is evicted, and one that succeeds it; and a reader that is succeeded by a writer.
const JOINED: [Setting; 2] = [
    Setting { evicts: true, joins: true, ..Setting::shared(2, 0, Time { last_tick: 2, ..TWO_TICKS }) },
    Setting { evicts: true, joins: true, ..Setting::shared(1, 1, Time { last_tick: 2, ..TWO_TICKS }) },
];

// promise: forced-release
#[test]
fn nobody_gets_an_evicted_lock_by_its_holders_word_beside_a_successor() {
    for setting in JOINED {
        check(setting, 1_000, &[CoveragePoint::Evicted]);
    }
}

// mutant: forced-release
#[test]
fn a_node_that_grants_at_once_after_an_eviction_is_caught() {
    for setting in JOINED {
        is_caught(setting.with_mutant(Mutant::EvictsWithoutGap), EVICTED_JOINED_BY_NOBODY);
    }
}

// mutant: forced-release
#[test]
fn a_tombstone_that_is_not_checked_is_caught() {
    is_caught(EVICTED.with_mutant(Mutant::AcquiresDespiteTombstone), EVICTED_CANNOT_RENEW);
    is_caught(EVICTED.with_mutant(Mutant::ReplacesDespiteTombstone), EVICTED_CANNOT_RENEW);
}

// mutant: forced-release
#[test]
fn an_eviction_without_the_owner_check_is_caught() {
    is_caught(SUCCEEDED.with_mutant(Mutant::EvictsWithoutOwnerCheck), OWN_KEYS_ONLY);
}

// mutant: forced-release
#[test]
fn an_eviction_that_counts_nodes_with_a_successor_is_caught() {
    is_caught(SUCCEEDED.with_mutant(Mutant::EvictsBesideSuccessor), SUCCESSOR_NOT_SHUT_OUT);
}

// mutant: forced-release
#[test]
fn an_eviction_that_leaves_the_fence_is_caught() {
    is_caught(SUCCEEDED.with_mutant(Mutant::EvictsWithoutFence), UNIQUE_TOKENS);
    is_caught(SUCCEEDED.with_mutant(Mutant::EvictsWithoutFence), ORDERED_TOKENS);
}

// mutant: forced-release
#[test]
fn an_eviction_whose_token_is_not_above_the_block_is_caught() {
    let block = Setting { tokens: [2, 1, 1, 1], ..Setting::eviction(1, 0, TWO_TICKS) };
    is_caught(block.with_mutant(Mutant::EvictsAboveFirstOfBlock), EVICTED_SHUT_OUT);
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
