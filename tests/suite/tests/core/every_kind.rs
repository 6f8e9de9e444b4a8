//! What is promised for a lock, however it is held: written, read, a permit, a set, handed over, shared by readers, delegated, kept by
//! a session, not renewed. In virtual time, but for runtimes that stall.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::node::EVICTION_GAP;
use lock_core::{LockError, LockManager, LockManagerBuilder, LossReason, MemoryNode};
use lock_support::{
    Held, Kind, MemoryCluster, eventually, eventually_async, try_every_kind_on_two_runtimes, whatever_becomes_of_it,
};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(1);
const WAIT: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_millis(20);
const NONE: Duration = Duration::ZERO;

fn builder(cluster: &MemoryCluster) -> LockManagerBuilder {
    cluster.builder().ttl(TTL).max_ttl(TTL).wait(WAIT)
}

async fn two_managers(cluster: &MemoryCluster) -> [LockManager; 2] {
    [builder(cluster).connect().await.unwrap(), builder(cluster).connect().await.unwrap()]
}

/// Lets others try to get what is held, again and again, until one does or a time is over. None of them may, while it is valid.
async fn excludes(kind: Kind, held: &Held, others: &[&LockManager], time: Duration) -> Option<Held> {
    let began = Instant::now();
    while began.elapsed() < time {
        for other in others {
            if let Ok(rival) = kind.rival(other, "r", NONE).await {
                assert!(!held.is_valid_in_part(), "{kind:?} after {:?}", began.elapsed());
                assert!(rival.leases()[0].token() > held.leases().last().unwrap().token(), "{kind:?}");
                return Some(rival);
            }
        }
        sleep(SOON).await;
    }
    None
}

// promise: membership, exclusion
#[tokio::test(start_paused = true)]
async fn locks_of_every_kind_outlive_a_change_of_the_members_and_exclude_all_along() {
    // Those that have the lock are all; or a bare majority, of which one forgets it before the others are told: then it is lost.
    for (kind, away) in Kind::ALL.into_iter().flat_map(|kind| [(kind, 0), (kind, 2)]) {
        let cluster = MemoryCluster::new(5);
        let [ours, theirs] = two_managers(&cluster).await;
        let generation = ours.members().await.unwrap().generation;
        cluster.nodes[5 - away..].iter().for_each(|node| node.set_down(true));
        let held = kind.acquire(&ours, "r").await.unwrap();
        cluster.nodes[5 - away..].iter().for_each(|node| node.set_down(false));
        cluster.nodes[0].forget();
        let early = excludes(kind, &held, &[&theirs], TTL * 3).await;
        // One more: a manager that allows a longer time to live.
        let longer = builder(&cluster).max_ttl(TTL * 2).connect().await.unwrap();
        let late = excludes(kind, &held, &[&theirs, &longer], TTL * 3).await;
        assert!(ours.members().await.unwrap().generation >= generation + 2, "{kind:?}");
        let survives = kind.is_renewed() && away == 0;
        assert_eq!(held.is_valid(), survives, "{kind:?}: {:?}", held.leases());
        assert_eq!(early.is_none(), survives, "{kind:?}");
        drop((held, early, late));
        assert!(kind.rival(&theirs, "r", WAIT).await.unwrap().is_valid(), "{kind:?}");
    }
}

// promise: exclusion, quarantine
#[tokio::test(start_paused = true)]
async fn locks_of_every_kind_end_before_a_set_that_forgot_and_is_formed_again_grants_them() {
    for kind in Kind::ALL {
        let cluster = MemoryCluster::new(5);
        let [ours, theirs] = two_managers(&cluster).await;
        let set = ours.members().await.unwrap().generation;
        let held = kind.acquire(&ours, "r").await.unwrap();
        let began = Instant::now();
        cluster.nodes[..3].iter().for_each(MemoryNode::forget);
        let fresh = builder(&cluster).connect_lazy().unwrap();
        let next = excludes(kind, &held, &[&theirs, &fresh, &ours], TTL * 10).await;
        assert!(next.is_some_and(|next| next.is_valid()), "{kind:?}: nobody has the lock after the quarantine");
        assert!(began.elapsed() >= TTL, "{kind:?}: {:?}", began.elapsed());
        assert!(ours.members().await.unwrap().generation > set, "{kind:?}: it was formed again");
        let error = held.leases()[0].check().unwrap_err();
        assert!(matches!(error, LockError::Lost { .. }), "{error}");
    }
}

// promise: no-leaks
#[tokio::test(start_paused = true)]
async fn a_shutdown_revokes_locks_of_every_kind_and_leaves_them_to_others() {
    for kind in Kind::ALL {
        let cluster = MemoryCluster::new(5);
        let [ours, theirs] = two_managers(&cluster).await;
        let held = kind.acquire(&ours, "r").await.unwrap();
        let waiting = {
            let ours = ours.clone();
            tokio::spawn(async move { kind.rival(&ours, "r", WAIT).await.err() })
        };
        sleep(SOON).await;
        let report = ours.shutdown(SOON).await;
        assert!(matches!(waiting.await.unwrap(), Some(LockError::ShuttingDown { .. })), "{kind:?}");
        assert_eq!((report.released, report.revoked), (0, held.leases().len()), "{kind:?}");
        for lease in held.leases() {
            let error = lease.check().unwrap_err();
            assert!(matches!(error, LockError::Lost { reason: LossReason::ShutDown, .. }), "{kind:?}: {error}");
        }
        assert!(ours.held().is_empty());
        // What is delegated is left to expire, because the other service may be at work.
        let is_left = kind == Kind::Delegated;
        assert_eq!(cluster.lock_keys().is_empty(), !is_left, "{kind:?}");
        let next = kind.rival(&theirs, "r", if is_left { WAIT } else { NONE }).await.unwrap();
        drop(held);
        sleep(TTL * 2).await;
        assert!(next.is_valid(), "{kind:?}: what is dropped after the shutdown releases nothing of others");
    }
}

// promise: exclusion
#[tokio::test(start_paused = true)]
async fn locks_of_every_kind_exclude_each_other_before_all_nodes_are_connected_to() {
    for kind in Kind::ALL {
        for formed in [false, true] {
            let cluster = MemoryCluster::new(5);
            if formed {
                // Otherwise, the first acquisition has to wait until the set is formed.
                builder(&cluster).connect().await.unwrap().shutdown(NONE).await;
                cluster.nodes[4].set_down(true);
            }
            for (node, delay) in cluster.nodes.iter().zip([0, 3, 7, 11, 40]) {
                node.set_delay(Duration::from_millis(delay));
            }
            let lazy = || builder(&cluster).wait(TTL * 5).connect_lazy().unwrap();
            let (ours, theirs) = (lazy(), lazy());
            let (held, rival) = tokio::join!(kind.acquire(&ours, "r"), kind.rival(&theirs, "r", NONE));
            let rival_won = rival.is_ok();
            let held = match rival {
                Ok(rival) => {
                    assert!(!held.is_ok_and(|held| held.is_valid()), "{kind:?}");
                    rival
                }
                Err(_) => held.unwrap(),
            };
            cluster.nodes[4].set_down(false);
            let other = if rival_won { &ours } else { &theirs };
            let next = excludes(kind, &held, &[other], TTL * 2).await;
            assert!(next.is_none() || !kind.is_renewed(), "{kind:?}");
        }
    }
}

// promise: overload
#[tokio::test(start_paused = true)]
async fn every_kind_of_lock_is_acquired_and_renewed_in_a_burst_and_leaves_no_position() {
    for kind in Kind::ALL {
        let cluster = MemoryCluster::new(5);
        let [theirs, _] = two_managers(&cluster).await;
        let ours = builder(&cluster).max_waiters(8).connect().await.unwrap();
        // The holder is another process, so that those who wait have positions at the nodes, too.
        let hot = theirs.lock("hot").acquire().await.unwrap();
        cluster.nodes.iter().for_each(|node| node.set_delay(Duration::from_millis(10)));
        let callers: Vec<_> = (0..2000).map(|number| tokio::spawn(ours.lock(format!("r{number}")).acquire())).collect();
        let crowd: Vec<_> = (0..20).map(|_| tokio::spawn(ours.lock("hot").acquire())).collect();
        let set = tokio::spawn(ours.lock_all(["cold", "hot"]).acquire());
        sleep(SOON).await;
        let held = kind.acquire(&ours, "r").await.unwrap();
        assert!(excludes(kind, &held, &[&theirs], TTL * 2).await.is_none() || !kind.is_renewed(), "{kind:?}");
        assert!(held.is_valid() || !kind.is_renewed(), "{kind:?}");
        for caller in callers {
            drop(caller.await.unwrap().unwrap());
        }
        drop((held, hot));
        let crowd = join_all(crowd).await.into_iter().map(Result::unwrap);
        let full = crowd.filter(|caller| matches!(caller, Err(LockError::QueueFull { .. }))).count();
        assert!((11..=12).contains(&full), "{full}: eight wait, and the one whose turn it is may be on its way");
        assert!(matches!(set.await.unwrap(), Err(LockError::QueueFull { .. })), "a set waits in the same queue");
        cluster.nodes.iter().for_each(|node| node.set_delay(NONE));
        eventually("nothing is left", || cluster.lock_keys().is_empty()).await;
        for name in ["hot", "cold", &kind.contested("r")] {
            eventually_async("no position is left", async || {
                theirs.inspect(name).await.unwrap().nodes.iter().all(|node| node.waiters == 0)
            })
            .await;
        }
    }
}

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn holders_of_every_kind_that_are_evicted_end_in_time_and_leave_the_successor_alone() {
    for kind in Kind::ALL {
        for by_the_same_manager in [false, true] {
            let cluster = MemoryCluster::new(5);
            let [ours, theirs] = two_managers(&cluster).await;
            let held = kind.acquire(&ours, "r").await.unwrap();
            let operator = if by_the_same_manager { &ours } else { &theirs };
            let forced = operator.force_release(kind.contested("r")).await.unwrap();
            let evicted = Instant::now();
            assert!(held.leases().last().unwrap().token() < forced.token);
            if kind == Kind::Set {
                // Nobody evicted the other lock, and the operator cannot know of the set.
                assert!(theirs.lock("r-a").try_acquire().await.is_err());
            }
            held.lost().await;
            let within = match kind {
                // It is told at once; the forced release returns when the lock can be had.
                _ if by_the_same_manager => EVICTION_GAP,
                Kind::NotRenewed => TTL,
                _ => TTL / 3 + SOON,
            };
            assert!(evicted.elapsed() <= within, "{kind:?}: {:?}", evicted.elapsed());
            let next = kind.rival(&theirs, "r", WAIT).await.unwrap();
            assert!(forced.token < next.leases()[0].token(), "{kind:?}");
            drop(held);
            sleep(TTL * 2).await;
            assert!(next.is_valid(), "{kind:?}: the late release left it alone");
            drop(next);
            eventually("nothing is left", || cluster.lock_keys().is_empty()).await;
        }
    }
}

// promise: any-runtime
#[test]
fn locks_of_every_kind_that_were_taken_on_a_runtime_that_stalls_are_renewed_on_another_one() {
    whatever_becomes_of_it(|fate| {
        let cluster = MemoryCluster::new(3);
        try_every_kind_on_two_runtimes(fate, || cluster.builder(), &Kind::ALL, true);
    });
}
