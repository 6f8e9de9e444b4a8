//! What happens to a lock while it is held: renewal, expiry, loss, release. In virtual time.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::node::{Operation, OwnerId, QueuePosition, Reply};
use lock_core::{Lease, LockError, LossReason, MemoryNode};
use lock_support::{MemoryCluster, eventually};
use tokio::time::{Instant, advance, sleep, timeout};

const TTL: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(1);

fn reason(lease: &Lease) -> Option<LossReason> {
    match lease.check() {
        Err(LockError::Lost { reason, .. }) => Some(reason),
        Err(error) => panic!("{error}"),
        Ok(()) => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_sees_its_lease_end_before_any_node_frees_the_key() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().connect().await.unwrap();
    for renew in [false, true] {
        for (node, delay) in cluster.nodes.iter().zip([0, 10, 20, 30, 40]) {
            node.set_delay(Duration::from_millis(delay));
        }
        let asked = Instant::now();
        let guard = locks.lock("r").ttl(TTL).renew(renew).acquire().await.unwrap();
        cluster.nodes.iter().for_each(|node| node.set_delay(Duration::ZERO));
        eventually("all have it", || cluster.holding() == 5).await;
        if renew {
            // Nothing gets through to the masters, though they and their clocks go on.
            cluster.nodes.iter().for_each(|node| node.set_delay(TTL * 3));
        }
        let mut valid_until = None;
        while cluster.holding() == 5 {
            if !guard.is_valid() && valid_until.is_none() {
                valid_until = Some(asked.elapsed());
            }
            sleep(STEP).await;
        }
        let (told, freed) = (valid_until.unwrap(), asked.elapsed());
        assert!(told < freed && freed >= TTL, "renew {renew}: invalid after {told:?}, freed after {freed:?}");
        assert!(told > TTL * 9 / 10, "{told:?}");
        assert_eq!(reason(&guard), Some(LossReason::Expired));
        drop(guard);
        cluster.nodes.iter().for_each(|node| node.set_delay(Duration::ZERO));
        eventually("all are free", || cluster.holding() == 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_was_frozen_past_its_time_to_live_knows_as_soon_as_it_wakes() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.manager();
    let guard = locks.lock("r").ttl(TTL).acquire().await.unwrap();
    let lease = guard.lease();
    // No task runs meanwhile, the renewer neither.
    advance(TTL).await;
    assert!(!guard.is_valid());
    assert_eq!(lease.remaining(), Duration::ZERO);
    assert_eq!(reason(&lease), Some(LossReason::Expired));
    timeout(Duration::ZERO, guard.lost()).await.unwrap();
    sleep(TTL * 3).await;
    assert!(!guard.is_valid(), "renewal never revives it");
    assert_eq!(cluster.holding(), 0);
    assert_eq!(guard.release().await, Ok(false));
}

#[tokio::test(start_paused = true)]
async fn a_late_release_does_not_touch_the_lock_of_the_successor() {
    let cluster = MemoryCluster::new(5);
    let (ours, theirs) = (cluster.manager(), cluster.manager());
    for how in ["release", "drop"] {
        let late = ours.lock("r").ttl(TTL).renew(false).acquire().await.unwrap();
        let successor = theirs.lock("r").ttl(TTL).wait(TTL * 2).acquire().await.unwrap();
        assert!(!late.is_valid() && successor.token() > late.token());
        match how {
            "release" => assert_eq!(late.release().await, Ok(false)),
            _ => drop(late),
        }
        sleep(TTL * 3).await;
        assert_eq!(cluster.holding(), 5, "{how}");
        assert!(successor.is_valid());
        assert_eq!(successor.release().await, Ok(true));
    }
}

#[tokio::test(start_paused = true)]
async fn renewal_keeps_a_lock_for_longer_than_its_time_to_live() {
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

#[tokio::test(start_paused = true)]
async fn renewal_goes_on_while_a_minority_hangs_is_down_or_loses_its_answers() {
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
async fn one_slow_node_does_not_hold_up_the_renewal_of_thousands() {
    let cluster = MemoryCluster::new(5);
    let ttl = Duration::from_secs(2);
    let locks = cluster.builder().ttl(ttl).node_timeout(Duration::from_secs(1)).connect().await.unwrap();
    cluster.nodes[4].set_delay(Duration::from_millis(900));
    let resources = (0..3000).map(|number| locks.lock(number.to_string()).acquire());
    let guards: Vec<_> = join_all(resources).await.into_iter().map(Result::unwrap).collect();
    sleep(ttl * 3).await;
    assert!(guards.iter().all(|guard| guard.is_valid()));
}

#[tokio::test(start_paused = true)]
async fn a_lease_stands_through_an_outage_that_is_shorter_than_its_validity() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.manager();
    let guard = locks.lock("r").ttl(TTL).acquire().await.unwrap();
    for _ in 0..5 {
        cluster.nodes.iter().for_each(|node| node.set_down(true));
        sleep(TTL / 2).await;
        assert!(guard.is_valid(), "nothing is known, so nothing is lost");
        cluster.nodes.iter().for_each(|node| node.set_down(false));
        sleep(TTL / 2).await;
    }
    assert_eq!(guard.release().await, Ok(true));
}

#[tokio::test(start_paused = true)]
async fn max_hold_ends_a_lease_and_a_time_to_live_later_the_lock() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.manager();
    let max_hold = Duration::from_millis(2500);
    let ttl = Duration::from_secs(1);
    let guard = locks.lock("r").ttl(ttl).max_hold(max_hold).acquire().await.unwrap();
    let started = Instant::now();
    guard.lost().await;
    assert!(started.elapsed().abs_diff(max_hold) <= Duration::from_millis(2), "{:?}", started.elapsed());
    assert_eq!(reason(&guard), Some(LossReason::MaxHold));
    // The guard is held yet, and the key has what was left of its last renewal.
    let next = locks.lock("r").wait(Duration::from_secs(2)).acquire().await.unwrap();
    assert!(next.token() > guard.token() && started.elapsed() <= max_hold + ttl, "{:?}", started.elapsed());
    assert_eq!(guard.release().await, Ok(false));
    assert_eq!(next.release().await, Ok(true));
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_a_majority_lost_is_lost_at_the_next_renewal_and_not_taken_back() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().ttl(TTL).max_ttl(TTL).connect().await.unwrap();
    let guard = locks.lock("r").acquire().await.unwrap();
    // As a clock that jumps would: three masters expire the key early.
    cluster.nodes[..3].iter().for_each(|node| node.advance_clock(TTL));
    let started = Instant::now();
    guard.lost().await;
    assert!(started.elapsed() <= TTL / 3 + STEP, "{:?}", started.elapsed());
    assert_eq!(reason(&guard), Some(LossReason::Gone));
    sleep(TTL * 2).await;
    assert_eq!(cluster.holding(), 0, "not put back");
    assert_eq!(guard.release().await, Ok(false));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_lost_the_key_gets_it_back_and_counts_from_the_next_renewal_on() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.manager();
    let guard = locks.lock("r").ttl(TTL).acquire().await.unwrap();
    cluster.nodes[0].advance_clock(TTL);
    cluster.nodes[1].advance_clock(TTL);
    assert_eq!(cluster.holding(), 3);
    eventually("the next renewal puts it back", || cluster.holding() == 5).await;
    // Now others may lose it.
    cluster.nodes[3].advance_clock(TTL);
    cluster.nodes[4].advance_clock(TTL);
    sleep(TTL * 2).await;
    assert!(guard.is_valid());
    assert_eq!(cluster.holding(), 5);
    assert_eq!(guard.release().await, Ok(true));
    assert_eq!(cluster.holding(), 0, "released where it was put back, too");
}

#[tokio::test(start_paused = true)]
async fn a_slow_node_that_lost_the_key_gets_it_back_too() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().node_timeout(Duration::from_millis(500)).connect().await.unwrap();
    let guard = locks.lock("r").ttl(TTL).acquire().await.unwrap();
    cluster.nodes[4].advance_clock(TTL);
    cluster.nodes[4].set_delay(Duration::from_millis(200));
    assert_eq!(cluster.holding(), 4);
    eventually("the next renewal puts it back", || cluster.holding() == 5).await;
    assert_eq!(guard.release().await, Ok(true));
    eventually("released there, too", || cluster.holding() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_key_belongs_to_another_is_left_alone_by_renewal_and_release() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.manager();
    let guard = locks.lock("r").ttl(TTL).acquire().await.unwrap();
    cluster.nodes[0].advance_clock(TTL);
    let (node, owner) = (cluster.raw(0).await, OwnerId::from_bits(7));
    let reply =
        node.vote("r", Operation::Acquire { owner, ttl: TTL * 6, hint: 0, tokens: 1, since: None }).await.unwrap();
    let Reply::Granted { token } = reply else { panic!("{reply:?}") };
    assert!(token > guard.token().get());
    sleep(TTL * 2).await;
    assert!(guard.is_valid());
    assert_eq!(guard.release().await, Ok(true));
    assert_eq!(
        node.vote("r", Operation::Release { owner, position: QueuePosition::None }).await,
        Ok(Reply::Released),
        "still theirs"
    );
}

#[tokio::test(start_paused = true)]
async fn release_tells_whether_the_lock_was_still_ours() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.manager();
    let guard = locks.lock("r").ttl(TTL).acquire().await.unwrap();
    let lease = guard.lease();
    assert_eq!(guard.release().await, Ok(true));
    assert_eq!(reason(&lease), Some(LossReason::Released));
    timeout(Duration::ZERO, lease.lost()).await.unwrap();

    let guard = locks.lock("r").ttl(TTL).acquire().await.unwrap();
    cluster.nodes[..3].iter().for_each(|node| node.advance_clock(TTL));
    assert!(guard.is_valid(), "nobody has told it yet");
    assert_eq!(guard.release().await, Ok(false), "three of five did not have it any more");

    let guard = locks.lock("r").ttl(TTL).acquire().await.unwrap();
    cluster.nodes[..3].iter().for_each(|node| node.set_down(true));
    let started = Instant::now();
    let error = guard.release().await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    assert!(started.elapsed() <= Duration::from_millis(50), "{:?}", started.elapsed());
    cluster.nodes[..3].iter().for_each(|node| node.set_down(false));
    let back = Instant::now();
    eventually("the release goes on in the background", || cluster.holding() == 0).await;
    assert!(back.elapsed() < TTL / 2, "{:?}", back.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_release_is_not_overtaken_by_a_renewal_that_is_under_way() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.manager();
    let ttl = Duration::from_secs(1);
    for after in 0..100 {
        let guard = locks.lock("r").ttl(ttl).acquire().await.unwrap();
        cluster.nodes.iter().for_each(|node| node.set_delay(Duration::from_millis(40)));
        cluster.nodes[0].advance_clock(ttl);
        // Around the first renewal and what follows it.
        sleep(Duration::from_millis(300 + after)).await;
        drop(guard);
        cluster.nodes.iter().for_each(|node| node.set_delay(Duration::ZERO));
        assert_eq!(cluster.holding(), 0, "released {after} ms after 300");
        sleep(ttl / 2).await;
        assert_eq!(cluster.holding(), 0, "released {after} ms after 300, and put back");
    }
}
