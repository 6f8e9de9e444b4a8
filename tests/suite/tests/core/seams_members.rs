//! Who the masters are, while managers start, shut down, move to another runtime, or have more callers than the line takes.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{LockManager, LockManagerBuilder};
use lock_support::{MemoryCluster, StalledRuntime, eventually_async, on_one_thread, whatever_becomes_of_it};
use tokio::time::{Instant, sleep, timeout};

const TTL: Duration = Duration::from_secs(1);
const WAIT: Duration = Duration::from_secs(20);
const ROUND_TRIP: Duration = Duration::from_millis(5);

fn builder(cluster: &MemoryCluster) -> LockManagerBuilder {
    cluster.builder().ttl(TTL).max_ttl(TTL).wait(WAIT)
}

async fn generation(locks: &LockManager) -> u64 {
    locks.members().await.unwrap().generation
}

// promise: membership
#[tokio::test(start_paused = true)]
async fn a_max_ttl_that_nobody_waits_for_any_more_is_not_lowered() {
    let cluster = MemoryCluster::new(3);
    let (longer, locks) = (cluster.builder().connect().await.unwrap(), builder(&cluster).connect().await.unwrap());
    let before = longer.members().await.unwrap();
    cluster.nodes[..2].iter().for_each(|node| node.set_down(true));
    assert!(timeout(WAIT, locks.lower_max_ttl(TTL)).await.is_err());
    cluster.nodes.iter().for_each(|node| node.set_down(false));
    sleep(before.max_ttl * 3).await;
    let after = longer.members().await.unwrap();
    assert_eq!((after.max_ttl, after.generation), (before.max_ttl, before.generation));
}

// promise: membership
#[tokio::test(start_paused = true)]
async fn two_calls_that_lower_max_ttl_both_return() {
    let cluster = MemoryCluster::new(3);
    drop(cluster.builder().connect().await.unwrap());
    let locks = builder(&cluster).connect().await.unwrap();
    let (one, other) = tokio::join!(locks.lower_max_ttl(TTL), locks.lower_max_ttl(TTL * 2));
    assert_eq!((one, other), (Ok(()), Ok(())));
    assert_eq!(locks.members().await.unwrap().max_ttl, TTL);
}

// promise: membership
#[tokio::test(start_paused = true)]
async fn a_max_ttl_that_is_no_whole_number_of_milliseconds_is_one_for_all() {
    let max_ttl = TTL + Duration::from_nanos(500_001);
    let cluster = MemoryCluster::new(3);
    drop(cluster.builder().connect().await.unwrap());
    let locks = cluster.builder().ttl(TTL).max_ttl(max_ttl).connect().await.unwrap();
    cluster.nodes.iter().for_each(|node| node.set_delay(ROUND_TRIP));
    timeout(WAIT * 10, locks.lower_max_ttl(max_ttl)).await.expect("it is lowered once").unwrap();
    let members = locks.members().await.unwrap();
    assert_eq!(members.max_ttl, TTL + Duration::from_millis(1));
    sleep(WAIT).await;
    assert_eq!(generation(&locks).await, members.generation, "nobody changes it again");
}

// promise: membership, any-runtime
#[test]
fn a_change_of_the_members_is_followed_whatever_the_first_runtime_does() {
    whatever_becomes_of_it(|fate| {
        let cluster = MemoryCluster::new(3);
        // Long enough for renewals to move in time.
        let ttl = TTL * 3;
        let with = |max_ttl| cluster.builder().ttl(ttl).max_ttl(max_ttl).wait(WAIT);
        let locks = with(ttl).connect_lazy().unwrap();
        let (held, _stalled) = StalledRuntime::after(fate, async { locks.lock("r").acquire().await.unwrap() });
        on_one_thread().block_on(async {
            let before = generation(&locks).await;
            let other = with(ttl * 2).connect().await.unwrap();
            let began = Instant::now();
            while began.elapsed() < ttl * 3 / 2 {
                assert!(other.lock("r").try_acquire().await.is_err() && held.is_valid(), "{fate:?}");
                sleep(ROUND_TRIP).await;
            }
            let after = generation(&locks).await;
            assert!(after > before && after == generation(&other).await, "it renews by the new roster");
            let token = held.token();
            assert!(held.release().await.unwrap());
            assert!(token < other.lock("r").acquire().await.unwrap().token());
        });
    });
}

// promise: membership, any-runtime
#[test]
fn a_set_is_formed_whatever_becomes_of_the_runtime_where_that_began() {
    whatever_becomes_of_it(|fate| {
        // The first steps: the nodes are inspected, a roster is chosen, and installed.
        for steps in [1, 2, 3, 5, 8] {
            let cluster = MemoryCluster::new(3);
            let locks = builder(&cluster).connect_lazy().unwrap();
            let begun = async {
                let mut acquiring = std::pin::pin!(locks.lock("r").acquire());
                for _ in 0..steps {
                    if futures_util::poll!(&mut acquiring).is_ready() {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            };
            let ((), _stalled) = StalledRuntime::after(fate, begun);
            on_one_thread().block_on(async {
                eventually_async("it acquires", async || locks.lock("r").acquire().await.is_ok()).await;
                assert_eq!(generation(&locks).await, 1);
                let other = builder(&cluster).connect().await.unwrap();
                assert_eq!(generation(&other).await, 1);
            });
        }
    });
}

// promise: overload, any-runtime
#[test]
fn callers_in_line_are_served_whatever_the_first_runtime_does() {
    whatever_becomes_of_it(|fate| {
        let cluster = MemoryCluster::new(3);
        let locks = builder(&cluster).connect_lazy().unwrap();
        let (_, _stalled) = StalledRuntime::after(fate, locks.health());
        cluster.nodes.iter().for_each(|node| node.set_delay(ROUND_TRIP));
        on_one_thread().block_on(async {
            let callers = join_all((0..500).map(|number| locks.lock(format!("r{number}")).acquire())).await;
            assert!(callers.iter().all(Result::is_ok));
            drop(callers);
            eventually_async("nothing is left", async || cluster.holding() == 0).await;
        });
    });
}

// promise: membership
#[tokio::test(start_paused = true)]
async fn a_shutdown_while_a_set_is_formed_or_changed_leaves_that_to_others() {
    for changed in [false, true] {
        for after in 0..60 {
            let cluster = MemoryCluster::new(3);
            let before = if changed { Some(builder(&cluster).connect().await.unwrap()) } else { None };
            cluster.nodes.iter().for_each(|node| node.set_delay(ROUND_TRIP));
            let leaving = builder(&cluster).max_ttl(TTL * 2).connect_lazy().unwrap();
            let first = tokio::spawn(leaving.lock("r").acquire());
            sleep(Duration::from_millis(after)).await;
            leaving.shutdown(Duration::ZERO).await;
            assert!(first.await.unwrap().map_or(true, |guard| !guard.is_valid()));
            let began = Instant::now();
            if let Some(before) = &before {
                drop(before.lock("r").acquire().await.unwrap());
            }
            let other = builder(&cluster).connect().await.unwrap();
            drop(other.lock("r").acquire().await.unwrap());
            assert!(began.elapsed() < TTL / 2, "after {after} ms, changed {changed}: {:?}", began.elapsed());
        }
    }
}

// promise: overload, membership
#[tokio::test(start_paused = true)]
async fn a_burst_is_served_by_a_set_that_is_being_formed_and_one_that_changes() {
    for _ in 0..20 {
        let cluster = MemoryCluster::new(5);
        cluster.nodes.iter().for_each(|node| node.set_delay(ROUND_TRIP));
        let managers: Vec<_> =
            (1..4).map(|times| builder(&cluster).max_ttl(TTL * times).connect_lazy().unwrap()).collect();
        // All of them begin at once: one forms the set, and those with a longer `max_ttl` change it.
        let callers = managers.iter().enumerate().flat_map(|(manager, locks)| {
            (0..700).map(move |number| locks.lock(format!("r{}", number + manager * 350)).acquire())
        });
        let callers: Vec<_> = callers.map(|caller| tokio::spawn(async { caller.await.map(drop) })).collect();
        for caller in callers {
            assert_eq!(caller.await.unwrap(), Ok(()));
        }
        eventually_async("nothing is left", async || cluster.holding() == 0).await;
        // Not if the one with the longest has formed it.
        if generation(&managers[0]).await > 1 {
            return;
        }
    }
    panic!("the set never changed");
}
