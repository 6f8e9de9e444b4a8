//! Connections and renewals move from a runtime that does not run any more to one that does. In real time, by nature.

use std::sync::mpsc;
use std::time::Duration;

use lock_core::{Kind, LockManager};
use lock_support::{Fate, RedisCluster, StalledRuntime, eventually_async, on_one_thread, whatever_becomes_of_it};
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep};

/// Generous: a second is promised for the move, and the servers may be slow.
const SOON: Duration = Duration::from_secs(10);

/// A manager that was used on a runtime that does not run any more.
fn used_elsewhere(fate: Fate, cluster: &RedisCluster) -> (LockManager, StalledRuntime) {
    let locks = cluster.builder().connect_lazy().unwrap();
    let used = async {
        let guard = locks.lock("first").acquire().await.unwrap();
        assert!(guard.release().await.unwrap());
    };
    let ((), stalled) = StalledRuntime::after(fate, used);
    (locks, stalled)
}

/// Acquires and releases until that succeeds.
async fn succeeds_soon(locks: &LockManager, resource: &str) {
    let asked = Instant::now();
    eventually_async("a lock is acquired", async || match locks.lock(resource).wait(SOON).acquire().await {
        Ok(guard) => guard.release().await.is_ok(),
        Err(_) => false,
    })
    .await;
    assert!(asked.elapsed() < SOON, "{:?}", asked.elapsed());
}

// promise: any-runtime
#[test]
fn locks_are_acquired_whatever_the_first_runtime_does() {
    whatever_becomes_of_it(|fate| {
        let live = on_one_thread();
        let cluster = live.block_on(RedisCluster::start(3));
        let (locks, mut stalled) = used_elsewhere(fate, &cluster);
        live.block_on(async {
            succeeds_soon(&locks, "r").await;
            for _ in 0..100 {
                assert!(locks.lock("r").acquire().await.unwrap().release().await.unwrap(), "it has moved");
            }
        });
        // Its stale tasks change nothing.
        let going_on = std::thread::spawn(move || {
            live.block_on(async {
                let began = Instant::now();
                while began.elapsed() < Duration::from_secs(1) {
                    assert!(locks.lock("r").acquire().await.unwrap().release().await.unwrap());
                }
            });
        });
        stalled.run_again(Duration::from_millis(800));
        going_on.join().unwrap();
        // The servers end with their last owner, which needs no runtime.
        drop(cluster);
    });
}

// promise: any-runtime
#[test]
fn a_lease_on_real_servers_goes_on_being_renewed_whatever_the_first_runtime_does() {
    whatever_becomes_of_it(|fate| {
        let live = on_one_thread();
        let cluster = live.block_on(RedisCluster::start(3));
        let locks = cluster.builder().connect_lazy().unwrap();
        let ttl = Duration::from_secs(3);
        let (guard, _stalled) = StalledRuntime::after(fate, locks.lock("r").ttl(ttl).acquire());
        let guard = guard.unwrap();
        live.block_on(async {
            // The manager is used here, too.
            locks.lock("s").acquire().await.ok();
            sleep(ttl + ttl / 2).await;
            assert!(guard.is_valid());
            assert_eq!(guard.release().await, Ok(true));
            cluster.no_lock_is_left().await;
        });
    });
}

// promise: any-runtime, readers
#[test]
fn a_writer_goes_on_to_read_whatever_the_first_runtime_does() {
    whatever_becomes_of_it(|fate| {
        let live = on_one_thread();
        let cluster = live.block_on(RedisCluster::start(3));
        let locks = cluster.builder().connect_lazy().unwrap();
        let (guard, _stalled) = StalledRuntime::after(fate, locks.lock("r").acquire());
        live.block_on(async {
            let reading = guard.unwrap().downgrade().await.unwrap_or_else(|error| panic!("{fate:?}: {error}"));
            assert_eq!(reading.kind(), Kind::Read);
            assert_eq!(reading.release().await, Ok(true));
            cluster.no_lock_is_left().await;
        });
    });
}

// promise: any-runtime
#[test]
fn a_release_that_was_not_written_is_sent_again_whatever_the_first_runtime_does() {
    whatever_becomes_of_it(|fate| {
        let live = on_one_thread();
        let cluster = live.block_on(RedisCluster::start(3));
        let locks = cluster.builder().connect_lazy().unwrap();
        let long = Duration::from_secs(60);
        let (guard, _stalled) = StalledRuntime::after(fate, locks.lock("r").ttl(long).acquire());
        let guard = guard.unwrap();
        live.block_on(async {
            // Given to the old connection.
            _ = guard.release().await;
            succeeds_soon(&locks, "s").await;
            cluster.no_lock_is_left().await;
        });
    });
}

// promise: any-runtime, no-leaks
#[test]
fn a_release_is_sent_again_by_a_runtime_that_had_only_the_guard() {
    whatever_becomes_of_it(|fate| {
        let live = on_one_thread();
        let cluster = live.block_on(RedisCluster::start(3));
        for is_awaited in [true, false] {
            if !is_awaited && fate != Fate::Dropped {
                // Nobody waits, so nobody notices that the runtime does not send what it was given.
                continue;
            }
            let locks = cluster.builder().ttl(6 * SOON).connect_lazy().unwrap();
            let (guard, _stalled) = StalledRuntime::after(fate, locks.lock("r").acquire());
            let guard = guard.unwrap();
            live.block_on(async {
                if is_awaited {
                    // Given to the old connection.
                    _ = guard.release().await;
                } else {
                    drop(guard);
                }
                cluster.no_lock_is_left().await;
            });
        }
    });
}

// promise: any-runtime
#[test]
fn connections_from_a_factory_move_whatever_the_first_runtime_does() {
    whatever_becomes_of_it(|fate| {
        let live = on_one_thread();
        let cluster = live.block_on(RedisCluster::start(3));
        let locks = LockManager::builder().nodes(cluster.nodes_from_factories()).connect_lazy().unwrap();
        let (guard, _stalled) = StalledRuntime::after(fate, locks.lock("r").acquire());
        live.block_on(async {
            _ = guard.unwrap().release().await;
            succeeds_soon(&locks, "r").await;
            cluster.no_lock_is_left().await;
        });
    });
}

// promise: any-runtime, no-leaks
#[test]
fn a_release_is_sent_whichever_runtime_is_shut_down_before_it_is_written() {
    let servers = on_one_thread();
    let cluster = servers.block_on(RedisCluster::start(3));
    for (is_dropped_at_home, is_shut_down) in [(false, false), (true, false), (false, true), (true, true)] {
        let locks = cluster.builder().ttl(6 * SOON).connect_lazy().unwrap();
        let home = on_one_thread();
        let guard = home.block_on(locks.lock("r").acquire()).unwrap();
        let other = on_one_thread();
        if is_dropped_at_home {
            // By the shutdown of the runtime, as what its tasks own.
            home.spawn(async move {
                let _guard = guard;
                std::future::pending::<()>().await;
            });
        } else {
            // The home writes nothing any more.
            other.block_on(async { drop(guard) });
        }
        drop(home);
        other.block_on(async {
            if is_shut_down {
                locks.shutdown(Duration::ZERO).await;
            } else {
                let next = locks.lock("r").wait(SOON).acquire().await;
                next.unwrap_or_else(|error| panic!("{is_dropped_at_home}: {error}")).release().await.unwrap();
            }
            cluster.no_lock_is_left().await;
        });
    }
}

// promise: any-runtime, no-leaks
#[test]
fn a_release_goes_on_without_another_request_when_the_home_is_shut_down() {
    let servers = on_one_thread();
    let cluster = servers.block_on(RedisCluster::start(3));
    let locks = cluster.builder().ttl(6 * SOON).connect_lazy().unwrap();
    let home = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let guard = home.block_on(locks.lock("r").acquire()).unwrap();
    // From now on, the other one watches the home.
    let other = on_one_thread();
    assert_eq!(other.block_on(async { locks.lock("q").acquire().await?.release().await }), Ok(true));
    let ((blocked, is_blocked), (free, is_free)) = (mpsc::channel(), mpsc::channel());
    home.spawn(async move {
        blocked.send(()).unwrap();
        is_free.recv_timeout(SOON).unwrap();
    });
    is_blocked.recv_timeout(SOON).unwrap();
    other.block_on(async { drop(guard) });
    home.shutdown_background();
    free.send(()).unwrap();
    other.block_on(cluster.no_lock_is_left());
}
