//! Renewals: how a held lock is kept, and put back on nodes that lack it.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::node::{Kind, Operation, OwnerId, QueuePosition, Reply};
use lock_core::{LockError, LockManager, LockNode as _, LossReason, MemoryNode};
use lock_support::{Events, MemoryCluster, Recorder, eventually};
use tokio::time::{Instant, sleep};

use super::lease_lifecycle::{STEP, TTL, loss_reason};

#[tokio::test(start_paused = true)]
async fn renewal_keeps_a_lock_beyond_its_ttl() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.manager();
    let ttl = Duration::from_secs(1);
    let guard = locks.lock("r").ttl(ttl).max_hold(ttl * 100).acquire().await.unwrap();
    let started = Instant::now();
    while started.elapsed() < ttl * 50 {
        assert!(guard.is_valid(), "after {:?}", started.elapsed());
        assert!(guard.remaining() > ttl / 3, "{:?}", guard.remaining());
        assert_eq!(cluster.holding(), 5);
        assert!(locks.lock("r").try_acquire().await.is_err());
        sleep(ttl / 10).await;
    }
    assert_eq!(guard.release().await, Ok(true));
}

// promise: minority-faults
#[tokio::test(start_paused = true)]
async fn renewal_continues_while_a_minority_is_down_hung_or_loses_its_replies() {
    let ttl = Duration::from_secs(1);
    let faults: [fn(&MemoryNode); 3] =
        [|node| node.set_down(true), |node| node.set_delay(Duration::from_secs(3600)), |node| node.drop_replies(true)];
    for (number, fault) in faults.into_iter().enumerate() {
        let cluster = MemoryCluster::new(5);
        let locks = cluster.manager();
        let guard = locks.lock("r").ttl(ttl).acquire().await.unwrap();
        cluster.nodes[1..3].iter().for_each(fault);
        sleep(ttl * 20).await;
        assert!(guard.is_valid(), "fault {number}");
        assert_eq!(guard.release().await, Ok(true), "fault {number}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_names_the_error_of_a_node() {
    let cluster = MemoryCluster::new(3);
    let locks = cluster.manager();
    let guard = locks.lock("r").ttl(TTL).acquire().await.unwrap();
    let events = Events::record();
    cluster.nodes.iter().for_each(|node| node.set_down(true));
    sleep(TTL / 2).await;
    assert!(guard.is_valid());
    let unknown = events.named("lock.renewal_unknown");
    assert!(unknown[0].fields.contains(" error=not reachable"), "{unknown:?}");
    assert!(cluster.nodes.iter().any(|node| unknown[0].fields.contains(node.name())), "{unknown:?}");
}

#[tokio::test(start_paused = true)]
async fn one_slow_node_does_not_delay_the_renewal_of_thousands_of_leases() {
    let cluster = MemoryCluster::new(5);
    let ttl = Duration::from_secs(2);
    let locks = cluster.builder().ttl(ttl).node_timeout(Duration::from_secs(1)).connect().await.unwrap();
    cluster.nodes[4].set_delay(Duration::from_millis(900));
    let resources = (0..3000).map(|number| locks.lock(number.to_string()).acquire());
    let guards: Vec<_> = join_all(resources).await.into_iter().map(Result::unwrap).collect();
    sleep(ttl * 3).await;
    assert!(guards.iter().all(|guard| guard.is_valid()));
}

// promise: no-resurrection
#[tokio::test(start_paused = true)]
async fn a_lock_missing_on_a_majority_is_lost_at_the_next_renewal_and_not_retaken() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().ttl(TTL).max_ttl(TTL).connect().await.unwrap();
    let guard = locks.lock("r").acquire().await.unwrap();
    // The clocks of three nodes jump forward, and they expire the key early.
    cluster.nodes[..3].iter().for_each(|node| node.advance_clock(TTL));
    let started = Instant::now();
    guard.lost().await;
    assert!(started.elapsed() <= TTL / 3 + STEP, "{:?}", started.elapsed());
    assert_eq!(loss_reason(&guard), Some(LossReason::Gone));
    sleep(TTL * 2).await;
    assert_eq!(cluster.holding(), 0, "the key is not restored");
    assert_eq!(guard.release().await, Ok(false));
}

// promise: no-resurrection
#[tokio::test(start_paused = true)]
async fn a_renewal_restores_a_missing_key_which_counts_from_the_following_one_on() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.manager();
    let guard = locks.lock("r").ttl(TTL).acquire().await.unwrap();
    cluster.nodes[0].advance_clock(TTL);
    cluster.nodes[1].advance_clock(TTL);
    assert_eq!(cluster.holding(), 3);
    eventually("the next renewal restores the key", || cluster.holding() == 5).await;
    // The restored keys count: now other nodes may lose theirs.
    cluster.nodes[3].advance_clock(TTL);
    cluster.nodes[4].advance_clock(TTL);
    sleep(TTL * 2).await;
    assert!(guard.is_valid());
    assert_eq!(cluster.holding(), 5);
    assert_eq!(guard.release().await, Ok(true));
    assert_eq!(cluster.holding(), 0, "released where it was restored, too");
}

// promise: no-resurrection
#[tokio::test(start_paused = true)]
async fn a_renewal_restores_a_missing_key_on_a_slow_node_too() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().node_timeout(Duration::from_millis(500)).connect().await.unwrap();
    let guard = locks.lock("r").ttl(TTL).acquire().await.unwrap();
    cluster.nodes[4].advance_clock(TTL);
    cluster.nodes[4].set_delay(Duration::from_millis(200));
    assert_eq!(cluster.holding(), 4);
    eventually("the next renewal restores the key", || cluster.holding() == 5).await;
    assert_eq!(guard.release().await, Ok(true));
    eventually("the slow node releases the key, too", || cluster.holding() == 0).await;
}

// promise: no-resurrection
#[tokio::test(start_paused = true)]
async fn a_renewal_in_flight_does_not_restore_a_released_key() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.manager();
    let ttl = Duration::from_secs(1);
    for after in 0..100 {
        let guard = locks.lock("r").ttl(ttl).acquire().await.unwrap();
        cluster.nodes.iter().for_each(|node| node.set_delay(Duration::from_millis(40)));
        cluster.nodes[0].advance_clock(ttl);
        // Around the first renewal, and the replacement of the missing key that follows it.
        sleep(Duration::from_millis(300 + after)).await;
        drop(guard);
        cluster.nodes.iter().for_each(|node| node.set_delay(Duration::ZERO));
        assert_eq!(cluster.holding(), 0, "released {after} ms after 300");
        sleep(ttl / 2).await;
        assert_eq!(cluster.holding(), 0, "released {after} ms after 300, and restored");
    }
}

// promise: exclusion
#[tokio::test(start_paused = true)]
async fn a_grant_that_a_node_refused_is_on_it_soon_after_the_former_holder_released_there() {
    let cluster = MemoryCluster::new(3);
    let locks = cluster.manager();
    assert!(locks.lock("r").acquire().await.unwrap().release().await.unwrap());
    eventually("no node holds the key", || cluster.holding() == 0).await;
    // The release of the former holder is on its way to one node, and has arrived on the others.
    let (node, former) = (cluster.raw(2).await, OwnerId::from_bits(7));
    let held = Operation::Acquire { owner: former, ttl: TTL, hint: 0, tokens: 1, since: None, kind: Kind::Write };
    assert!(matches!(node.send("r", held).await, Ok(Reply::Granted { .. })));
    let guard = locks.lock("r").ttl(TTL).acquire().await.unwrap();
    let release = Operation::Release { owner: former, position: QueuePosition::None };
    assert_eq!(node.send("r", release).await, Ok(Reply::Released));
    assert_eq!(cluster.holding(), 2, "a bare majority");
    sleep(TTL / 100).await;
    assert_eq!(cluster.holding(), 3);
    // From now on, one clock may step.
    cluster.nodes[0].advance_clock(TTL);
    assert!(matches!(cluster.manager().lock("r").try_acquire().await, Err(LockError::Contended { .. })));
    assert!(guard.is_valid());
}

// promise: exclusion
#[tokio::test(start_paused = true)]
async fn a_grant_that_a_node_refuses_when_it_was_decided_is_on_it_soon_as_well() {
    let cluster = MemoryCluster::new(3);
    let locks = cluster.manager();
    assert!(locks.lock("r").acquire().await.unwrap().release().await.unwrap());
    eventually("no node holds the key", || cluster.holding() == 0).await;
    let (former, mut nodes) = (OwnerId::from_bits(7), Vec::new());
    let held = Operation::Acquire { owner: former, ttl: TTL, hint: 0, tokens: 1, since: None, kind: Kind::Write };
    for node in 0..3 {
        nodes.push(cluster.raw(node).await);
        assert!(matches!(nodes[node].send("r", held).await, Ok(Reply::Granted { .. })));
    }
    let waiting = tokio::spawn(locks.lock("r").ttl(TTL).wait(TTL).acquire());
    sleep(TTL / 10).await;
    // Two nodes wake the waiter and grant before the third replies.
    let far = STEP * 20;
    cluster.nodes[2].set_delay(far);
    let release = Operation::Release { owner: former, position: QueuePosition::None };
    for node in &nodes[..2] {
        assert_eq!(node.send("r", release).await, Ok(Reply::Released));
    }
    let guard = waiting.await.unwrap().unwrap();
    assert!(guard.age() < far, "the third has not replied");
    sleep(far * 3).await;
    cluster.nodes[2].set_delay(Duration::ZERO);
    assert_eq!(nodes[2].send("r", release).await, Ok(Reply::Released));
    assert_eq!(cluster.holding(), 2, "a bare majority");
    sleep(TTL / 50).await;
    assert_eq!(cluster.holding(), 3);
    assert!(guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_on_to_refuse_is_asked_less_and_less_often() {
    let cluster = MemoryCluster::new(3);
    let recorders: Vec<_> = cluster.nodes.iter().cloned().map(Recorder::new).collect();
    let locks = LockManager::builder().nodes(recorders.clone()).connect().await.unwrap();
    let stranger = Operation::Acquire {
        owner: OwnerId::from_bits(7),
        ttl: TTL * 3,
        hint: 0,
        tokens: 1,
        since: None,
        kind: Kind::Write,
    };
    assert!(matches!(cluster.raw(2).await.send("r", stranger).await, Ok(Reply::Granted { .. })));
    let guard = locks.lock("r").ttl(TTL).acquire().await.unwrap();
    sleep(TTL).await;
    assert!(guard.is_valid());
    let renewals = recorders[0].renewals();
    assert!((6..=10).contains(&renewals), "{renewals}");
}
