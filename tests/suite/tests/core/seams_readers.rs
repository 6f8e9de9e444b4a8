//! A writer that goes on to read, while its manager shuts down, it is evicted, or a master forgets; and readers that are evicted beside a
//! delegation of theirs. In virtual time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::delegation::AdoptError;
use lock_core::node::EVICTION_GAP;
use lock_core::observer::LockEvent;
use lock_core::{LockError, LockObserver};
use lock_support::{MemoryCluster, eventually};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(1);
const WAIT: Duration = Duration::from_secs(60);
const ROUND_TRIP: Duration = Duration::from_millis(10);

// promise: readers
#[tokio::test(start_paused = true)]
async fn a_downgrade_that_a_shutdown_interrupts_leaves_neither_a_reader_nor_a_key() {
    for after in 0..25 {
        let (cluster, [ours, theirs]) = MemoryCluster::with_two_managers(TTL, WAIT).await;
        let writer = ours.lock("r").acquire().await.unwrap();
        let lease = writer.lease();
        cluster.nodes.iter().for_each(|node| node.set_delay(ROUND_TRIP));
        let reading = tokio::spawn(writer.downgrade());
        sleep(Duration::from_millis(after)).await;
        ours.shutdown(Duration::ZERO).await;
        assert!(
            !lease.is_valid() && reading.await.unwrap().is_ok_and(|reader| !reader.is_valid()) || !lease.is_valid()
        );
        cluster.nodes.iter().for_each(|node| node.set_delay(Duration::ZERO));
        eventually("nothing is left", || cluster.holding() == 0).await;
        assert!(theirs.lock("r").try_acquire().await.is_ok(), "after {after} ms");
    }
}

// promise: readers, forced-release
#[tokio::test(start_paused = true)]
async fn a_writer_that_is_evicted_while_it_downgrades_is_no_reader_beside_its_successor() {
    for after in 0..25 {
        let (cluster, [ours, theirs]) = MemoryCluster::with_two_managers(TTL, WAIT).await;
        let writer = ours.lock("r").acquire().await.unwrap();
        let token = writer.token();
        cluster.nodes.iter().for_each(|node| node.set_delay(ROUND_TRIP));
        let reading = tokio::spawn(writer.downgrade());
        sleep(Duration::from_millis(after)).await;
        // What it became while it was looked at is evicted at the second try.
        let forced = match theirs.force_release("r").await {
            Err(LockError::Contended { .. }) => theirs.force_release("r").await,
            forced => forced,
        };
        let forced = forced.unwrap();
        let next = theirs.lock("r").acquire().await.unwrap();
        assert!(token < forced.token && forced.token < next.token(), "after {after} ms");
        sleep(TTL / 3 + ROUND_TRIP * 3).await;
        assert!(!reading.await.unwrap().is_ok_and(|reader| reader.is_valid()), "after {after} ms");
        sleep(TTL * 2).await;
        assert!(next.is_valid(), "the late release of the reader left it alone");
    }
}

// promise: readers
#[tokio::test(start_paused = true)]
async fn a_downgrade_that_a_master_has_forgotten_lets_in_nobody_but_readers() {
    for away in [0, 2] {
        let (cluster, [ours, theirs]) = MemoryCluster::with_two_managers(TTL, WAIT).await;
        cluster.nodes[5 - away..].iter().for_each(|node| node.set_down(true));
        let writer = ours.lock("r").acquire().await.unwrap();
        cluster.nodes[5 - away..].iter().for_each(|node| node.set_down(false));
        cluster.nodes[0].forget();
        let lease = writer.lease();
        let reading = writer.downgrade().await;
        // A bare majority had the lock, and has it no more: then the lock is released, and not read.
        assert_eq!(reading.is_ok(), away == 0, "{reading:?}");
        for _ in 0..100 {
            if theirs.lock("r").try_acquire().await.is_ok() {
                assert!(!lease.is_valid());
            }
            if let Ok(reader) = theirs.read("r").try_acquire().await {
                assert!(lease.is_valid() || away > 0);
                drop(reader);
            }
            sleep(TTL / 25).await;
        }
        assert_eq!(lease.is_valid(), away == 0);
    }
}

/// When each hold ended.
#[derive(Default)]
struct Ends(Mutex<Vec<Instant>>);

impl LockObserver for Ends {
    fn observe(&self, event: &LockEvent<'_>) {
        if let LockEvent::HoldEnded { .. } = event {
            self.0.lock().unwrap().push(Instant::now());
        }
    }
}

// promise: readers, reported-losses
#[tokio::test(start_paused = true)]
async fn readers_that_wait_for_the_renewal_of_another_are_told_in_time() {
    for _ in 0..8 {
        let (cluster, ends, ttl) = (MemoryCluster::new(5), Arc::new(Ends::default()), Duration::from_secs(24));
        let locks = cluster.builder().ttl(ttl).observer(ends.clone()).connect().await.unwrap();
        let readers = [locks.read("r").acquire().await.unwrap(), locks.read("r").acquire().await.unwrap()];
        let until = Instant::now() + readers[0].remaining();
        cluster.nodes.iter().for_each(|node| node.set_delay(WAIT * 60));
        sleep(ttl * 2).await;
        let ends = ends.0.lock().unwrap().clone();
        assert_eq!(ends.len(), 2);
        assert!(ends.iter().all(|end| *end <= until + Duration::from_millis(50)), "{ends:?}, {until:?}");
    }
}

// promise: readers, delegation, forced-release, turns
#[tokio::test(start_paused = true)]
async fn readers_one_of_which_delegated_make_room_for_the_writer_that_waits_when_they_are_evicted() {
    for (by_ours, waits_beside) in [(false, false), (false, true), (true, false), (true, true)] {
        let (cluster, [ours, theirs]) = MemoryCluster::with_two_managers(TTL, WAIT).await;
        let adopting = cluster.builder().ttl(TTL).max_ttl(TTL).wait(WAIT).connect().await.unwrap();
        let mut readers = Vec::new();
        for _ in 0..20 {
            readers.push(ours.read("r").acquire().await.unwrap());
        }
        let delegation = readers[7].delegate().expires_in(WAIT).create().unwrap();
        let adopted = adopting.adopt(delegation.as_str(), "r").await.unwrap();
        // The delegation is the hold's, and outlives its maker.
        drop(readers.remove(7));
        let waits_at = if waits_beside { &ours } else { &theirs };
        let writer = tokio::spawn(waits_at.lock("r").acquire());
        sleep(TTL * 2).await;
        assert!(adopted.is_valid() && readers.iter().all(|reader| reader.is_valid()) && !writer.is_finished());
        let began = Instant::now();
        let forced = if by_ours { ours.force_release("r").await } else { theirs.force_release("r").await }.unwrap();
        assert_eq!(forced.evicted.len(), 1);
        let writer = writer.await.unwrap().unwrap();
        let waited = began.elapsed();
        assert!(waited <= EVICTION_GAP + ROUND_TRIP * 2, "{by_ours} {waits_beside}: {waited:?}");
        assert!(writer.token() > forced.token && forced.token > adopted.token());
        adopted.lost().await;
        for reader in &readers {
            reader.lost().await;
        }
        assert!(began.elapsed() <= TTL / 3 + ROUND_TRIP, "{by_ours} {waits_beside}: {:?}", began.elapsed());
        let again = adopting.adopt(delegation.as_str(), "r").await;
        assert!(matches!(again, Err(AdoptError::Refused { .. })), "{again:?}");
        // Neither the releases of the readers nor what is left to expire touches the writer, and later readers wait for it alone.
        let later = tokio::spawn(ours.read("r").acquire());
        drop((readers, adopted));
        sleep(TTL * 2).await;
        assert!(writer.is_valid() && !later.is_finished());
        let token = writer.token();
        writer.release().await.unwrap();
        let began = Instant::now();
        let later = later.await.unwrap().unwrap();
        assert!(later.token() > token && began.elapsed() <= ROUND_TRIP, "{:?}", began.elapsed());
        drop(later);
        eventually("nothing is left", || cluster.holding() == 0).await;
    }
}
