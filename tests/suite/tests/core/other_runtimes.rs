//! A manager that is used on several runtimes, of which the first does not run any more. In real time, by nature.

use std::sync::Arc;
use std::time::Duration;

use lock_core::node::{Keyspace, LockNode as _};
use lock_core::{LockError, LossReason, MemoryNode};
use lock_support::{
    MemoryCluster, StalledRuntime, ends_in_time, eventually_async, on_one_thread, whatever_becomes_of_it,
};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

const SHORT: Duration = Duration::from_millis(300);

// promise: reported-losses
#[test]
fn a_loss_is_reported_in_time_whatever_the_first_runtime_does() {
    whatever_becomes_of_it(|fate| {
        let locks = MemoryCluster::new(3).manager();
        let (guard, _stalled) = StalledRuntime::after(fate, locks.lock("r").ttl(SHORT).renew(false).acquire());
        let guard = guard.unwrap();
        on_one_thread().block_on(async {
            let ends = Instant::now() + guard.remaining();
            ends_in_time(guard.lost(), async { ends }).await;
            let LockError::Lost { reason, .. } = guard.check().unwrap_err() else { panic!("{guard:?}") };
            assert_eq!(reason, LossReason::Expired);
        });
    });
}

// promise: reported-losses
#[test]
fn work_ends_with_its_lease_whatever_the_first_runtime_does() {
    whatever_becomes_of_it(|fate| {
        let locks = MemoryCluster::new(3).manager();
        let (_, _stalled) = StalledRuntime::after(fate, locks.health());
        on_one_thread().block_on(async {
            let (began, begins) = oneshot::channel();
            let work = locks.lock("r").ttl(SHORT).renew(false).run(async |lease| {
                began.send(Instant::now() + lease.remaining()).unwrap();
                std::future::pending::<()>().await;
            });
            let ended = async { assert!(matches!(work.await, Err(LockError::Lost { .. }))) };
            ends_in_time(ended, async { begins.await.unwrap() }).await;
        });
    });
}

// promise: any-runtime
#[test]
fn a_lease_goes_on_being_renewed_whatever_the_first_runtime_does() {
    whatever_becomes_of_it(|fate| {
        let cluster = MemoryCluster::new(3);
        let locks = cluster.manager();
        let (_, mut stalled) = StalledRuntime::after(fate, locks.health());
        let ttl = Duration::from_secs(2);
        let live = on_one_thread();
        let guard = live.block_on(async {
            let guard = locks.lock("r").ttl(ttl).acquire().await.unwrap();
            sleep(ttl + ttl / 4).await;
            assert!(guard.is_valid(), "beyond its time to live");
            guard
        });
        // Its stale tasks change nothing.
        let renewing = std::thread::spawn(move || {
            live.block_on(async { sleep(ttl).await });
            live
        });
        stalled.run_again(ttl / 2);
        let live = renewing.join().unwrap();
        assert!(guard.is_valid());
        assert_eq!(live.block_on(guard.release()), Ok(true));
        assert_eq!(cluster.holding(), 0);
    });
}

// promise: any-runtime
#[test]
fn a_lease_is_renewed_by_a_runtime_that_only_awaits_its_loss() {
    whatever_becomes_of_it(|fate| {
        let (locks, ttl) = (MemoryCluster::new(3).manager(), Duration::from_secs(2));
        let (guard, _stalled) = StalledRuntime::after(fate, locks.lock("r").ttl(ttl).acquire());
        let guard = guard.unwrap();
        on_one_thread().block_on(async {
            assert!(timeout(ttl + ttl / 4, guard.lost()).await.is_err(), "{:?}", guard.check());
        });
    });
}

// promise: any-runtime, delegation
#[test]
fn an_adopted_lease_is_carried_on_whatever_becomes_of_the_runtime_that_adopted_it() {
    whatever_becomes_of_it(|fate| {
        let (cluster, ttl) = (MemoryCluster::new(3), Duration::from_secs(2));
        let (holder, adopter) = (cluster.manager(), cluster.manager());
        let live = on_one_thread();
        let guard = live.block_on(holder.lock("r").ttl(ttl).acquire()).unwrap();
        let delegation = guard.delegate().expires_in(ttl * 10).create().unwrap();
        let adopting = async {
            let adopted = adopter.adopt(delegation.as_str(), "r").await.unwrap();
            // Until it is about to look at the lock.
            sleep(SHORT).await;
            adopted
        };
        let (adopted, _stalled) = StalledRuntime::after(fate, adopting);
        live.block_on(async {
            assert!(timeout(ttl + ttl / 4, adopted.lost()).await.is_err(), "{:?}", adopted.check());
            // What the holder loses, the other one loses as before.
            holder.force_release("r").await.unwrap();
            timeout(ttl, adopted.lost()).await.unwrap();
        });
    });
}

// promise: any-runtime
#[test]
fn a_waiter_is_served_whatever_the_first_runtime_does() {
    whatever_becomes_of_it(|fate| {
        let cluster = MemoryCluster::new(3);
        let locks = cluster.manager();
        let (_, _stalled) = StalledRuntime::after(fate, locks.health());
        on_one_thread().block_on(async {
            let other = cluster.manager();
            let holder = other.lock("r").acquire().await.unwrap();
            let releasing = async {
                // Until it waits in the queues.
                sleep(SHORT).await;
                holder.release().await.unwrap();
            };
            let waiting = locks.lock("r").wait(Duration::from_secs(20)).acquire();
            let (guard, ()) = tokio::join!(waiting, releasing);
            drop(guard.unwrap());
        });
    });
}

// promise: any-runtime
#[test]
fn the_health_is_asked_for_on_the_runtime_that_runs() {
    whatever_becomes_of_it(|fate| {
        let locks = MemoryCluster::new(3).manager();
        let (_, _stalled) = StalledRuntime::after(fate, locks.health());
        on_one_thread().block_on(async {
            eventually_async("all nodes vote", async || locks.health().await.nodes.iter().all(|node| node.admitted))
                .await;
        });
    });
}

#[test]
fn a_slow_node_in_memory_answers_whatever_another_runtime_does() {
    whatever_becomes_of_it(|fate| {
        let (node, keyspace) = (MemoryNode::new(), Arc::new(Keyspace::new("")));
        node.set_delay(SHORT);
        // The call asks. Its answer is not awaited on that runtime.
        let (_asked, _stalled) = StalledRuntime::after(fate, async { [node.inspect(&keyspace)] });
        on_one_thread().block_on(async {
            let answer = timeout(Duration::from_secs(20), node.inspect(&keyspace)).await;
            assert!(answer.is_ok_and(|inspection| inspection.is_ok()));
        });
    });
}
