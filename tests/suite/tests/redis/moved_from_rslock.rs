//! A small program on rslock, and the same one moved to this lock: the guide shows both. While it is moved, some instances run
//! the old one, and some the new one.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lock_core::{LockError, LockManager};
use lock_support::{RedisCluster, RedisServer};
use tokio::task::yield_now;

const NAME: &str = "invoice-number";
const TTL: Duration = Duration::from_secs(10);
/// How many numbers each of the programs gives out.
const EACH: u64 = 50;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Reads, waits, and writes: two at once would give out a number twice.
async fn next_number(last: &AtomicU64, broken: bool) -> Outcome<u64> {
    let number = last.load(Ordering::SeqCst) + 1;
    yield_now().await;
    if broken {
        return Err("the database failed".into());
    }
    last.store(number, Ordering::SeqCst);
    Ok(number)
}

async fn before(locks: &rslock::LockManager, last: &AtomicU64, broken: bool) -> Outcome<u64> {
    let guard = locks.acquire(NAME, TTL).await?;
    let number = next_number(last, broken).await?;
    guard.release().await;
    Ok(number)
}

async fn after(locks: &LockManager, last: &AtomicU64, broken: bool) -> Outcome<u64> {
    let guard = locks.lock(NAME).ttl(TTL).wait(Duration::from_secs(60)).acquire().await?;
    let number = next_number(last, broken).await?;
    guard.release().await?;
    Ok(number)
}

async fn masters() -> (RedisCluster, Vec<String>, LockManager) {
    let cluster = RedisCluster::start(3).await;
    let urls: Vec<String> = cluster.servers.iter().map(RedisServer::url).collect();
    let locks = LockManager::builder().redis(&urls).prefix("").connect().await.unwrap();
    (cluster, urls, locks)
}

// promise: exclusion
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_is_moved_one_instance_at_a_time() {
    let (_cluster, urls, new) = masters().await;
    let mut old = rslock::LockManager::new(urls);
    old.set_retry(u32::MAX, Duration::from_millis(20));
    let last = Arc::new(AtomicU64::new(0));
    let old = tokio::spawn({
        let last = Arc::clone(&last);
        async move {
            for _ in 0..EACH {
                before(&old, &last, false).await.unwrap();
            }
        }
    });
    for _ in 0..EACH {
        after(&new, &last, false).await.unwrap();
    }
    old.await.unwrap();
    assert_eq!(last.load(Ordering::SeqCst), 2 * EACH, "each number is given out once");
}

#[tokio::test]
async fn an_error_before_the_release_holds_up_nobody_any_more() {
    let (_cluster, urls, new) = masters().await;
    let last = AtomicU64::new(0);
    after(&new, &last, true).await.unwrap_err();
    assert_eq!(after(&new, &last, false).await.unwrap(), 1, "the guard was dropped, and has released the lock");

    before(&rslock::LockManager::new(urls), &last, true).await.unwrap_err();
    let held = new.lock(NAME).try_acquire().await;
    assert!(matches!(held, Err(LockError::Contended { .. })), "there the lock stays for its time to live: {held:?}");
}
