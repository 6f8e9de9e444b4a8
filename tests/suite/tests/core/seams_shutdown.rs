//! A manager that is shut down more than once, while its locks are acquired, held, released or taken from it.

use std::pin::pin;
use std::time::Duration;

use futures_util::poll;
use lock_core::node::EVICTION_GAP;
use lock_core::{LockError, LockManager, ShutdownReport};
use lock_support::{Kind, MemoryCluster, StalledRuntime, eventually, on_one_thread, whatever_becomes_of_it};
use tokio::time::{Instant, sleep, timeout};

const TTL: Duration = Duration::from_secs(1);
const WAIT: Duration = Duration::from_secs(60);
const LONG: Duration = Duration::from_secs(30);
const NONE: Duration = Duration::ZERO;
const SOON: Duration = Duration::from_millis(20);

/// How often, and how, a manager is shut down.
#[derive(Clone, Copy, Debug)]
enum Way {
    Twice,
    Together,
    /// One that waits for the holders, and one that does not.
    Overtaken,
    /// One that is dropped, and another one.
    Again,
}

impl Way {
    const ALL: [Self; 4] = [Self::Twice, Self::Together, Self::Overtaken, Self::Again];

    async fn shut_down(self, locks: &LockManager) -> [ShutdownReport; 2] {
        match self {
            Self::Twice => [locks.shutdown(NONE).await, locks.shutdown(NONE).await],
            Self::Together => tokio::join!(locks.shutdown(SOON), locks.shutdown(SOON)).into(),
            Self::Overtaken => tokio::join!(locks.shutdown(LONG), locks.shutdown(SOON)).into(),
            Self::Again => {
                _ = timeout(SOON, locks.shutdown(LONG)).await;
                [locks.shutdown(NONE).await, locks.shutdown(LONG).await]
            }
        }
    }
}

/// What is left of a manager after its shutdowns: nothing.
async fn nothing_is_left(kind: Kind, way: Way, cluster: &MemoryCluster, ours: &LockManager, theirs: &LockManager) {
    assert!(ours.held().is_empty() && ours.waiting().is_empty(), "{kind:?} {way:?}");
    let began = Instant::now();
    drop(kind.rival(theirs, "r", WAIT).await.unwrap());
    // What was delegated is left to expire.
    let at_most = if kind == Kind::Delegated { TTL } else { SOON };
    assert!(began.elapsed() <= at_most, "{kind:?} {way:?}: {:?}", began.elapsed());
    eventually("nothing is left", || cluster.holding() == 0).await;
    for name in ["r", "r{0}", "r-a", "r-b"] {
        let report = theirs.inspect(name).await.unwrap();
        assert!(report.nodes.iter().all(|node| node.waiters == 0), "{kind:?} {way:?}: {report:?}");
    }
    assert!(matches!(ours.lock("r").try_acquire().await, Err(LockError::ShuttingDown { .. })));
}

// promise: no-leaks
#[tokio::test(start_paused = true)]
async fn several_shutdowns_revoke_each_lease_once() {
    for (kind, way) in Kind::ALL.into_iter().flat_map(|kind| Way::ALL.map(|way| (kind, way))) {
        let (cluster, [ours, theirs]) = MemoryCluster::with_two_managers(TTL, WAIT).await;
        let held = kind.acquire(&ours, "r").await.unwrap();
        let began = Instant::now();
        let reports = way.shut_down(&ours).await;
        assert!(began.elapsed() <= TTL * 3, "{kind:?} {way:?}: {:?}", began.elapsed());
        assert!(!held.is_valid_in_part(), "{kind:?} {way:?}");
        let revoked: usize = reports.iter().map(|report| report.revoked).sum();
        assert_eq!(revoked, held.leases().len(), "{kind:?} {way:?}: {reports:?}");
        nothing_is_left(kind, way, &cluster, &ours, &theirs).await;
        drop(held);
    }
}

// promise: no-leaks
#[tokio::test(start_paused = true)]
async fn several_shutdowns_leave_nothing_of_a_waiting_caller() {
    for (kind, way) in Kind::ALL.into_iter().flat_map(|kind| Way::ALL.map(|way| (kind, way))) {
        for far in [NONE, SOON] {
            let (cluster, [ours, theirs]) = MemoryCluster::with_two_managers(TTL, WAIT).await;
            let beside = kind.acquire(&theirs, "r").await.unwrap();
            cluster.nodes.iter().for_each(|node| node.set_delay(far));
            let waiting = tokio::spawn({
                let ours = ours.clone();
                async move { kind.rival(&ours, "r", WAIT).await.err() }
            });
            sleep(SOON * 4).await;
            let began = Instant::now();
            // It gets the lock in the middle of the shutdown, perhaps.
            let (_, ()) = tokio::join!(way.shut_down(&ours), async { drop(beside) });
            assert!(began.elapsed() <= TTL * 3, "{kind:?} {way:?}: {:?}", began.elapsed());
            let error = waiting.await.unwrap();
            assert!(matches!(error, Some(LockError::ShuttingDown { .. }) | None), "{kind:?} {way:?}: {error:?}");
            cluster.nodes.iter().for_each(|node| node.set_delay(NONE));
            sleep(SOON * 2).await;
            nothing_is_left(kind, way, &cluster, &ours, &theirs).await;
        }
    }
}

// promise: no-leaks, forced-release
#[tokio::test(start_paused = true)]
async fn several_shutdowns_beside_a_forced_release_leave_the_successor_alone() {
    for (kind, way) in Kind::ALL.into_iter().flat_map(|kind| Way::ALL.map(|way| (kind, way))) {
        for by_ours in [false, true] {
            // From the first look at the holder on.
            for after in [1, 60, 124, 130, 200] {
                let (cluster, [ours, theirs]) = MemoryCluster::with_two_managers(TTL, WAIT).await;
                let held = kind.acquire(&ours, "r").await.unwrap();
                let by = if by_ours { ours.clone() } else { theirs.clone() };
                let name = kind.contested("r");
                let forcing = tokio::spawn(async move { by.force_release(&name).await });
                sleep(Duration::from_millis(after)).await;
                let successor = kind.rival(&theirs, "r", WAIT);
                let (_, successor) = tokio::join!(way.shut_down(&ours), successor);
                let successor = successor.unwrap();
                assert!(!held.is_valid_in_part(), "{kind:?} {way:?} {after}");
                let forced = forcing.await.unwrap();
                assert!(by_ours || forced.is_ok(), "{kind:?} {way:?} {after}: {forced:?}");
                drop(held);
                sleep(TTL * 3).await;
                assert!(successor.is_valid(), "{kind:?} {way:?} {after}");
                drop(successor);
                nothing_is_left(kind, way, &cluster, &ours, &theirs).await;
            }
        }
    }
}

// promise: no-leaks
#[tokio::test(start_paused = true)]
async fn a_release_in_progress_is_awaited_by_each_of_several_shutdowns() {
    for way in Way::ALL {
        let (cluster, [ours, theirs]) = MemoryCluster::with_two_managers(TTL, WAIT).await;
        let (set, permit) =
            (ours.lock_all(["r-a"]).read(["r-b"]).acquire().await, ours.permits("r", 2).acquire().await);
        cluster.nodes.iter().for_each(|node| node.set_delay(SOON * 2));
        let (set, permit) = (set.unwrap(), permit.unwrap());
        let mut releasing = pin!(async { (set.release().await, permit.release().await) });
        assert!(poll!(&mut releasing).is_pending());
        let reports = match way {
            Way::Again => [ours.shutdown(NONE).await, ours.shutdown(NONE).await],
            way => {
                let (reports, released) = tokio::join!(way.shut_down(&ours), &mut releasing);
                assert!(matches!(released, (Ok(true), Ok(true | false))), "{way:?}: {released:?}");
                reports
            }
        };
        assert!(reports.iter().map(|report| report.revoked).sum::<usize>() <= 1, "{way:?}: {reports:?}");
        cluster.nodes.iter().for_each(|node| node.set_delay(NONE));
        assert_eq!(cluster.holding(), 0, "{way:?}");
        nothing_is_left(Kind::Permit, way, &cluster, &ours, &theirs).await;
    }
}

// promise: no-leaks, any-runtime
#[test]
fn shutdowns_from_two_runtimes_end_whatever_becomes_of_the_first() {
    whatever_becomes_of_it(|fate| {
        for kind in Kind::ALL {
            let (cluster, live) = (MemoryCluster::new(5), on_one_thread());
            let builder = || cluster.builder().ttl(TTL).max_ttl(TTL).wait(WAIT);
            let (ours, theirs) = (builder().connect_lazy().unwrap(), builder().connect_lazy().unwrap());
            let mut shutting = Box::pin(ours.shutdown(LONG));
            let (held, _stalled) = StalledRuntime::after(fate, async {
                let held = kind.acquire(&ours, "r").await.unwrap();
                assert!(poll!(&mut shutting).is_pending());
                held
            });
            live.block_on(async {
                let began = Instant::now();
                let report = ours.shutdown(NONE).await;
                assert_eq!(report.revoked, held.leases().len(), "{kind:?} {fate:?}");
                shutting.await;
                assert!(began.elapsed() <= TTL * 5, "{kind:?} {fate:?}: {:?}", began.elapsed());
                assert!(!held.is_valid_in_part());
                drop(kind.rival(&theirs, "r", EVICTION_GAP + TTL * 2).await.unwrap());
                drop(held);
            });
        }
    });
}
