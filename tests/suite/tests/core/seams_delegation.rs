//! Delegations of locks that are not renewed, and to services that have just started or have many callers. In virtual time.

use std::sync::Arc;
use std::time::Duration;

use lock_core::delegation::AdoptError;
use lock_core::observer::LockEvent;
use lock_core::{LockManagerBuilder, LockObserver};
use lock_support::{MemoryCluster, eventually};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(600);
const ROUND_TRIP: Duration = Duration::from_millis(20);

fn builder(cluster: &MemoryCluster) -> LockManagerBuilder {
    cluster.builder().ttl(TTL).max_ttl(TTL).wait(LONG)
}

// promise: delegation
#[tokio::test(start_paused = true)]
async fn a_delegation_of_a_lock_that_is_not_renewed_ends_with_it() {
    let cluster = MemoryCluster::new(5);
    let (holder, other) = (builder(&cluster).connect().await.unwrap(), builder(&cluster).connect().await.unwrap());
    for reads in [false, true] {
        let began = Instant::now();
        let (lease, _guard): (_, Box<dyn std::any::Any>) = if reads {
            let guard = holder.read("r").renew(false).acquire().await.unwrap();
            (guard.lease(), Box::new(guard))
        } else {
            let guard = holder.lock("r").renew(false).acquire().await.unwrap();
            (guard.lease(), Box::new(guard))
        };
        let delegation = lease.delegate().expires_in(LONG).create().unwrap();
        // Another reader of the process is renewed, and is another hold.
        let _beside = if reads { Some(holder.read("r").acquire().await.unwrap()) } else { None };
        sleep(TTL / 2).await;
        let adopted = other.adopt(delegation.as_str(), "r").await.unwrap();
        assert!(adopted.remaining() <= TTL / 2);
        adopted.lost().await;
        assert!(began.elapsed() <= TTL, "{:?}", began.elapsed());
        sleep(ROUND_TRIP * 2).await;
        let late = other.adopt(delegation.as_str(), "r").await;
        assert!(matches!(late, Err(AdoptError::Refused { .. })), "{late:?}");
    }
}

// promise: delegation
#[tokio::test(start_paused = true)]
async fn a_service_that_has_just_started_adopts_by_the_majority_that_answers() {
    let cluster = MemoryCluster::new(5);
    let holder = builder(&cluster).connect().await.unwrap();
    let guard = holder.lock("r").acquire().await.unwrap();
    let delegation = guard.delegate().expires_in(LONG).create().unwrap();
    cluster.nodes[..2].iter().for_each(|node| node.set_down(true));
    cluster.nodes[2..].iter().for_each(|node| node.set_delay(ROUND_TRIP));
    let starting = builder(&cluster).connect_lazy().unwrap();
    let adopted = starting.adopt(delegation.as_str(), "r").await.unwrap();
    assert_eq!(adopted.token(), guard.token());
    sleep(TTL * 3).await;
    assert!(adopted.is_valid() && guard.is_valid());
    cluster.nodes[2].set_down(true);
    let starting = builder(&cluster).connect_lazy().unwrap();
    let unproven = starting.adopt(delegation.as_str(), "r").await;
    assert!(matches!(unproven, Err(AdoptError::NoQuorum { .. })), "{unproven:?}");
}

// promise: delegation, overload
#[tokio::test(start_paused = true)]
async fn a_delegation_is_adopted_and_kept_beside_a_burst() {
    let cluster = MemoryCluster::new(5);
    let (holder, other) = (builder(&cluster).connect().await.unwrap(), builder(&cluster).connect().await.unwrap());
    let guard = holder.lock("r").acquire().await.unwrap();
    let delegation = guard.delegate().expires_in(LONG).create().unwrap();
    cluster.nodes.iter().for_each(|node| node.set_delay(ROUND_TRIP));
    let burst: Vec<_> = (0..10_000).map(|number| tokio::spawn(other.lock(format!("r{number}")).acquire())).collect();
    sleep(ROUND_TRIP / 2).await;
    let began = Instant::now();
    let adopted = other.adopt(delegation.as_str(), "r").await.unwrap();
    assert!(began.elapsed() <= ROUND_TRIP * 3, "{:?}", began.elapsed());
    sleep(TTL).await;
    assert!(!burst.last().unwrap().is_finished() && adopted.is_valid());
    for caller in burst {
        drop(caller.await.unwrap().unwrap());
    }
}

// promise: delegation, membership
#[tokio::test(start_paused = true)]
async fn a_service_that_has_not_heard_of_a_change_of_the_members_adopts_all_the_same() {
    let cluster = MemoryCluster::new(5);
    let (holder, other) = (builder(&cluster).connect().await.unwrap(), builder(&cluster).connect().await.unwrap());
    sleep(TTL * 3).await;
    // It takes a new roster.
    builder(&cluster).max_ttl(TTL * 2).connect().await.unwrap();
    let guard = holder.lock("r").acquire().await.unwrap();
    let delegation = guard.delegate().create().unwrap();
    let adopted = other.adopt(delegation.as_str(), "r").await.unwrap();
    assert_eq!(adopted.token(), guard.token());
}

// promise: delegation
#[tokio::test(start_paused = true)]
async fn a_lock_that_ends_while_it_is_proven_is_not_adopted() {
    let cluster = MemoryCluster::new(5);
    let (holder, other) = (builder(&cluster).connect().await.unwrap(), builder(&cluster).connect().await.unwrap());
    let guard = holder.lock("r").renew(false).acquire().await.unwrap();
    let delegation = guard.delegate().expires_in(LONG).create().unwrap();
    sleep(TTL * 7 / 10).await;
    // They say that a tenth of its time is left, counted from when they were asked.
    cluster.nodes.iter().for_each(|node| node.set_delay(TTL * 2 / 10));
    let adopted = other.adopt(delegation.as_str(), "r").await;
    assert!(matches!(adopted, Err(AdoptError::NoQuorum { .. })), "{adopted:?}");
}

/// Is dropped with the manager that it observes, and with what that has started.
struct Witness;

impl LockObserver for Witness {
    fn observe(&self, _: &LockEvent<'_>) {}
}

// promise: delegation, no-leaks
#[tokio::test(start_paused = true)]
async fn an_adopted_lease_outlives_its_manager_and_nothing_outlives_both() {
    let (cluster, witness) = (MemoryCluster::new(5), Arc::new(Witness));
    let holder = builder(&cluster).connect().await.unwrap();
    let guard = holder.lock("r").acquire().await.unwrap();
    let delegation = guard.delegate().expires_in(LONG).create().unwrap();
    for lost in [false, true] {
        let other = builder(&cluster).observer(witness.clone()).connect().await.unwrap();
        let adopted = other.adopt(delegation.as_str(), "r").await.unwrap();
        drop(other);
        sleep(TTL * 3).await;
        assert!(adopted.is_valid(), "{:?}", adopted.check());
        let view = adopted.lease();
        if lost {
            holder.force_release("r").await.unwrap();
            adopted.lost().await;
        }
        drop(adopted);
        eventually("only a view of the lease is left", || Arc::strong_count(&witness) <= 2).await;
        assert!(!view.is_valid());
        drop(view);
        eventually("nothing is left", || Arc::strong_count(&witness) == 1).await;
    }
}
