//! The life of a lease: expiry, loss, release. In virtual time.

use std::time::Duration;

use lock_core::node::{Kind, Operation, OwnerId, QueuePosition, Reply};
use lock_core::{Lease, LockError, LossReason};
use lock_support::{MemoryCluster, eventually};
use tokio::time::{Instant, advance, sleep, timeout};

pub(crate) const TTL: Duration = Duration::from_secs(10);
pub(crate) const STEP: Duration = Duration::from_millis(1);

/// Why a lease was lost; `None` if it is valid.
pub(crate) fn loss_reason(lease: &Lease) -> Option<LossReason> {
    match lease.check() {
        Err(LockError::Lost { reason, .. }) => Some(reason),
        Err(error) => panic!("{error}"),
        Ok(()) => None,
    }
}

// promise: exclusion
#[tokio::test(start_paused = true)]
async fn a_lease_ends_before_any_node_frees_the_key() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().connect().await.unwrap();
    for renew in [false, true] {
        for (node, delay) in cluster.nodes.iter().zip([0, 10, 20, 30, 40]) {
            node.set_delay(Duration::from_millis(delay));
        }
        let started = Instant::now();
        let guard = locks.lock("r").ttl(TTL).renew(renew).acquire().await.unwrap();
        cluster.nodes.iter().for_each(|node| node.set_delay(Duration::ZERO));
        eventually("all nodes hold the key", || cluster.holding() == 5).await;
        if renew {
            // No request gets through to the nodes, while their clocks go on.
            cluster.nodes.iter().for_each(|node| node.set_delay(TTL * 3));
        }
        let mut invalid_after = None;
        while cluster.holding() == 5 {
            if !guard.is_valid() && invalid_after.is_none() {
                invalid_after = Some(started.elapsed());
            }
            sleep(STEP).await;
        }
        let (invalid, freed) = (invalid_after.unwrap(), started.elapsed());
        assert!(invalid < freed && freed >= TTL, "renew {renew}: invalid after {invalid:?}, freed after {freed:?}");
        assert!(invalid > TTL * 9 / 10, "{invalid:?}");
        assert_eq!(loss_reason(&guard), Some(LossReason::Expired));
        drop(guard);
        cluster.nodes.iter().for_each(|node| node.set_delay(Duration::ZERO));
        eventually("all keys are gone", || cluster.holding() == 0).await;
    }
}

// promise: no-resurrection
#[tokio::test(start_paused = true)]
async fn a_holder_paused_past_its_ttl_finds_its_lease_expired_on_resuming() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.manager();
    let guard = locks.lock("r").ttl(TTL).acquire().await.unwrap();
    let lease = guard.lease();
    // No task runs meanwhile, not even the renewer.
    advance(TTL).await;
    assert!(!guard.is_valid());
    assert_eq!(lease.remaining(), Duration::ZERO);
    assert_eq!(loss_reason(&lease), Some(LossReason::Expired));
    timeout(Duration::ZERO, guard.lost()).await.unwrap();
    sleep(TTL * 3).await;
    assert!(!guard.is_valid(), "renewal does not revive it");
    assert_eq!(cluster.holding(), 0);
    assert_eq!(guard.release().await, Ok(false));
}

// promise: no-resurrection
#[tokio::test(start_paused = true)]
async fn a_late_release_leaves_the_successors_lock_alone() {
    let cluster = MemoryCluster::new(5);
    let (ours, theirs) = (cluster.manager(), cluster.manager());
    for ending in ["release", "drop"] {
        let late = ours.lock("r").ttl(TTL).renew(false).acquire().await.unwrap();
        let successor = theirs.lock("r").ttl(TTL).wait(TTL * 2).acquire().await.unwrap();
        assert!(!late.is_valid() && successor.token() > late.token());
        match ending {
            "release" => assert_eq!(late.release().await, Ok(false)),
            _ => drop(late),
        }
        sleep(TTL * 3).await;
        assert_eq!(cluster.holding(), 5, "{ending}");
        assert!(successor.is_valid());
        assert_eq!(successor.release().await, Ok(true));
    }
}

// promise: lost-quorum
#[tokio::test(start_paused = true)]
async fn a_lease_survives_an_outage_shorter_than_its_validity() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.manager();
    let guard = locks.lock("r").ttl(TTL).acquire().await.unwrap();
    for _ in 0..5 {
        cluster.nodes.iter().for_each(|node| node.set_down(true));
        sleep(TTL / 2).await;
        assert!(guard.is_valid(), "no node has reported a loss");
        cluster.nodes.iter().for_each(|node| node.set_down(false));
        sleep(TTL / 2).await;
    }
    assert_eq!(guard.release().await, Ok(true));
}

// promise: no-deadlock
#[tokio::test(start_paused = true)]
async fn max_hold_ends_the_lease_and_the_lock_follows_within_a_ttl() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.manager();
    let max_hold = Duration::from_millis(2500);
    let ttl = Duration::from_secs(1);
    let guard = locks.lock("r").ttl(ttl).max_hold(max_hold).acquire().await.unwrap();
    let started = Instant::now();
    guard.lost().await;
    assert!(started.elapsed().abs_diff(max_hold) <= Duration::from_millis(2), "{:?}", started.elapsed());
    assert_eq!(loss_reason(&guard), Some(LossReason::MaxHold));
    // The guard is still alive, and the key lives until its last renewal runs out.
    let next = locks.lock("r").wait(Duration::from_secs(2)).acquire().await.unwrap();
    assert!(next.token() > guard.token() && started.elapsed() <= max_hold + ttl, "{:?}", started.elapsed());
    assert_eq!(guard.release().await, Ok(false));
    assert_eq!(next.release().await, Ok(true));
}

// promise: no-resurrection
#[tokio::test(start_paused = true)]
async fn renewal_and_release_leave_another_owners_key_alone() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.manager();
    let guard = locks.lock("r").ttl(TTL).acquire().await.unwrap();
    cluster.nodes[0].advance_clock(TTL);
    let (node, owner) = (cluster.raw(0).await, OwnerId::from_bits(7));
    let reply = node
        .send("r", Operation::Acquire { owner, ttl: TTL * 6, hint: 0, tokens: 1, since: None, kind: Kind::Write })
        .await
        .unwrap();
    let Reply::Granted { token } = reply else { panic!("{reply:?}") };
    assert!(token > guard.token().get());
    sleep(TTL * 2).await;
    assert!(guard.is_valid());
    assert_eq!(guard.release().await, Ok(true));
    assert_eq!(
        node.send("r", Operation::Release { owner, position: QueuePosition::None }).await,
        Ok(Reply::Released),
        "the other owner still had the key"
    );
}

#[tokio::test(start_paused = true)]
async fn release_reports_whether_the_lock_was_still_held() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.manager();
    let guard = locks.lock("r").ttl(TTL).acquire().await.unwrap();
    let lease = guard.lease();
    assert_eq!(guard.release().await, Ok(true));
    assert_eq!(loss_reason(&lease), Some(LossReason::Released));
    timeout(Duration::ZERO, lease.lost()).await.unwrap();

    let guard = locks.lock("r").ttl(TTL).acquire().await.unwrap();
    cluster.nodes[..3].iter().for_each(|node| node.advance_clock(TTL));
    assert!(guard.is_valid(), "the loss has not been noticed");
    assert_eq!(guard.release().await, Ok(false), "three of five no longer had the key");

    let guard = locks.lock("r").ttl(TTL).acquire().await.unwrap();
    cluster.nodes[..3].iter().for_each(|node| node.set_down(true));
    let started = Instant::now();
    let error = guard.release().await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    assert!(started.elapsed() <= Duration::from_millis(50), "{:?}", started.elapsed());
    cluster.nodes[..3].iter().for_each(|node| node.set_down(false));
    let recovered = Instant::now();
    eventually("the release is retried in the background", || cluster.holding() == 0).await;
    assert!(recovered.elapsed() < TTL / 2, "{:?}", recovered.elapsed());
}
