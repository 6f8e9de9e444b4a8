//! Several locks at once, and what else is going on in their scope or at one of them. In virtual time.

use std::time::Duration;

use lock_core::delegation::AdoptError;
use lock_core::{Lease, Leases, LockError, LossReason};
use lock_support::{MemoryCluster, eventually};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(1);
const WAIT: Duration = Duration::from_secs(60);
const LONG: Duration = Duration::from_secs(3600);
const SOON: Duration = Duration::from_millis(20);

// promise: several-locks, delegation
#[tokio::test(start_paused = true)]
async fn what_is_delegated_of_a_set_ends_when_another_of_its_locks_is_lost() {
    let (cluster, [ours, theirs]) = MemoryCluster::with_two_managers(TTL, WAIT).await;
    let set = ours.lock_all(["a", "b"]).acquire().await.unwrap();
    let delegation = set[0].delegate().expires_in(LONG).create().unwrap();
    let adopted = theirs.adopt(delegation.as_str(), "a").await.unwrap();
    sleep(TTL * 2).await;
    assert!(adopted.is_valid() && set.is_valid(), "as long as it is renewed");
    let began = Instant::now();
    theirs.force_release("b").await.unwrap();
    set.lost().await;
    let refused = set[0].delegate().create();
    assert!(refused.is_err(), "{refused:?}");
    adopted.lost().await;
    assert!(began.elapsed() <= TTL + TTL / 3, "nobody renews it: {:?}", began.elapsed());
    // Its key was left to expire, and so the next holder came after the adopter.
    drop(set);
    let next = theirs.lock_all(["a", "b"]).acquire().await.unwrap();
    assert!(adopted.token() < next[0].token());
    let replayed = ours.adopt(delegation.as_str(), "a").await;
    assert!(matches!(replayed, Err(AdoptError::Refused { .. })), "{replayed:?}");
    drop(next);
    eventually("nothing is left", || cluster.holding() == 0).await;
}

// promise: several-locks, delegation
#[tokio::test(start_paused = true)]
async fn a_set_that_is_dropped_leaves_only_what_it_delegated_to_expire() {
    let (cluster, [ours, theirs]) = MemoryCluster::with_two_managers(TTL, WAIT).await;
    let set = ours.lock_all(["a", "b"]).acquire().await.unwrap();
    let delegation = set[0].delegate().create().unwrap();
    let adopted = theirs.adopt(delegation.as_str(), "a").await.unwrap();
    set.release().await.unwrap();
    assert!(theirs.lock("b").try_acquire().await.is_ok());
    assert!(theirs.lock("a").try_acquire().await.is_err() && adopted.is_valid());
    let next = theirs.lock("a").acquire().await.unwrap();
    assert!(!adopted.is_valid());
    drop(next);
    eventually("nothing is left", || cluster.holding() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_set_in_the_scope_of_a_permit_is_another_lock_and_outlives_its_end() {
    let (_cluster, [ours, theirs]) = MemoryCluster::with_two_managers(TTL, WAIT).await;
    let permit = ours.permits("export", 1).acquire().await.unwrap();
    let set = permit.scope(ours.lock_all(["export", "import"]).acquire()).await.unwrap();
    assert_ne!(set[0].resource(), permit.resource());
    let shared = set.scope(permit.scope(ours.permits("export", 1).acquire())).await.unwrap();
    assert_eq!(shared.token(), permit.token());
    drop((shared, permit));
    assert!(theirs.permits("export", 1).try_acquire().await.is_ok(), "a permit in its own scope was the same one");
    assert!(set.is_valid() && theirs.lock("export").try_acquire().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_inner_set_ends_with_the_max_hold_of_the_outer_lock_that_it_shares() {
    let (cluster, [ours, theirs]) = MemoryCluster::with_two_managers(TTL, WAIT).await;
    let began = Instant::now();
    let outer = ours.lock("b").max_hold(TTL * 3).acquire().await.unwrap();
    let set = outer.scope(ours.lock_all(["a", "b", "c"]).max_hold(LONG).acquire()).await.unwrap();
    set.lost().await;
    assert!(began.elapsed() <= TTL * 3, "{:?}", began.elapsed());
    assert!(set.iter().all(|lease| !lease.is_valid()) && !outer.is_valid());
    let Err(LockError::Lost { resource, reason, .. }) = set.check() else { panic!("{set:?}") };
    assert_eq!((resource.as_str(), reason), ("b", LossReason::MaxHold), "the set itself may be held for longer");
    drop(set);
    assert!(theirs.lock_all(["a", "c"]).try_acquire().await.is_ok());
    assert!(theirs.lock("b").try_acquire().await.is_err(), "that one is the outer guard's to release");
    drop(outer);
    eventually("nothing is left", || cluster.holding() == 0).await;
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn work_nested_in_a_set_that_is_lost_is_cancelled_and_acquires_nothing_of_it_again() {
    let (cluster, [ours, theirs]) = MemoryCluster::with_two_managers(TTL, WAIT).await;
    let work = async |set: Leases| {
        let inner = ours.lock("a").run(async |_| {
            theirs.force_release("b").await.unwrap();
            set.lost().await;
            assert!(!Lease::current().unwrap().is_valid());
            ours.lock("b").acquire().await.err()
        });
        // Not reached: the work of the outer set is dropped when the set is lost.
        inner.await
    };
    let error = ours.lock_all(["a", "b"]).run(work).await.unwrap_err();
    assert!(matches!(error, LockError::Lost { .. }), "{error}");
    let set = ours.lock_all(["a", "b"]).acquire().await.unwrap();
    theirs.force_release("a").await.unwrap();
    set.lost().await;
    for name in ["a", "b"] {
        let again = set.scope(ours.lock(name).acquire()).await;
        assert!(matches!(again, Err(LockError::Lost { .. })), "{name}: {again:?}");
    }
    drop(set);
    eventually("nothing is left", || cluster.holding() == 0).await;
}

// promise: several-locks, readers
#[tokio::test(start_paused = true)]
async fn readers_beside_a_set_are_lost_with_it_only_if_what_they_read_is_taken() {
    let (cluster, [ours, theirs]) = MemoryCluster::with_two_managers(TTL, WAIT).await;
    for taken in ["catalog", "stock"] {
        let beside = ours.read("catalog").acquire().await.unwrap();
        let set = ours.lock_all(["stock"]).read(["catalog"]).acquire().await.unwrap();
        let began = Instant::now();
        theirs.force_release(taken).await.unwrap();
        set.lost().await;
        assert!(began.elapsed() <= TTL / 3 + SOON, "{:?}", began.elapsed());
        sleep(TTL / 2).await;
        assert_eq!(beside.is_valid(), taken == "stock", "{taken} was taken");
        drop(set);
        sleep(TTL * 2).await;
        assert_eq!(beside.is_valid(), taken == "stock", "the set gave up its share alone");
        assert_eq!(theirs.lock("catalog").try_acquire().await.is_ok(), taken == "catalog");
        drop(beside);
        eventually("nothing is left", || cluster.holding() == 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_shares_the_hold_of_a_set_goes_on_without_the_set() {
    let (cluster, [ours, theirs]) = MemoryCluster::with_two_managers(TTL, WAIT).await;
    for lost in [false, true] {
        let set = ours.lock_all(["stock"]).read(["catalog"]).acquire().await.unwrap();
        let beside = ours.read("catalog").acquire().await.unwrap();
        assert_eq!(beside.token(), set[1].token(), "one hold");
        if lost {
            theirs.force_release("stock").await.unwrap();
            set.lost().await;
            assert!(!set[1].is_valid() && beside.is_valid(), "each has a lease of its own");
        }
        drop(set);
        sleep(TTL * 2).await;
        assert!(beside.is_valid() && theirs.lock("catalog").try_acquire().await.is_err());
        assert!(theirs.lock("stock").try_acquire().await.is_ok());
        drop(beside);
        eventually("nothing is left", || cluster.holding() == 0).await;
    }
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn a_set_that_finds_a_queue_full_leaves_nothing_of_itself() {
    let (cluster, [theirs, operator]) = MemoryCluster::with_two_managers(TTL, WAIT).await;
    let ours = cluster.builder().ttl(TTL).max_ttl(TTL).wait(WAIT).max_waiters(1).connect().await.unwrap();
    let held = theirs.lock("b").acquire().await.unwrap();
    let waiting = tokio::spawn(ours.lock("b").acquire());
    sleep(SOON).await;
    for wait in [WAIT, Duration::ZERO] {
        let error = ours.lock_all(["a", "b", "c"]).wait(wait).acquire().await.unwrap_err();
        let is_full = matches!(error, LockError::QueueFull { ref resource, .. } if resource == "b");
        assert!(is_full || wait.is_zero() && matches!(error, LockError::Contended { .. }), "{error}");
        eventually("only what others hold is left", || cluster.lock_keys() == ["lock:b"; 5]).await;
    }
    for name in ["a", "c"] {
        assert!(operator.inspect(name).await.unwrap().nodes.iter().all(|node| node.waiters == 0));
        assert!(operator.lock(name).try_acquire().await.is_ok());
    }
    drop(held);
    drop(waiting.await.unwrap().unwrap());
    drop(ours.lock_all(["a", "b", "c"]).acquire().await.unwrap());
    eventually("nothing is left", || cluster.holding() == 0).await;
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn a_set_in_the_scope_of_one_of_its_locks_is_complete_when_that_was_renewed() {
    let (_cluster, [ours, _theirs]) = MemoryCluster::with_two_managers(TTL, WAIT).await;
    let outer = ours.lock("a").acquire().await.unwrap();
    let least = TTL * 19 / 20;
    // The next renewal of the outer lock is less than a third of its ttl away.
    sleep(TTL / 4).await;
    let request = ours.lock_all(["a", "b"]).min_validity(least);
    let set = outer.lease().scope(request.acquire()).await.unwrap();
    assert!(set.remaining() >= least, "{:?}", set.remaining());
    set.release().await.unwrap();
    assert!(outer.is_valid());
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn a_lock_acquired_again_has_what_is_left_of_its_set() {
    let (_cluster, [ours, theirs]) = MemoryCluster::with_two_managers(TTL, WAIT).await;
    // The first is granted before the others, because it waits for one of them.
    let holder = theirs.lock("b").acquire().await.unwrap();
    let waiting = tokio::spawn(ours.lock_all(["a", "b"]).renew(false).acquire());
    sleep(TTL / 2).await;
    drop(holder);
    let set = waiting.await.unwrap().unwrap();
    let again = |least| set.leases().scope(ours.lock("b").min_validity(least).acquire());
    assert!(again(TTL / 4).await.is_ok());
    let error = again(TTL * 7 / 10).await.unwrap_err();
    assert!(matches!(error, LockError::Expired { .. }), "{error}");
}

// promise: several-locks, distinct-errors
#[tokio::test(start_paused = true)]
async fn a_set_says_why_it_could_not_be_checked_at_its_end() {
    let cluster = MemoryCluster::new(5);
    let ours = cluster.builder().ttl(TTL).node_timeout(TTL / 2).connect().await.unwrap();
    // Slower than a word of the nodes is good for.
    let slow = Duration::from_millis(150);
    for shuts_down in [false, true] {
        cluster.nodes.iter().for_each(|node| node.set_delay(slow));
        let trying = tokio::spawn(ours.lock_all(["a", "b"]).try_acquire());
        sleep(slow + SOON).await;
        if shuts_down {
            ours.shutdown(Duration::ZERO).await;
        } else {
            cluster.nodes.iter().for_each(|node| node.set_down(true));
        }
        let error = trying.await.unwrap().unwrap_err();
        let is_right = match shuts_down {
            true => matches!(error, LockError::ShuttingDown { .. }),
            false => matches!(&error, LockError::NoQuorum { votes, .. } if votes.len() == 5),
        };
        assert!(is_right, "{error}");
        cluster.nodes.iter().for_each(|node| node.set_down(false));
        sleep(TTL * 5).await;
    }
}
