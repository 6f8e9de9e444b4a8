//! What the process of an evicted holder can still do with its grant. In virtual time.

use std::time::Duration;

use lock_core::node::EVICTION_GAP;
use lock_core::quorum::WORD_TTL;
use lock_core::{LockError, LockManager, LockRequest, LossReason};
use lock_support::{MemoryCluster, eventually, got_it_beside, joined_beside, succeed};
use tokio::time::{Instant, sleep, timeout};

const TTL: Duration = Duration::from_secs(3);
const WAIT: Duration = Duration::from_secs(60);
const MS: Duration = Duration::from_millis(1);

/// Two processes over three nodes, each of which takes so long to be asked, and so long to reply.
async fn two_managers(delay: Duration) -> (MemoryCluster, [LockManager; 2]) {
    let cluster = MemoryCluster::new(3);
    let builder = || cluster.builder().ttl(TTL).max_ttl(TTL).wait(WAIT).node_timeout(TTL / 3);
    let managers = [builder().connect().await.unwrap(), builder().connect().await.unwrap()];
    cluster.nodes.iter().for_each(|node| node.set_delay(delay));
    (cluster, managers)
}

/// How far the nodes are away: near, far, and so far that their word is old when it arrives.
const DELAYS: [u32; 4] = [0, 1, 30, 110];

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn no_reader_joins_an_evicted_grant_beside_its_successor() {
    for delay in DELAYS {
        for pause in 0..20 {
            let (_cluster, [ours, theirs]) = two_managers(MS * delay).await;
            let reading = ours.read("r").acquire().await.unwrap();
            sleep(MS * pause).await;
            assert_eq!(joined_beside(&ours, &theirs, "r").await, 0, "{delay} ms away, evicted after {pause} ms");
            drop(reading);
        }
    }
}

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn an_evicted_grant_is_handed_over_to_nobody_beside_its_successor() {
    for (delay, pause) in DELAYS.into_iter().flat_map(|delay| (0..20).map(move |pause| (delay, pause))) {
        let (_cluster, [ours, theirs]) = two_managers(MS * delay).await;
        let beside = got_it_beside(async || ours.lock("r").acquire().await.unwrap(), async {
            sleep(MS * (delay * 2 + pause)).await;
            succeed(&theirs, "r", async || theirs.lock("r").acquire().await.unwrap()).await
        });
        assert_eq!(beside.await, 0, "{delay} ms away, evicted after {pause} ms");
    }
}

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn an_evicted_slot_is_handed_over_to_nobody_beside_its_successor() {
    for (delay, pause) in DELAYS.into_iter().flat_map(|delay| (0..20).map(move |pause| (delay, pause))) {
        let (_cluster, [ours, theirs]) = two_managers(MS * delay).await;
        let beside = got_it_beside(async || ours.permits("r", 1).acquire().await.unwrap(), async {
            sleep(MS * (delay * 2 + pause)).await;
            succeed(&theirs, "r{0}", async || theirs.permits("r", 1).acquire().await.unwrap()).await
        });
        assert_eq!(beside.await, 0, "{delay} ms away, evicted after {pause} ms");
    }
}

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn a_set_does_not_begin_with_a_lock_that_was_evicted_while_its_caller_waited_for_another() {
    for renews in [true, false] {
        let (_cluster, [ours, theirs]) = two_managers(MS).await;
        let second = theirs.lock("b").acquire().await.unwrap();
        let set = tokio::spawn(ours.lock_all(["a", "b"]).renew(renews).acquire());
        sleep(MS * 300).await;
        theirs.force_release("a").await.unwrap();
        let successor = theirs.lock("a").try_acquire().await.unwrap();
        let token = successor.token();
        second.release().await.unwrap();
        sleep(MS * 500).await;
        assert!(!set.is_finished(), "it waits for the successor");
        assert!(successor.release().await.unwrap());
        let set = set.await.unwrap().unwrap();
        assert!(set.is_valid() && set.leases()[0].token() > token);
        drop(set);
    }
}

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn a_forced_release_returns_when_the_lock_can_be_had() {
    let (_cluster, [ours, theirs]) = two_managers(MS).await;
    let stuck = ours.lock("r").acquire().await.unwrap();
    let began = Instant::now();
    let (one, other) = tokio::join!(theirs.force_release("r"), async {
        sleep(MS * 20).await;
        assert!(matches!(theirs.lock("r").try_acquire().await, Err(LockError::Contended { .. })), "nobody may have it");
        let report = theirs.inspect("r").await.unwrap();
        assert_eq!(report.verdict().to_string(), "free");
        // It evicts nobody, and knows when the lock can be had.
        ours.force_release("r").await
    });
    assert!(one.unwrap().evicted.len() == 1 && other.unwrap().evicted.is_empty());
    assert!((EVICTION_GAP..EVICTION_GAP + MS * 20).contains(&began.elapsed()), "{:?}", began.elapsed());
    theirs.lock("r").try_acquire().await.unwrap().release().await.unwrap();
    drop(stuck);
}

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn two_forced_releases_at_once_both_return_when_the_lock_can_be_had() {
    let (_cluster, [ours, theirs]) = two_managers(MS).await;
    let stuck = ours.lock("r").acquire().await.unwrap();
    let began = Instant::now();
    let force_release = async |locks: &LockManager| {
        let forced = locks.force_release("r").await.unwrap();
        assert_eq!(forced.evicted.len(), 1, "both saw the holder");
        (forced.freed_on.len(), began.elapsed())
    };
    let (one, other) = tokio::join!(force_release(&ours), force_release(&theirs));
    assert!(one.0 == 0 || other.0 == 0, "one of them deleted all keys: {one:?}, {other:?}");
    assert!(one.1.min(other.1) >= EVICTION_GAP, "{one:?}, {other:?}");
    theirs.lock("r").try_acquire().await.unwrap().release().await.unwrap();
    drop(stuck);
}

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn all_readers_of_one_hold_learn_of_the_loss_in_one_step() {
    let (_cluster, [ours, theirs]) = two_managers(MS).await;
    let mut readers = Vec::new();
    for _ in 0..400 {
        readers.push(ours.read("r").acquire().await.unwrap());
        // The nodes' word is renewed now and then meanwhile.
        sleep(MS * 7).await;
    }
    assert!(readers.iter().all(|reader| reader.is_valid()));
    let forced = theirs.force_release("r").await.unwrap();
    assert_eq!(forced.evicted.len(), 1, "they share one hold");
    let began = Instant::now();
    timeout(TTL / 3, readers[200].lost()).await.unwrap();
    assert!(readers.iter().all(|reader| !reader.is_valid()), "told after {:?}", began.elapsed());
    let is_gone = |error| matches!(error, LockError::Lost { reason: LossReason::Gone, .. });
    assert!(readers.iter().all(|reader| reader.check().is_err_and(is_gone)));
    drop(readers);
    eventually("nothing is left", || ours.held().is_empty()).await;
}

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn a_reader_that_asks_the_nodes_tells_the_others_of_the_loss() {
    let (_cluster, [ours, theirs]) = two_managers(MS).await;
    let readers = [ours.read("r").acquire().await.unwrap(), ours.read("r").acquire().await.unwrap()];
    theirs.force_release("r").await.unwrap();
    sleep(WORD_TTL).await;
    let fresh = ours.read("r").acquire().await.unwrap();
    assert!(readers.iter().all(|reader| !reader.is_valid()), "they learn what it was told");
    assert!(fresh.is_valid() && fresh.token() > readers[0].token());
}

/// When the holder of a lock learns that it was evicted, counted from the eviction, in whatever moment of its hold that is.
async fn told_after(request: impl Fn(&LockManager) -> LockRequest, evicted_after: Duration) -> Duration {
    let (_cluster, [ours, theirs]) = two_managers(Duration::ZERO).await;
    let held = request(&ours).acquire().await.unwrap();
    sleep(evicted_after).await;
    let began = Instant::now();
    let (_, told) = tokio::join!(theirs.force_release("r"), async {
        held.lost().await;
        began.elapsed()
    });
    told
}

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn an_evicted_holder_learns_of_it_within_a_third_of_the_ttl_if_it_renews() {
    let mut longest = Duration::ZERO;
    for moment in 0..20 {
        longest = longest.max(told_after(|locks| locks.lock("r"), MS * 150 * moment).await);
    }
    assert!(longest <= TTL / 3 + MS * 10, "{longest:?}");
}

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn an_evicted_holder_that_does_not_renew_learns_of_it_at_the_end_of_its_validity() {
    let told = told_after(|locks| locks.lock("r").renew(false), MS * 10).await;
    assert!((TTL * 9 / 10..TTL).contains(&told), "{told:?}");
}

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn an_evicted_holder_learns_of_it_at_the_end_of_max_hold_if_it_was_renewed_up_to_there() {
    let request = |locks: &LockManager| locks.lock("r").max_hold(TTL * 2);
    let mut longest = Duration::ZERO;
    for moment in 0..20 {
        let evicted_after = TTL + MS * 150 * moment;
        let told = told_after(request, evicted_after).await;
        assert!(told <= TTL * 2 - evicted_after, "no later than max_hold: {told:?}");
        longest = longest.max(told);
    }
    assert!(longest > TTL / 3 && longest < TTL, "{longest:?}");
}
