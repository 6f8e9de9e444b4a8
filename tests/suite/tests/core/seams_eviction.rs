//! A lock that is taken from its holder while something else happens to its nodes or its manager. In virtual time.

use std::time::Duration;

use lock_core::node::EVICTION_GAP;
use lock_core::{LockError, LockManager, MemoryNode};
use lock_support::{Kind, MemoryCluster, eventually_async};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(1);
const WAIT: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_millis(20);
const NONE: Duration = Duration::ZERO;

async fn managers<const N: usize>(cluster: &MemoryCluster) -> [LockManager; N] {
    let connect = async |_| cluster.builder().ttl(TTL).max_ttl(TTL).wait(WAIT).connect().await.unwrap();
    futures_util::future::join_all((0..N).map(connect)).await.try_into().unwrap()
}

// promise: forced-release, quarantine
#[tokio::test(start_paused = true)]
async fn an_evicted_holder_does_not_come_back_with_a_master_that_forgot_its_eviction() {
    for kind in Kind::ALL {
        let cluster = MemoryCluster::new(5);
        let [ours, theirs, third] = managers(&cluster).await;
        let held = kind.acquire(&ours, "r").await.unwrap();
        // Two are away, and have its key still.
        cluster.nodes[3..].iter().for_each(|node| node.set_down(true));
        theirs.force_release(kind.contested("r")).await.unwrap();
        cluster.nodes[3..].iter().for_each(|node| node.set_down(false));
        cluster.nodes[0].forget();
        let began = Instant::now();
        let mut next = None;
        while began.elapsed() < TTL * 4 {
            let rival = kind.rival(if next.is_some() { &third } else { &theirs }, "r", NONE).await;
            match (&next, rival) {
                (None, Ok(rival)) => next = Some(rival),
                (Some(next), Ok(_)) => panic!("{kind:?}: a third beside {:?}", next.leases()),
                (_, Err(_)) => {}
            }
            assert!(!held.is_valid() || began.elapsed() < TTL, "{kind:?} after {:?}", began.elapsed());
            sleep(SOON).await;
        }
        let next = next.expect("somebody has the lock");
        drop(held);
        sleep(TTL).await;
        assert!(next.is_valid(), "{kind:?}");
    }
}

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn nobody_is_evicted_from_a_set_that_forgot_and_the_next_token_is_above_all() {
    for kind in Kind::ALL {
        let cluster = MemoryCluster::new(5);
        let [ours, theirs] = managers(&cluster).await;
        let held = kind.acquire(&ours, "r").await.unwrap();
        cluster.nodes[..3].iter().for_each(MemoryNode::forget);
        let name = kind.contested("r");
        let error = theirs.force_release(&name).await.unwrap_err();
        assert!(matches!(error, LockError::NoQuorum { .. }), "{kind:?}: {error}");
        let began = Instant::now();
        let forced = loop {
            match theirs.force_release(&name).await {
                Ok(forced) => break forced,
                Err(LockError::NoQuorum { .. }) => sleep(SOON).await,
                Err(error) => panic!("{kind:?}: {error}"),
            }
            assert!(began.elapsed() < TTL * 10, "{kind:?}: the set is formed again");
        };
        assert!(!held.is_valid_in_part(), "{kind:?}: not before the quarantine is over");
        assert!(held.leases().last().unwrap().token() < forced.token, "{kind:?}");
        let next = kind.rival(&theirs, "r", WAIT).await.unwrap();
        assert!(forced.token < next.leases()[0].token(), "{kind:?}");
    }
}

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn a_shutdown_of_an_evicted_holder_releases_nothing_of_its_successor() {
    for kind in Kind::ALL {
        let cluster = MemoryCluster::new(5);
        let [ours, theirs, third] = managers(&cluster).await;
        let held = kind.acquire(&ours, "r").await.unwrap();
        theirs.force_release(kind.contested("r")).await.unwrap();
        let next = kind.rival(&theirs, "r", WAIT).await.unwrap();
        ours.shutdown(NONE).await;
        assert!(!held.is_valid_in_part(), "{kind:?}");
        for _ in 0..20 {
            assert!(kind.rival(&third, "r", NONE).await.is_err(), "{kind:?}");
            sleep(TTL / 10).await;
        }
        assert!(next.is_valid(), "{kind:?}");
    }
}

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn an_operator_that_has_just_started_evicts_by_the_majority_that_answers() {
    let cluster = MemoryCluster::new(5);
    let [ours, theirs] = managers(&cluster).await;
    let held = ours.lock("r").acquire().await.unwrap();
    cluster.nodes[..2].iter().for_each(|node| node.set_down(true));
    cluster.nodes[2..].iter().for_each(|node| node.set_delay(SOON));
    let operator = cluster.builder().ttl(TTL).max_ttl(TTL).connect_lazy().unwrap();
    let forced = operator.force_release("r").await.unwrap();
    assert_eq!((forced.evicted.len(), forced.freed_on.len()), (1, 3), "{forced:?}");
    cluster.nodes[..2].iter().for_each(|node| node.set_down(false));
    let next = theirs.lock("r").acquire().await.unwrap();
    assert!(held.token() < forced.token && forced.token < next.token());
    held.lost().await;
    sleep(TTL * 2).await;
    assert!(next.is_valid());
}

// promise: forced-release, turns
#[tokio::test(start_paused = true)]
async fn a_forced_release_does_not_wait_behind_a_burst_and_serves_the_waiters() {
    let cluster = MemoryCluster::new(5);
    let [ours, theirs] = managers(&cluster).await;
    let operator = cluster.builder().ttl(TTL).max_ttl(TTL).wait(WAIT).max_waiters(4).connect().await.unwrap();
    let stuck = theirs.lock("hot").acquire().await.unwrap();
    cluster.nodes.iter().for_each(|node| node.set_delay(SOON));
    let burst: Vec<_> = (0..3000).map(|number| tokio::spawn(operator.lock(format!("r{number}")).acquire())).collect();
    let waiting = tokio::spawn(ours.lock("hot").acquire());
    let crowd: Vec<_> = (0..10).map(|_| tokio::spawn(operator.lock("hot").acquire())).collect();
    sleep(SOON * 4).await;
    let began = Instant::now();
    let forced = operator.force_release("hot").await.unwrap();
    assert!(began.elapsed() <= SOON * 10 + EVICTION_GAP, "{:?}", began.elapsed());
    assert!(!burst.last().unwrap().is_finished());
    let next = waiting.await.unwrap().unwrap();
    assert!(stuck.token() < forced.token && forced.token < next.token());
    drop(next);
    let (mut served, mut full) = (0, 0);
    for caller in crowd {
        match caller.await.unwrap() {
            Ok(_) => served += 1,
            Err(LockError::QueueFull { .. }) => full += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(served >= 4 && served + full == 10, "{served} and {full}");
    for caller in burst {
        drop(caller.await.unwrap().unwrap());
    }
}

// promise: forced-release, readers
#[tokio::test(start_paused = true)]
async fn more_readers_than_masters_name_are_refused_and_not_taken_for_a_successor() {
    let cluster = MemoryCluster::new(3);
    let [ours, theirs] = managers(&cluster).await;
    let mut readers = Vec::new();
    for _ in 0..1024 {
        readers.push(ours.read("r").renew(false).try_acquire().await.unwrap());
    }
    let error = theirs.force_release("r").await.unwrap_err();
    assert_eq!(error, LockError::TooManyReaders { resource: "r".into(), readers: 1024 });
    readers.pop();
    eventually_async("one reader less can be evicted", async || theirs.force_release("r").await.is_ok()).await;
    assert!(theirs.lock("r").try_acquire().await.is_ok());
}
