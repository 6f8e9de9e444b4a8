//! Locks that are read and written. In virtual time.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::inspection::LockVerdict;
use lock_core::node::Operation;
use lock_core::{Kind, LockError, LockManager, LossReason, MemoryNode};
use lock_support::{MemoryCluster, Recorder, eventually};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(1);
const WAIT: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_millis(5);
/// How old the nodes' last word is at most when another reader of a process joins.
const WORD_TTL: Duration = Duration::from_millis(20);

/// Two managers, as of two processes, over the same five nodes.
async fn managers() -> (MemoryCluster, LockManager, LockManager) {
    let cluster = MemoryCluster::new(5);
    let manager = async || cluster.builder().ttl(TTL).wait(WAIT).connect().await.unwrap();
    let (one, other) = (manager().await, manager().await);
    (cluster, one, other)
}

fn is_contended<T>(outcome: &Result<T, LockError>) -> bool {
    matches!(outcome, Err(LockError::Contended { .. }))
}

/// Readers of a process that overlap, until the task is aborted.
fn read_without_end(locks: &LockManager) -> JoinHandle<()> {
    let locks = locks.clone();
    tokio::spawn(async move {
        let reader = |offset: u32| {
            let locks = locks.clone();
            async move {
                sleep(SOON * offset).await;
                loop {
                    let reading = locks.read("r").acquire().await.unwrap();
                    sleep(SOON * 4).await;
                    drop(reading);
                }
            }
        };
        join_all((0..4).map(reader)).await;
    })
}

// promise: readers
#[tokio::test(start_paused = true)]
async fn readers_hold_the_lock_together_and_no_writer_beside_them() {
    let (cluster, one, other) = managers().await;
    let readers = [one.read("r").acquire().await.unwrap(), other.read("r").acquire().await.unwrap()];
    assert!(readers.iter().all(|reader| reader.is_valid() && reader.kind() == Kind::Read));
    for locks in [&one, &other] {
        assert!(is_contended(&locks.lock("r").try_acquire().await));
    }
    let [first, last] = readers;
    assert!(first.release().await.unwrap());
    assert!(is_contended(&one.lock("r").try_acquire().await), "the other one still reads");
    assert!(last.release().await.unwrap());
    assert_eq!(cluster.holding(), 0);
    let writer = one.lock("r").try_acquire().await.unwrap();
    assert_eq!(writer.kind(), Kind::Write);
    assert!(is_contended(&other.read("r").try_acquire().await));
    assert!(is_contended(&one.read("r").try_acquire().await));
}

// promise: readers
#[tokio::test(start_paused = true)]
async fn the_readers_of_a_process_share_one_hold_and_the_last_releases_it() {
    let nodes: Vec<_> = (0..5).map(|_| Recorder::new(MemoryNode::new())).collect();
    let locks = LockManager::builder().nodes(nodes.clone()).wait(WAIT).connect().await.unwrap();
    let readers = join_all((0..64).map(|_| locks.read("r").acquire())).await;
    let readers: Vec<_> = readers.into_iter().map(Result::unwrap).collect();
    let releases = || nodes[0].requests().iter().filter(|request| matches!(request, Operation::Release { .. })).count();
    assert_eq!(nodes[0].owners().len(), 1, "{:?}", nodes[0].requests());
    assert!(readers.iter().all(|reader| reader.token() == readers[0].token()));
    let last = readers.into_iter().reduce(|_, last| last).unwrap();
    assert_eq!(releases(), 0);
    assert!(last.release().await.unwrap());
    assert_eq!(releases(), 1);
}

// promise: readers
#[tokio::test(start_paused = true)]
async fn a_reader_joins_after_20_ms_only_if_the_nodes_say_that_no_writer_waits() {
    let nodes: Vec<_> = (0..5).map(|_| Recorder::new(MemoryNode::new())).collect();
    let locks = LockManager::builder().nodes(nodes.clone()).ttl(TTL).wait(WAIT).connect().await.unwrap();
    let _first = locks.read("r").acquire().await.unwrap();
    sleep(WORD_TTL - SOON).await;
    let _second = locks.read("r").acquire().await.unwrap();
    assert_eq!(nodes[0].renewals(), 0, "the word was not too old");
    sleep(SOON * 2).await;
    let joined = join_all((0..8).map(|_| locks.read("r").acquire())).await;
    assert_eq!(nodes[0].renewals(), 1, "asked once, for all of them");
    assert!(joined.iter().all(Result::is_ok));
    let writer = tokio::spawn(locks.lock("r").acquire());
    sleep(WORD_TTL * 2).await;
    assert!(is_contended(&locks.read("r").try_acquire().await));
    writer.abort();
}

// promise: readers
#[tokio::test(start_paused = true)]
async fn a_writer_gets_its_turn_while_processes_read_without_end() {
    let (_cluster, one, other) = managers().await;
    let reading = [read_without_end(&one), read_without_end(&other)];
    sleep(TTL).await;
    for locks in [&one, &other] {
        let began = Instant::now();
        let writer = locks.lock("r").acquire().await.unwrap();
        // The readers that were admitted before the nodes said that it waits, and the last of their holds.
        assert!(began.elapsed() <= WORD_TTL + SOON * 4 + SOON * 4, "{:?}", began.elapsed());
        writer.release().await.unwrap();
        sleep(SOON * 10).await;
    }
    reading.iter().for_each(JoinHandle::abort);
}

// promise: readers
#[tokio::test(start_paused = true)]
async fn a_waiting_writer_bars_later_readers_and_those_that_waited_together_go_in_together() {
    let (cluster, one, other) = managers().await;
    let third = cluster.builder().ttl(TTL).wait(WAIT).connect().await.unwrap();
    let reader = one.read("r").acquire().await.unwrap();
    let writer = tokio::spawn(other.lock("r").acquire());
    sleep(SOON).await;
    let later: Vec<_> = [&third, &other].into_iter().map(|locks| tokio::spawn(locks.read("r").acquire())).collect();
    sleep(SOON).await;
    assert!(later.iter().all(|reader| !reader.is_finished()), "the writer came first");
    drop(reader);
    let writer = writer.await.unwrap().unwrap();
    assert!(later.iter().all(|reader| !reader.is_finished()));
    let began = Instant::now();
    drop(writer);
    let later = join_all(later).await.into_iter().map(|reader| reader.unwrap().unwrap()).collect::<Vec<_>>();
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert!(later.iter().all(|reader| reader.is_valid()));
}

// promise: readers
#[tokio::test(start_paused = true)]
async fn a_writer_that_gives_up_lets_the_readers_behind_it_in() {
    let (_cluster, one, other) = managers().await;
    let _reader = one.read("r").acquire().await.unwrap();
    let writer = tokio::spawn(other.lock("r").wait(SOON * 4).acquire());
    sleep(SOON).await;
    let third = tokio::spawn(one.read("r").renew(false).acquire());
    assert!(is_contended(&writer.await.unwrap()));
    sleep(SOON).await;
    assert!(third.is_finished());
    assert!(third.await.unwrap().is_ok());
}

// promise: readers
#[tokio::test(start_paused = true)]
async fn a_readers_token_is_larger_than_those_of_writers_before_and_smaller_than_those_after() {
    let (_cluster, one, other) = managers().await;
    let mut last = 0;
    for _ in 0..3 {
        let writer = one.lock("r").acquire().await.unwrap();
        assert!(writer.token().get() > last);
        last = writer.token().get();
        drop(writer);
        let readers = [other.read("r").acquire().await.unwrap(), one.read("r").acquire().await.unwrap()];
        assert!(readers.iter().all(|reader| reader.token().get() > last));
        last = readers.iter().map(|reader| reader.token().get()).max().unwrap();
    }
}

// promise: readers
#[tokio::test(start_paused = true)]
async fn a_downgrade_lets_readers_in_and_no_writer() {
    let (cluster, one, other) = managers().await;
    let writer = one.lock("r").acquire().await.unwrap();
    let (token, lease) = (writer.token(), writer.lease());
    let waiting = [tokio::spawn(other.read("r").acquire()), tokio::spawn(one.read("r").acquire())];
    sleep(SOON).await;
    let reader = writer.downgrade().await.unwrap();
    assert_eq!((reader.token(), lease.kind(), lease.is_valid()), (token, Kind::Read, true));
    let readers = join_all(waiting).await.into_iter().map(|reader| reader.unwrap().unwrap()).collect::<Vec<_>>();
    assert!(is_contended(&other.lock("r").try_acquire().await));
    sleep(TTL * 3).await;
    assert!(readers.iter().chain([&reader]).all(|reader| reader.is_valid()), "all are renewed");
    let reader = reader.downgrade().await.unwrap();
    assert!(reader.is_valid() && reader.kind() == Kind::Read, "it reads already");
    drop((readers, reader));
    eventually("nothing is left", || cluster.lock_keys().is_empty()).await;
    assert!(other.lock("r").try_acquire().await.is_ok());
}

// promise: readers
#[tokio::test(start_paused = true)]
async fn a_downgrade_that_no_majority_confirms_releases_the_lock() {
    let (cluster, one, other) = managers().await;
    let writer = one.lock("r").acquire().await.unwrap();
    cluster.nodes[..3].iter().for_each(|node| node.drop_replies(true));
    let error = writer.downgrade().await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    cluster.nodes[..3].iter().for_each(|node| node.drop_replies(false));
    assert!(other.lock("r").acquire().await.is_ok());
}

// promise: readers
#[tokio::test(start_paused = true)]
async fn writing_inside_of_reading_is_refused_and_reading_inside_shares_the_outer_lease() {
    let (_cluster, one, other) = managers().await;
    let began = Instant::now();
    let inner = one.read("r").run(async |lease| {
        let inner = one.read("r").acquire().await.unwrap();
        assert_eq!((inner.token(), inner.kind()), (lease.token(), Kind::Read));
        one.lock("r").acquire().await
    });
    assert!(matches!(inner.await.unwrap(), Err(LockError::Upgrade { .. })));
    assert_eq!(began.elapsed(), Duration::ZERO, "refused at once");
    let inner = one.lock("r").run(async |lease| {
        let inner = one.read("r").acquire().await.unwrap();
        assert_eq!((inner.token(), inner.kind()), (lease.token(), Kind::Write));
    });
    inner.await.unwrap();
    assert!(other.lock("r").try_acquire().await.is_ok());
}

// promise: readers
#[tokio::test(start_paused = true)]
async fn readers_that_share_a_hold_are_renewed_with_one_round_and_end_each_by_their_own_max_hold() {
    let nodes: Vec<_> = (0..5).map(|_| Recorder::new(MemoryNode::new())).collect();
    let locks = LockManager::builder().nodes(nodes.clone()).ttl(TTL).wait(WAIT).connect().await.unwrap();
    let short = locks.read("r").max_hold(TTL * 2).acquire().await.unwrap();
    let readers = join_all((0..20).map(|_| locks.read("r").acquire())).await;
    sleep(TTL * 10).await;
    let error = short.check().unwrap_err();
    assert!(matches!(error, LockError::Lost { reason: LossReason::MaxHold, .. }), "{error}");
    assert!(readers.iter().all(|reader| reader.as_ref().unwrap().is_valid()));
    // A third of the time to live after the last one, with as much again for jitter.
    assert!((20..=40).contains(&nodes[0].renewals()), "{}", nodes[0].renewals());
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_not_renewed_has_a_hold_of_its_own() {
    let (cluster, locks, other) = managers().await;
    let alone = locks.read("r").renew(false).acquire().await.unwrap();
    let beside = locks.read("r").acquire().await.unwrap();
    assert_eq!(other.inspect("r").await.unwrap().verdict(), LockVerdict::Shared { readers: 2 });
    sleep(TTL).await;
    assert!(!alone.is_valid() && beside.is_valid());
    drop((alone, beside));
    eventually("nothing is left", || cluster.holding() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_does_not_prolong_what_is_not_renewed() {
    let (_cluster, locks, _) = managers().await;
    let writer = locks.lock("r").renew(false).acquire().await.unwrap();
    sleep(TTL / 2).await;
    let reader = writer.downgrade().await.unwrap();
    assert!(reader.remaining() <= TTL / 2, "{:?}", reader.remaining());
}

#[tokio::test(start_paused = true)]
async fn a_reader_renews_though_the_one_that_was_renewing_has_ended() {
    let cluster = MemoryCluster::new(5);
    let builder = cluster.builder().ttl(TTL).wait(WAIT).node_timeout(TTL * 5);
    let locks = builder.connect().await.unwrap();
    let readers = [locks.read("r").acquire().await.unwrap(), locks.read("r").acquire().await.unwrap()];
    // The replies to the first renewal are on their way when the reader that began it ends.
    for node in &cluster.nodes {
        node.set_delay(SOON);
    }
    sleep(TTL / 3 + SOON / 2).await;
    let [first, last] = readers;
    drop(first);
    sleep(TTL * 2).await;
    assert!(last.is_valid(), "it did not wait for a renewal that nobody makes");
}

// promise: readers
#[tokio::test(start_paused = true)]
async fn a_reader_is_lost_with_the_majority_that_held_it() {
    let (cluster, one, _other) = managers().await;
    let readers = [one.read("r").acquire().await.unwrap(), one.read("r").acquire().await.unwrap()];
    cluster.nodes[..3].iter().for_each(MemoryNode::forget);
    for reader in &readers {
        reader.lost().await;
        assert!(reader.check().is_err());
    }
}

// promise: readers
#[tokio::test(start_paused = true)]
async fn a_reader_that_died_keeps_a_writer_out_for_its_time_to_live_only() {
    let (_cluster, one, other) = managers().await;
    let reader = one.read("r").renew(false).acquire().await.unwrap();
    let began = Instant::now();
    std::mem::forget(reader);
    let _other = one.read("r").acquire().await.unwrap().release().await.unwrap();
    assert!(other.lock("r").acquire().await.is_ok());
    assert!(began.elapsed() >= TTL && began.elapsed() < TTL * 2, "{:?}", began.elapsed());
}
