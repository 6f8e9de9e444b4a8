//! Several locks at once. In virtual time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use lock_core::limits::MAX_SET_LEN;
use lock_core::node::{Operation, Reply, ReplySender, Request};
use lock_core::{Kind, Lease, Leases, LockError, LockGuard, LockManager, LockNode, LossReason, MemoryNode, SetGuard};
use lock_support::{Events, MemoryCluster, Recorder, eventually};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

const TTL: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(600);

async fn cluster() -> (MemoryCluster, LockManager) {
    let cluster = MemoryCluster::new(5);
    let locks = manager(&cluster).await;
    (cluster, locks)
}

/// A node that loses the key of one lock, as far as those who renew it can tell.
#[derive(Clone)]
struct Forgetful {
    node: MemoryNode,
    lost: Arc<Mutex<Option<&'static str>>>,
}

impl LockNode for Forgetful {
    lock_core::forward_to_node!(self => self.node; name inspect write_record read_fences look evict wakeups disconnected disconnect);

    fn submit(&self, request: Request, reply_to: ReplySender) {
        let is_lost = *self.lost.lock().unwrap_or_else(PoisonError::into_inner) == Some(request.keys.lock_key());
        match request.operation {
            Operation::Extend { .. } if is_lost => reply_to.send(Ok(Reply::Gone)),
            _ => self.node.submit(request, reply_to),
        }
    }
}

/// A manager, and which of its locks is lost when it is renewed.
async fn forgetful(cluster: &MemoryCluster) -> (LockManager, impl Fn(Option<&'static str>) + use<>) {
    let lost = Arc::new(Mutex::new(None));
    let nodes = cluster.nodes.iter().map(|node| Forgetful { node: node.clone(), lost: Arc::clone(&lost) });
    let locks = LockManager::builder().nodes(nodes).ttl(TTL).connect().await.unwrap();
    (locks, move |key| *lost.lock().unwrap_or_else(PoisonError::into_inner) = key)
}

async fn manager(cluster: &MemoryCluster) -> LockManager {
    cluster.builder().ttl(TTL).connect().await.unwrap()
}

/// The locks that the nodes hold, each once.
fn held_on(cluster: &MemoryCluster) -> Vec<String> {
    let mut keys = cluster.lock_keys();
    keys.sort();
    keys.dedup();
    keys
}

async fn is_free(locks: &LockManager, resource: &str) -> bool {
    locks.lock(resource).try_acquire().await.is_ok()
}

fn reason(lease: &Lease) -> Option<LossReason> {
    match lease.check() {
        Err(LockError::Lost { reason, .. }) => Some(reason),
        _ => None,
    }
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn the_leases_of_a_set_have_the_order_in_which_they_were_written() {
    let (cluster, locks) = cluster().await;
    let set = locks.lock_all(["user:7", "stock:42", "user:7"]).acquire().await.unwrap();
    let names: Vec<_> = set.iter().map(Lease::resource).collect();
    assert_eq!((names.as_slice(), set.len()), (["user:7", "stock:42", "user:7"].as_slice(), 3));
    assert_eq!(set[0].token(), set[2].token(), "names that are the same share a lease");
    assert_eq!(set.get("stock:42").unwrap().token(), set[1].token());
    assert!(set.get("stock:4").is_none());
    assert_eq!(held_on(&cluster), ["lock:stock:42", "lock:user:7"]);
    let remaining = set.iter().map(Lease::remaining).min().unwrap();
    assert!(set.remaining() <= remaining && !set.remaining().is_zero());
    assert!(set.release().await.unwrap());
    assert_eq!(held_on(&cluster), [""; 0]);
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn a_set_is_acquired_all_or_none() {
    let (cluster, locks) = cluster().await;
    let other = manager(&cluster).await;
    let holder = other.lock("b").acquire().await.unwrap();
    for wait in [Duration::ZERO, TTL * 3] {
        let began = Instant::now();
        let error = locks.lock_all(["c", "a", "b"]).wait(wait).acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Contended { .. }), "{error}");
        assert_eq!((error.resource(), error.votes().len()), ("b", 5));
        assert!(began.elapsed() >= wait && began.elapsed() < wait + TTL / 4, "one wait for all: {:?}", began.elapsed());
        eventually("only the other's lock is left", || held_on(&cluster) == ["lock:b"]).await;
        assert!(locks.held().is_empty());
    }
    drop(holder);
    locks.lock_all(["c", "a", "b"]).acquire().await.unwrap().release().await.unwrap();
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn a_set_has_one_to_32_names() {
    let locks = LockManager::in_memory();
    let names = |count: usize| (0..count).map(|name| format!("r{name}")).collect::<Vec<_>>();
    assert_eq!(locks.lock_all(names(MAX_SET_LEN)).acquire().await.unwrap().len(), 32);
    let error = locks.lock_all(names(33)).acquire().await.unwrap_err();
    assert_eq!(error.to_string(), "a set of locks must have between 1 and 32 resources, got 33");
    assert_eq!(error.resource(), "r0");
    let none = locks.lock_all([""; 0]).acquire().await.unwrap_err();
    assert!(matches!(none, LockError::InvalidSet { resources: 0, .. }));
    let invalid = locks.lock_all(["a", "b{c}"]).acquire().await.unwrap_err();
    assert!(matches!(invalid, LockError::InvalidResource { ref resource, .. } if resource == "b{c}"), "{invalid}");
    let invalid = locks.lock_all(["a", "b"]).ttl(Duration::ZERO).acquire().await.unwrap_err();
    assert!(matches!(invalid, LockError::InvalidOptions { .. }));
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn the_loss_of_one_lock_is_the_loss_of_all_at_once() {
    let cluster = MemoryCluster::new(5);
    let (locks, lose) = forgetful(&cluster).await;
    let set = locks.lock_all(["a", "b", "c"]).acquire().await.unwrap();
    let lost = set.lost();
    lose(Some("lock:b"));
    lost.await;
    assert!(!set.is_valid() && set.iter().all(|lease| !lease.is_valid() && lease.remaining().is_zero()));
    assert!(set[2].lost().now_or_never().is_some());
    assert_eq!(
        set.iter().map(reason).collect::<Vec<_>>(),
        [Some(LossReason::SetLost), Some(LossReason::Gone), Some(LossReason::SetLost)]
    );
    assert_eq!(set.check().unwrap_err().resource(), "b", "the one that was lost first");
    assert!(!set.release().await.unwrap());
    assert_eq!(held_on(&cluster), [""; 0]);
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn a_lock_that_expires_ends_the_others_before_anybody_notices_it() {
    let (_cluster, locks) = cluster().await;
    // The first is granted before the others, because it waits for one of them.
    let holder = locks.lock("b").renew(false).acquire().await.unwrap();
    let waiting = tokio::spawn(locks.lock_all(["a", "b"]).wait(LONG).renew(false).acquire());
    sleep(TTL / 2).await;
    drop(holder);
    let set = waiting.await.unwrap().unwrap();
    assert!(set[0].remaining() < TTL, "{:?}", set[0].remaining());
    assert_eq!(set[1].remaining(), set[0].remaining(), "what is left of the one that ends first");
    sleep(set.remaining()).await;
    assert!(!set[1].is_valid());
    assert_eq!(reason(&set[1]), Some(LossReason::SetLost));
    assert_eq!(reason(&set[0]), Some(LossReason::Expired));
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn max_hold_of_a_set_counts_from_when_it_is_complete() {
    let (_cluster, locks) = cluster().await;
    let holder = locks.lock("b").acquire().await.unwrap();
    let waiting = tokio::spawn(locks.lock_all(["a", "b"]).wait(LONG).max_hold(TTL * 5).acquire());
    sleep(TTL * 20).await;
    drop(holder);
    let set = waiting.await.unwrap().unwrap();
    let complete = Instant::now();
    sleep(TTL * 5 - Duration::from_millis(2)).await;
    assert!(set.is_valid());
    set.lost().await;
    assert!(complete.elapsed() <= TTL * 5, "{:?}", complete.elapsed());
    assert!(set.iter().all(|lease| reason(lease) == Some(LossReason::MaxHold)));
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn a_set_that_is_shorter_than_its_renewals_ends_in_time() {
    let (_cluster, locks) = cluster().await;
    let set = locks.lock_all(["a", "b"]).max_hold(TTL / 10).acquire().await.unwrap();
    sleep(TTL / 10).await;
    // By itself: nobody asks.
    let next = timeout(TTL / 100, locks.lock("x").acquire()).await.unwrap().unwrap();
    assert!(locks.held().iter().all(|lease| lease.resource() == "x"), "{:?}", locks.held());
    drop((set, next));
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn a_waiting_set_keeps_what_comes_before_the_contended_lock_and_nothing_behind_it() {
    let (cluster, locks) = cluster().await;
    let other = manager(&cluster).await;
    for by_this_manager in [true, false] {
        let holder = if by_this_manager { &locks } else { &other };
        let held = holder.lock("m").acquire().await.unwrap();
        let waiting = tokio::spawn(locks.lock_all(["z", "m", "a"]).wait(LONG).acquire());
        sleep(TTL / 10).await;
        for _ in 0..10 {
            // Longer than the time to live: what is kept is renewed.
            sleep(TTL / 2).await;
            assert_eq!(held_on(&cluster), ["lock:a", "lock:m"]);
            assert!(is_free(&other, "z").await && is_free(&locks, "z").await);
            assert!(!is_free(&other, "a").await && !is_free(&locks, "a").await);
        }
        held.release().await.unwrap();
        let set = timeout(TTL / 4, waiting).await.unwrap().unwrap().unwrap();
        assert!(set.is_valid());
        set.release().await.unwrap();
    }
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn a_set_that_loses_a_lock_while_it_waits_begins_again() {
    let cluster = MemoryCluster::new(5);
    let (other, (locks, lose)) = (manager(&cluster).await, forgetful(&cluster).await);
    let held = other.lock("b").acquire().await.unwrap();
    let waiting = tokio::spawn(locks.lock_all(["a", "b"]).wait(LONG).acquire());
    sleep(TTL / 2).await;
    let first = locks.held()[0].token();
    lose(Some("lock:a"));
    eventually("it has another lease", || locks.held().first().is_some_and(|lease| lease.token() > first)).await;
    lose(None);
    held.release().await.unwrap();
    let set = waiting.await.unwrap().unwrap();
    assert!(set.is_valid() && set[0].token() > first);
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn a_set_inside_the_scope_of_one_of_its_locks_shares_that() {
    let cluster = MemoryCluster::new(5);
    let (locks, lose) = forgetful(&cluster).await;
    let outer = locks.lock("b").acquire().await.unwrap();
    let shared = outer.scope(async {
        let set = locks.lock_all(["a", "b"]).acquire().await.unwrap();
        assert_eq!(set[1].token(), outer.token());
        assert_eq!(held_on(&cluster), ["lock:a", "lock:b"]);
        lose(Some("lock:a"));
        set.lost().await;
        assert!(outer.is_valid(), "the outer lease outlives the set");
        drop(set);
        locks.lock_all(["a", "b", "c"]).acquire().await.unwrap()
    });
    let set = shared.await;
    lose(Some("lock:b"));
    outer.lost().await;
    assert!(set.iter().all(|lease| !lease.is_valid()), "the loss of the outer lease is the loss of the set");
    assert_eq!(reason(&set[0]), Some(LossReason::SetLost));
    let error = outer.scope(locks.lock_all(["a", "b"]).acquire()).await.unwrap_err();
    assert!(matches!(error, LockError::Lost { ref resource, .. } if resource == "b"), "{error}");
    drop(set);
    assert!(!outer.release().await.unwrap());
}

// promise: readers
#[tokio::test(start_paused = true)]
async fn a_set_reads_beside_others_what_it_only_reads() {
    let (cluster, locks) = cluster().await;
    let other = manager(&cluster).await;
    let reader = other.read("catalog").acquire().await.unwrap();
    let set = locks.lock_all(["stock", "price"]).read(["catalog", "price"]).try_acquire().await.unwrap();
    let kinds: Vec<_> = set.iter().map(|lease| (lease.resource(), lease.kind())).collect();
    let both = ("price", Kind::Write);
    assert_eq!(kinds, [("stock", Kind::Write), both, ("catalog", Kind::Read), both], "a name in both is written");
    assert!(reader.is_valid() && !is_free(&other, "catalog").await && !is_free(&other, "stock").await);
    let beside = locks.lock_all(["other"]).read(["catalog"]).try_acquire().await.unwrap();
    assert!(beside.release().await.unwrap());
    assert!(reader.release().await.unwrap());
    assert!(!is_free(&other, "catalog").await, "the set still reads it");
    assert!(set.release().await.unwrap());
    assert_eq!(held_on(&cluster), [""; 0]);
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn a_set_does_not_write_what_its_scope_reads() {
    let (cluster, locks) = cluster().await;
    let reader = locks.read("b").acquire().await.unwrap();
    let other = manager(&cluster).await;
    let held = other.lock("a").acquire().await.unwrap();
    let began = Instant::now();
    let error = reader.scope(locks.lock_all(["a", "b"]).wait(LONG).acquire()).await.unwrap_err();
    assert!(matches!(error, LockError::Upgrade { ref resource } if resource == "b"), "{error}");
    assert_eq!(began.elapsed(), Duration::ZERO, "at once, whoever has the others");
    drop(held);
    let set = reader.scope(locks.lock_all(["a"]).read(["b"]).acquire()).await.unwrap();
    assert_eq!(set[1].token(), reader.token());
    drop((set, reader));
    eventually("nothing is left", || held_on(&cluster).is_empty()).await;
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn any_lease_of_a_set_is_found_in_its_scope() {
    let (cluster, locks) = cluster().await;
    let run = locks.lock_all(["b", "a"]).run(async |leases: Leases| {
        assert_eq!(Lease::current().unwrap().token(), leases[0].token());
        assert_eq!(Lease::current_for("a").unwrap().token(), leases[1].token());
        assert!(Lease::current_for("c").is_none());
        let inner = locks.lock("a").acquire().await.unwrap();
        assert_eq!(inner.token(), leases[1].token());
        let inner = locks.lock_all(["a", "b"]).acquire().await.unwrap();
        assert_eq!(inner[1].token(), leases[0].token());
        inner.release().await.unwrap();
        assert!(leases.is_valid(), "the outermost releases");
        leases.len()
    });
    assert_eq!(run.await, Ok(2));
    assert!(Lease::current_for("a").is_none());
    assert_eq!(held_on(&cluster), [""; 0]);
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn the_loss_of_a_lock_cancels_the_work_of_a_set() {
    let (locks, lose) = forgetful(&MemoryCluster::new(5)).await;
    let work = async |_| {
        lose(Some("lock:a"));
        sleep(LONG).await;
    };
    let error = locks.lock_all(["b", "a"]).run(work).await.unwrap_err();
    assert!(matches!(error, LockError::Lost { ref resource, .. } if resource == "a"), "{error}");
}

/// Names in one of the orders in which they can be written.
fn written(names: &[&'static str], order: usize) -> Vec<&'static str> {
    let mut names = names.to_vec();
    let by = order % names.len();
    names.rotate_left(by);
    if order % 2 == 1 {
        names.reverse();
    }
    names
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn sets_never_wait_for_each_other_however_they_are_written() {
    const NAMES: [&str; 4] = ["d", "a", "c", "b"];
    let cluster = MemoryCluster::new(3);
    cluster.nodes.iter().for_each(|node| node.set_delay(Duration::from_millis(1)));
    let inside: Arc<[AtomicUsize; 4]> = Arc::default();
    let mut tasks = JoinSet::new();
    for process in 0..3 {
        let locks = manager(&cluster).await;
        for task in 0..64 {
            let (locks, inside) = (locks.clone(), Arc::clone(&inside));
            tasks.spawn(async move {
                let names = written(&NAMES[task % 3..], process + task);
                let set = locks.lock_all(&names).wait(LONG).acquire().await.unwrap();
                let at = |name| &inside[NAMES.iter().position(|other| *other == name).unwrap()];
                assert!(names.iter().all(|name| at(*name).fetch_add(1, Ordering::Relaxed) == 0), "exclusive");
                tokio::task::yield_now().await;
                names.iter().for_each(|name| _ = at(*name).fetch_sub(1, Ordering::Relaxed));
                set.release().await.unwrap();
            });
        }
    }
    let all_end = async { while tasks.join_next().await.transpose().unwrap().is_some() {} };
    timeout(LONG, all_end).await.unwrap();
    eventually("nothing is left", || held_on(&cluster).is_empty()).await;
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn sets_and_single_locks_share_one_queue() {
    let (_cluster, locks) = cluster().await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let holder = locks.lock("b").acquire().await.unwrap();
    let mut tasks = JoinSet::new();
    for caller in 0..6 {
        let (locks, order) = (locks.clone(), Arc::clone(&order));
        tasks.spawn(async move {
            let note = || order.lock().unwrap_or_else(PoisonError::into_inner).push(caller);
            if caller % 2 == 0 {
                let set: SetGuard = locks.lock_all(["b", "c"]).wait(LONG).acquire().await.unwrap();
                note();
                drop(set);
            } else {
                let lock: LockGuard = locks.lock("b").wait(LONG).acquire().await.unwrap();
                note();
                drop(lock);
            }
        });
        sleep(Duration::from_millis(1)).await;
    }
    drop(holder);
    tasks.join_all().await;
    assert_eq!(*order.lock().unwrap_or_else(PoisonError::into_inner), [0, 1, 2, 3, 4, 5]);
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn a_set_without_a_wait_passes_nobody() {
    let (cluster, locks) = cluster().await;
    let other = manager(&cluster).await;
    let holder = other.lock("b").acquire().await.unwrap();
    let waiting = tokio::spawn(locks.lock("b").wait(LONG).acquire());
    sleep(TTL / 10).await;
    let error = locks.lock_all(["a", "b"]).try_acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Contended { ref resource, .. } if resource == "b"), "{error}");
    drop(holder);
    drop(waiting.await.unwrap().unwrap());
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn a_set_makes_one_attempt_and_one_for_each_contended_lock_beside_its_waits() {
    let cluster = MemoryCluster::new(3);
    let recorders: Vec<Recorder<MemoryNode>> = cluster.nodes.iter().cloned().map(Recorder::new).collect();
    let locks = LockManager::builder().nodes(recorders.clone()).ttl(TTL).connect().await.unwrap();
    let acquires = || {
        let is_acquire = |operation: &&Operation| matches!(operation, Operation::Acquire { .. });
        recorders[0].requests().iter().filter(is_acquire).count()
    };
    let before = acquires();
    let set = locks.lock_all(["a", "b", "c", "d", "e"]).acquire().await.unwrap();
    assert_eq!(acquires() - before, 5, "one for each lock");
    set.release().await.unwrap();

    let held = locks.lock("b").acquire().await.unwrap();
    let before = acquires();
    let waiting = tokio::spawn(locks.lock_all(["a", "b", "c", "d", "e"]).wait(LONG).acquire());
    sleep(TTL / 10).await;
    assert_eq!(acquires() - before, 1, "a, and nothing behind b, which another caller of this process holds");
    held.release().await.unwrap();
    drop(waiting.await.unwrap().unwrap());
    assert!(acquires() - before <= 5, "b may be handed over; the rest is one batch");
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_sets_and_their_waiters() {
    let (cluster, locks) = cluster().await;
    let set = locks.lock_all(["b", "c"]).acquire().await.unwrap();
    let waiting = tokio::spawn(locks.lock_all(["a", "b"]).wait(LONG).acquire());
    sleep(TTL / 10).await;
    let report = locks.shutdown(TTL).await;
    assert_eq!(report.revoked, 2);
    assert!(matches!(waiting.await.unwrap(), Err(LockError::ShuttingDown { .. })));
    assert!(set.iter().all(|lease| reason(lease) == Some(LossReason::ShutDown)));
    assert_eq!(held_on(&cluster), [""; 0]);
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn locks_that_are_nested_against_the_order_of_names_are_logged_once() {
    let events = Events::record();
    let (_cluster, locks) = cluster().await;
    locks
        .lock("b")
        .run(async |_| {
            drop(locks.lock("c").acquire().await.unwrap());
            drop(locks.lock("a").try_acquire().await.unwrap());
            assert!(events.named("lock.nested_out_of_order").is_empty());
            for _ in 0..2 {
                drop(locks.lock_all(["x", "b", "a"]).acquire().await.unwrap());
                drop(locks.lock("a").acquire().await.unwrap());
            }
        })
        .await
        .unwrap();
    let logged = events.named("lock.nested_out_of_order");
    assert_eq!((logged.len(), logged[0].level), (1, tracing::Level::WARN));
    assert!(logged[0].fields.contains(r#"resource="a" held="b""#), "{}", logged[0].fields);
}
