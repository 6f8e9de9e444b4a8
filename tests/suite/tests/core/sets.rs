//! Several locks at once. In virtual time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use lock_core::limits::MAX_SET_LEN;
use lock_core::node::{Operation, Reply, ReplySender, Request};
use lock_core::{Kind, Lease, Leases, LockError, LockManager, LockNode, LossReason, MemoryNode};
use lock_support::{MemoryCluster, eventually};
use tokio::time::{Instant, sleep, timeout};

pub(crate) const TTL: Duration = Duration::from_secs(1);
pub(crate) const LONG: Duration = Duration::from_secs(600);

pub(crate) async fn cluster() -> (MemoryCluster, LockManager) {
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
pub(crate) async fn forgetful(cluster: &MemoryCluster) -> (LockManager, impl Fn(Option<&'static str>) + use<>) {
    let lost = Arc::new(Mutex::new(None));
    let nodes = cluster.nodes.iter().map(|node| Forgetful { node: node.clone(), lost: Arc::clone(&lost) });
    let locks = LockManager::builder().nodes(nodes).ttl(TTL).connect().await.unwrap();
    (locks, move |key| *lost.lock().unwrap_or_else(PoisonError::into_inner) = key)
}

pub(crate) async fn manager(cluster: &MemoryCluster) -> LockManager {
    cluster.builder().ttl(TTL).connect().await.unwrap()
}

/// The locks that the nodes hold, each once.
pub(crate) fn held_on(cluster: &MemoryCluster) -> Vec<String> {
    let mut keys = cluster.lock_keys();
    keys.sort();
    keys.dedup();
    keys
}

pub(crate) async fn is_free(locks: &LockManager, resource: &str) -> bool {
    locks.lock(resource).try_acquire().await.is_ok()
}

pub(crate) fn reason(lease: &Lease) -> Option<LossReason> {
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
