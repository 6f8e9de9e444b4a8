//! The in-memory node keeps the rules, and nodes with a fault do not: what an author of a node in another repository sees.

use futures_util::future::join_all;
use lock_core::MemoryNode;
use lock_core::node::conformance::{Conformance, Divergence, Lack};

use crate::faulty_node::{Fault, FaultyNode};

const FAULTS: [Fault; 21] = [
    Fault::GrantsTwice,
    Fault::ForgetsTheFence,
    Fault::ReservesOneTokenOfSeveral,
    Fault::ConfirmsALowerToken,
    Fault::ReleasesTheLockOfAnother,
    Fault::KeepsWhatIsReleased,
    Fault::LetsReadersInBesideAWriter,
    Fault::LetsReadersPassAWriterThatWaits,
    Fault::RenewsWhatIsGone,
    Fault::PutsBackBesideAnother,
    Fault::EndsLocksEarly,
    Fault::ForgetsWhoWasEvicted,
    Fault::EvictsASuccessor,
    Fault::ExecutesInAnyEpoch,
    Fault::ReleasesInAnyEpoch,
    Fault::WritesOverAnotherRecord,
    Fault::IgnoresTheFloor,
    Fault::ChangesItsRunId,
    Fault::ForgetsWhoWaits,
    Fault::ServesTheLastFirst,
    Fault::WakesNobody,
];

/// Those that show when several requests are under way, or when time passes.
const FAULTS_IN_TIME: [Fault; 10] = [
    Fault::ReadsBeforeItGrants,
    Fault::EndsTheHolderBeforeTheGap,
    Fault::ForgetsTheEvictedSoon,
    Fault::CountsInWholeSeconds,
    Fault::ExtendsForLess,
    Fault::Overtakes,
    Fault::DropsWhatNobodyAwaits,
    Fault::ReadsTheRecordBeforeItWrites,
    Fault::CountsTooFast,
    Fault::StandsStill,
];

async fn found(conformance: Conformance, fault: Fault) -> Divergence {
    let checked = conformance.check(|| FaultyNode::new(fault)).await;
    checked.err().unwrap_or_else(|| panic!("{fault:?} was not found"))
}

#[tokio::test]
async fn the_in_memory_node_keeps_the_rules() {
    let report = Conformance::default().check(MemoryNode::new).await.unwrap();
    assert!(report.compared > 1000, "{report:?}");
}

// mutant: exclusion, fencing, readers, turns, no-resurrection, forced-release
#[tokio::test]
async fn every_fault_is_found_in_a_short_sequence() {
    let found = FAULTS.map(async |fault| (fault, found(Conformance::default(), fault).await));
    for (fault, divergence) in join_all(found).await {
        assert!(divergence.steps.len() <= 9, "{fault:?}: {divergence}");
    }
}

// mutant: exclusion, no-resurrection, forced-release, quarantine
#[tokio::test]
async fn every_fault_is_found_that_shows_in_time_or_when_much_is_asked_at_once() {
    let found = FAULTS_IN_TIME.map(async |fault| (fault, found(Conformance::default().sequences(0), fault).await));
    for (fault, divergence) in join_all(found).await {
        assert_eq!(divergence.seed, None, "{fault:?}: {divergence}");
    }
}

#[tokio::test]
async fn a_divergence_shows_the_steps_and_both_replies() {
    let fault = Fault::ReservesOneTokenOfSeveral;
    let divergence = found(Conformance::default(), fault).await;
    let shown = divergence.to_string();
    assert!(shown.contains("tokens: 20") && shown.contains("the rules: Replied([Ok(Granted {"), "{shown}");
    let again = Conformance::default().seed(divergence.seed.unwrap()).sequences(1);
    assert_eq!(found(again, fault).await.node, divergence.node);
}

#[tokio::test]
async fn what_a_node_is_declared_to_lack_is_not_compared_and_the_rest_is() {
    for (fault, lack) in [(Fault::ForgetsWhoWaits, Lack::WaitingRoom), (Fault::WakesNobody, Lack::Wakeups)] {
        Conformance::default().lacks([lack]).sequences(30).check(|| FaultyNode::new(fault)).await.unwrap();
        found(Conformance::default().lacks([lack]), Fault::ReleasesTheLockOfAnother).await;
    }
    // A release may be requested while the node has no epoch at all.
    let lacks = [Lack::EpochOfReleases];
    let report =
        Conformance::default().lacks(lacks).check(|| FaultyNode::new(Fault::ReleasesInAnyEpoch)).await.unwrap();
    assert!(report.compared > 1000, "{report:?}");
    // A lock that ends early is not seen in what is said about it, but by waiting for it.
    let lacks = [Lack::Remaining, Lack::Look];
    let divergence = found(Conformance::default().lacks(lacks), Fault::EndsLocksEarly).await;
    assert_eq!(divergence.seed, None, "{divergence}");
}
