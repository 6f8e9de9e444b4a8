//! Those who read share the lock, and nobody writes beside them.

use crate::{
    CoveragePoint, MUTUAL_EXCLUSION, Mutant, NO_LOST_RENEWAL, ORDERED_TOKENS, OWN_KEYS_ONLY, Setting, Time,
    UNIQUE_TOKENS,
};

use super::protocol::{THREE_TICKS, check, is_caught};

/// A writer and a reader.
const READING: Setting = Setting::reading(2, 1, 0, THREE_TICKS);
/// A writer and two readers.
const TWO_READERS: Setting = Setting::shared(1, 2, THREE_TICKS);
/// Two writers and a reader. Who writes may become a reader.
const DOWNGRADES: Setting = Setting { downgrades: true, ..Setting::shared(2, 1, THREE_TICKS) };
/// Two writers. Who writes may become a reader.
const DOWNGRADES_OF_TWO: Setting = Setting { downgrades: true, ..Setting::shared(2, 0, THREE_TICKS) };
/// The tokens of a writer and a reader, on nodes whose fences differ.
const READING_TOKENS: Setting = Setting::shared_tokens(1, 1, [0, 1, 1], 4);

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
