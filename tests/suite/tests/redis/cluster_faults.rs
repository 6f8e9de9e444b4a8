//! What becomes of locks in a Redis Cluster when a slot moves or a server is replaced, under load.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::{LockError, LockManager};
use lock_history::Referee;
use lock_support::{Kind, SlotCluster, all_nodes_vote, eventually};
use tokio::sync::MutexGuard;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// Also how long a server that takes over a slot grants nothing, at least.
pub(crate) const TTL: Duration = Duration::from_millis(1500);
/// How much longer than a quarantine a lock may be missing after a failover or a move, on a busy machine: until a service notices, and
/// asks whether the quarantine is over.
const MARGIN: Duration = Duration::from_secs(15);
const NAMES: usize = 8;

/// Serializes the tests with a load on a cluster: hold the guard for the whole test. Each takes half a core, which those that measure time
/// beside it can spare.
pub(crate) async fn one_load() -> MutexGuard<'static, ()> {
    static ONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    ONE.lock().await
}

/// Managers that take the same few locks again and again.
pub(crate) struct Load {
    referees: Vec<Referee>,
    granted: Vec<AtomicU32>,
    /// When each lock was granted last, and the longest time without it.
    without: Vec<Mutex<(Instant, Duration)>>,
    is_over: AtomicBool,
}

impl Load {
    pub(crate) async fn begin(cluster: &SlotCluster) -> (Arc<Self>, LockManager, Vec<JoinHandle<()>>) {
        let load = Arc::new(Self {
            referees: (0..NAMES).map(|_| Referee::default()).collect(),
            granted: (0..NAMES).map(|_| AtomicU32::new(0)).collect(),
            without: (0..NAMES).map(|_| Mutex::new((Instant::now(), Duration::ZERO))).collect(),
            is_over: AtomicBool::new(false),
        });
        let mut tasks = Vec::new();
        let mut first = None;
        for _ in 0..2 {
            let builder = LockManager::builder().redis_cluster([cluster.url()]).shards(4).ttl(TTL).max_ttl(TTL);
            let locks = builder.node_timeout(TTL / 4).connect().await.unwrap();
            for name in 0..NAMES {
                tasks.push(tokio::spawn(Arc::clone(&load).acquire_until_over(locks.clone(), name)));
            }
            first.get_or_insert(locks);
        }
        load.all_are_granted().await;
        (load, first.unwrap(), tasks)
    }

    async fn acquire_until_over(self: Arc<Self>, locks: LockManager, name: usize) {
        while !self.is_over.load(Ordering::Relaxed) {
            match locks.lock(format!("stock:{name}")).wait(TTL / 5).acquire().await {
                Ok(guard) => {
                    self.note_granted(name);
                    if self.referees[name].enter(&guard) {
                        sleep(Duration::from_millis(2)).await;
                        self.referees[name].leave(&guard);
                        self.granted[name].fetch_add(1, Ordering::Relaxed);
                    }
                    // That may fail: the server may be gone.
                    _ = guard.release().await;
                }
                Err(LockError::NoQuorum { .. } | LockError::Contended { .. } | LockError::Expired { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            sleep(Duration::from_millis(1)).await;
        }
    }

    fn note_granted(&self, name: usize) {
        let (last, longest) = &mut *self.without[name].lock().unwrap();
        *longest = last.elapsed().max(*longest);
        *last = Instant::now();
    }

    /// The longest time for which any of the locks was not granted since this was asked last, when all of them are again.
    pub(crate) async fn longest_without(&self, after: &str) -> Duration {
        self.all_are_granted().await;
        let longest = self.without.iter().map(|without| std::mem::take(&mut without.lock().unwrap().1));
        let longest = longest.max().unwrap_or_default();
        eprintln!("a lock was missing for {longest:?} at most after {after}");
        longest
    }

    /// Waits until each lock is granted some more times.
    pub(crate) async fn all_are_granted(&self) {
        let count = |granted: &AtomicU32| granted.load(Ordering::Relaxed);
        let before: Vec<_> = self.granted.iter().map(count).collect();
        let granted = || self.granted.iter().zip(&before).all(|(granted, before)| count(granted) > before + 5);
        eventually("every lock is granted", granted).await;
    }

    pub(crate) async fn end(&self, tasks: Vec<JoinHandle<()>>) {
        self.all_are_granted().await;
        self.is_over.store(true, Ordering::Relaxed);
        for task in tasks {
            task.await.unwrap();
        }
        self.referees.iter().for_each(Referee::assert_no_violations);
    }
}

/// The slots of all shards, with their owners.
pub(crate) async fn slots(cluster: &SlotCluster) -> Vec<(u16, usize)> {
    let records = cluster.keys("{lock:#*}{node}").await;
    assert_eq!(records.len(), 4);
    let mut slots = Vec::new();
    for record in records {
        let slot = cluster.slot(&record).await;
        slots.push((slot, cluster.owner(slot).await.unwrap()));
    }
    slots
}

// promise: exclusion, fencing, quarantine
#[tokio::test]
async fn slots_that_move_key_by_key_under_load_and_back_lead_to_no_second_holder() {
    let _one = one_load().await;
    let cluster = SlotCluster::start(3, 0).await;
    let (load, locks, tasks) = Load::begin(&cluster).await;
    for (slot, owner) in slots(&cluster).await {
        let target = (owner + 1) % 3;
        cluster.move_slot(slot, owner, target, Duration::from_millis(20)).await;
        load.all_are_granted().await;
        cluster.move_slot(slot, target, owner, Duration::ZERO).await;
        load.all_are_granted().await;
    }
    all_nodes_vote(&locks).await;
    load.end(tasks).await;
}

// promise: exclusion, fencing, quarantine
#[tokio::test]
async fn failovers_under_load_that_the_primary_agrees_to_lead_to_no_second_holder() {
    let _one = one_load().await;
    let cluster = SlotCluster::start(3, 1).await;
    let (load, locks, tasks) = Load::begin(&cluster).await;
    load.longest_without("the start").await;
    for primary in 0..3 {
        cluster.fail_over(cluster.replica_of(primary)).await;
        let without = load.longest_without("a failover that was asked for").await;
        assert!(TTL < without && without < TTL + MARGIN, "{without:?}");
    }
    // And back: the process of the former primary is the one that it was.
    cluster.fail_over(0).await;
    load.all_are_granted().await;
    all_nodes_vote(&locks).await;
    load.end(tasks).await;
}

// promise: exclusion, fencing, quarantine
#[tokio::test]
async fn a_primary_that_is_killed_under_load_or_stopped_and_resumed_leads_to_no_second_holder() {
    let _one = one_load().await;
    let mut cluster = SlotCluster::start(3, 1).await;
    let (load, locks, tasks) = Load::begin(&cluster).await;
    let slots = slots(&cluster).await;
    let (killed, stopped) = (slots[0].1, slots.iter().map(|(_, owner)| *owner).find(|owner| *owner != slots[0].1));
    let stopped = stopped.expect("the shards are on several servers");
    let held = Kind::Write.acquire(&locks, "held").await.unwrap();
    load.longest_without("the start").await;
    cluster.servers[killed].kill();
    let without = load.longest_without("a primary was killed").await;
    assert!(TTL + SlotCluster::NODE_TIMEOUT < without, "{without:?}");
    assert!(without < TTL + SlotCluster::NODE_TIMEOUT * 3 + MARGIN, "{without:?}");
    // It does not know that it was replaced when it goes on, with requests that were sent to it before.
    cluster.servers[stopped].stop();
    load.all_are_granted().await;
    cluster.servers[stopped].cont();
    load.all_are_granted().await;
    drop(held);
    load.end(tasks).await;
}

// promise: turns
#[tokio::test]
async fn callers_that_wait_while_a_slot_moves_get_the_lock_in_the_end() {
    let cluster = SlotCluster::start(3, 0).await;
    let builder = || LockManager::builder().redis_cluster([cluster.url()]).ttl(TTL).max_ttl(TTL).node_timeout(TTL / 4);
    let [ours, theirs] = [builder().connect().await.unwrap(), builder().connect().await.unwrap()];
    let slot = cluster.slot("{lock:#0}").await;
    let owner = cluster.owner(slot).await.unwrap();
    for kind in Kind::ALL {
        // The quarantine after the last move is over.
        all_nodes_vote(&ours).await;
        let held = kind.acquire(&ours, "r").await.unwrap();
        let waiting = tokio::spawn({
            let theirs = theirs.clone();
            async move {
                loop {
                    match kind.rival(&theirs, "r", Duration::from_secs(20)).await {
                        Ok(taken) => return taken,
                        Err(LockError::NoQuorum { .. } | LockError::Expired { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        });
        sleep(Duration::from_millis(50)).await;
        let now = cluster.owner(slot).await.unwrap();
        cluster
            .move_slot(slot, now, if now == owner { (owner + 1) % 3 } else { owner }, Duration::from_millis(5))
            .await;
        sleep(Duration::from_millis(50)).await;
        drop(held);
        assert!(waiting.await.unwrap().is_valid(), "{kind:?}");
    }
}
