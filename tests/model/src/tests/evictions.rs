//! A holder whose lock is taken from it does not renew, and leaves its successor alone.

use crate::{
    CoveragePoint, EVICTED_CANNOT_RENEW, EVICTED_JOINED_BY_NOBODY, EVICTED_SHUT_OUT, Mutant, ORDERED_TOKENS,
    OWN_KEYS_ONLY, SUCCESSOR_NOT_SHUT_OUT, Setting, Time, UNIQUE_TOKENS,
};

use super::protocol::{THREE_TICKS, check, is_caught};

/// A holder that renews and is evicted meanwhile: its acquire and its replace may arrive late.
const EVICTED: Setting = Setting::eviction(1, 1, THREE_TICKS);
/// A holder that renews twice, so that a replace of its first renewal may arrive during the second.
const EVICTED_LATER: Setting = Setting::eviction(1, 2, THREE_TICKS);
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
fn an_evicted_holder_that_renews_twice_does_not_renew_in_any_order_of_events() {
    check(EVICTED_LATER, 1_000, &[CoveragePoint::Evicted, CoveragePoint::Renewed, CoveragePoint::LostLease]);
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
    Setting { evicts: true, joins: true, ..Setting::shared(2, 0, Time { last_tick: 2, ..THREE_TICKS }) },
    Setting { evicts: true, joins: true, ..Setting::shared(1, 1, Time { last_tick: 2, ..THREE_TICKS }) },
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
    is_caught(EVICTED_LATER.with_mutant(Mutant::ReplacesDespiteTombstone), EVICTED_CANNOT_RENEW);
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
    let block = Setting { tokens: [2, 1, 1, 1], ..Setting::eviction(1, 0, THREE_TICKS) };
    is_caught(block.with_mutant(Mutant::EvictsAboveFirstOfBlock), EVICTED_SHUT_OUT);
}

/// Readers that renew and are evicted meanwhile.
const EVICTED_READER: Setting = Setting { evicts: true, renewals: 2, ..Setting::shared(0, 1, THREE_TICKS) };
/// Two readers, of which one may not have been seen.
const EVICTED_READERS: Setting =
    Setting { readers: 2, prompt: true, ..Setting::eviction(2, 0, Time { ttl: 2, quarantine: 2, last_tick: 1 }) };

// promise: forced-release, readers
#[test]
fn evicted_readers_do_not_renew_in_any_order_of_events() {
    check(EVICTED_READER, 50_000, &[CoveragePoint::Evicted, CoveragePoint::Renewed, CoveragePoint::LostLease]);
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
