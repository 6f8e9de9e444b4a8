//! Permits: at most that many holders at once, each in a slot that is a whole lock. In virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::limits::MAX_PERMITS;
use lock_core::node::{Operation, OwnerId};
use lock_core::{Kind, Lease, LockError, LockGuard, LockManager, MemoryNode};
use lock_history::Referee;
use lock_support::{MemoryCluster, Polled, Recorder, eventually, poll_times};
use tokio::time::{Instant, sleep};

const WAIT: Duration = Duration::from_secs(30);
pub(crate) const WORK: Duration = Duration::from_millis(2);

/// Counts the holders, and has a referee for each slot.
struct Slots {
    referees: Vec<Referee>,
    holders: AtomicUsize,
    most: AtomicUsize,
}

impl Slots {
    fn new(permits: u32) -> Arc<Self> {
        let referees = (0..permits).map(|_| Referee::default()).collect();
        Arc::new(Self { referees, holders: AtomicUsize::new(0), most: AtomicUsize::new(0) })
    }

    fn enter(&self, lease: &Lease) {
        let holders = self.holders.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(holders, Ordering::SeqCst);
        assert!(self.referees[lease.slot().unwrap() as usize].enter(lease));
    }

    fn leave(&self, lease: &Lease) {
        self.referees[lease.slot().unwrap() as usize].leave(lease);
        self.holders.fetch_sub(1, Ordering::SeqCst);
    }

    /// How many held a permit at once.
    fn most(&self) -> usize {
        self.referees.iter().for_each(Referee::assert_no_violations);
        self.most.load(Ordering::SeqCst)
    }
}

pub(crate) async fn manager(cluster: &MemoryCluster) -> LockManager {
    cluster.builder().wait(WAIT).connect().await.unwrap()
}

pub(crate) async fn held(locks: &LockManager, permits: u32) -> LockGuard {
    locks.permits("export", permits).acquire().await.unwrap()
}

pub(crate) fn is_contended(outcome: &Result<LockGuard, LockError>) -> bool {
    matches!(outcome, Err(LockError::Contended { .. }))
}

/// Holds a permit for a while, again and again.
async fn cycles(locks: LockManager, slots: Arc<Slots>, permits: u32, count: u32) {
    for _ in 0..count {
        let permit = held(&locks, permits).await;
        slots.enter(&permit);
        sleep(WORK).await;
        slots.leave(&permit);
        permit.release().await.unwrap();
    }
}

// promise: permits
#[tokio::test(start_paused = true)]
async fn at_most_as_many_hold_as_there_are_permits_and_tokens_of_a_slot_increase() {
    for permits in [1, 2, 3, 7] {
        let (cluster, slots) = (MemoryCluster::new(5), Slots::new(permits));
        let mut callers = Vec::new();
        for _ in 0..4 {
            let locks = manager(&cluster).await;
            callers.extend((0..4).map(|_| tokio::spawn(cycles(locks.clone(), Arc::clone(&slots), permits, 20))));
        }
        join_all(callers).await.into_iter().for_each(Result::unwrap);
        assert_eq!(slots.most(), permits as usize);
        eventually("nothing is left", || cluster.lock_keys().is_empty()).await;
    }
}

// promise: permits
#[tokio::test(start_paused = true)]
async fn the_callers_of_one_process_hold_all_slots_at_once() {
    let locks = manager(&MemoryCluster::new(5)).await;
    let permits = join_all((0..MAX_PERMITS).map(|_| held(&locks, MAX_PERMITS))).await;
    let mut slots: Vec<_> = permits.iter().filter_map(|permit| permit.slot()).collect();
    slots.sort_unstable();
    assert!(slots.into_iter().eq(0..MAX_PERMITS));
    assert!(is_contended(&locks.permits("export", MAX_PERMITS).try_acquire().await));
    assert_eq!(locks.held().len(), permits.len());
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_named_after_its_slot_and_an_error_after_the_resource() {
    let locks = manager(&MemoryCluster::new(5)).await;
    let permit = held(&locks, 1).await;
    assert_eq!((permit.resource(), permit.slot(), permit.kind()), ("export{0}", Some(0), Kind::Permit { of: 1 }));
    let error = locks.permits("export", 1).try_acquire().await.unwrap_err();
    assert_eq!(error.resource(), "export");
}

// promise: permits
#[tokio::test(start_paused = true)]
async fn the_lock_on_a_resource_knows_nothing_of_its_permits() {
    let locks = manager(&MemoryCluster::new(5)).await;
    let lock = locks.lock("export").acquire().await.unwrap();
    let permit = held(&locks, 1).await;
    let waiting = tokio::spawn(locks.permits("export", 1).acquire());
    sleep(WORK).await;
    drop(lock);
    assert!(locks.lock("export").try_acquire().await.is_ok());
    assert!(!waiting.is_finished());
    drop(permit);
    assert!(waiting.await.unwrap().is_ok());
}

// promise: permits
#[tokio::test(start_paused = true)]
async fn other_numbers_of_permits_are_refused_before_any_request() {
    let node = Recorder::new(MemoryNode::new());
    let locks = LockManager::builder().nodes([node.clone()]).connect().await.unwrap();
    for permits in [0, 101, u32::MAX] {
        let error = locks.permits("export", permits).acquire().await.unwrap_err();
        let LockError::InvalidPermits { resource, reason } = &error else { panic!("{error}") };
        assert_eq!((resource.as_str(), reason.value, error.retry_after()), ("export", permits, None));
        assert_eq!(reason.to_string(), format!("permits must be between 1 and 100, got {permits}"));
    }
    assert_eq!(node.requests(), []);
}

/// Nodes that record their requests, and two managers.
async fn recorded() -> (Recorder<MemoryNode>, [LockManager; 2]) {
    let node = Recorder::new(MemoryNode::new());
    let connect = async || LockManager::builder().nodes([node.clone()]).wait(WAIT).connect().await.unwrap();
    let managers = [connect().await, connect().await];
    (node, managers)
}

// promise: permits
#[tokio::test(start_paused = true)]
async fn a_process_finds_its_own_slot_free_in_one_attempt() {
    let (node, [locks, _]) = recorded().await;
    let permit = held(&locks, 100).await;
    let slot = permit.slot();
    permit.release().await.unwrap();
    for _ in 0..5 {
        let permit = held(&locks, 100).await;
        assert_eq!(permit.slot(), slot);
        permit.release().await.unwrap();
    }
    assert_eq!(node.owners().len(), 6, "an attempt each");
}

// promise: permits
#[tokio::test(start_paused = true)]
async fn a_slot_that_is_free_is_found_at_the_second_attempt() {
    for wait in [WAIT, Duration::ZERO] {
        let (node, [locks, other]) = recorded().await;
        let slot = {
            let permit = held(&locks, 5).await;
            let slot = permit.slot();
            permit.release().await.unwrap();
            slot
        };
        // All but one are held, and the one that is tried first is among them.
        let mut held_by_other: Vec<_> = join_all((0..5).map(|_| held(&other, 5))).await;
        let free = held_by_other.iter().position(|permit| permit.slot() != slot).unwrap();
        let free = held_by_other.remove(free);
        let number = free.slot();
        free.release().await.unwrap();
        let before = node.owners().len();
        let permit = locks.permits("export", 5).wait(wait).acquire().await.unwrap();
        assert_eq!((permit.slot(), node.owners().len() - before), (number, 2));
    }
}

// promise: permits
#[tokio::test(start_paused = true)]
async fn a_waiter_of_another_process_gets_whichever_slot_is_released_first() {
    let cluster = MemoryCluster::new(5);
    let (holder, waiter) = (manager(&cluster).await, manager(&cluster).await);
    for released in 0..3 {
        let mut permits = join_all((0..3).map(|_| held(&holder, 3))).await;
        let waiting = tokio::spawn(waiter.permits("export", 3).acquire());
        sleep(Duration::from_secs(3)).await;
        assert!(!waiting.is_finished());
        let index = permits.iter().position(|permit| permit.slot() == Some(released)).unwrap();
        let began = Instant::now();
        drop(permits.remove(index));
        let permit = waiting.await.unwrap().unwrap();
        assert_eq!((permit.slot(), began.elapsed()), (Some(released), Duration::ZERO), "it was woken");
    }
}

// promise: permits
#[tokio::test(start_paused = true)]
async fn slots_that_are_released_together_go_to_different_processes() {
    let cluster = MemoryCluster::new(5);
    let holder = manager(&cluster).await;
    let permits = join_all((0..3).map(|_| held(&holder, 3))).await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let locks = manager(&cluster).await;
        waiting.push(tokio::spawn(async move { (held(&locks, 3).await, locks) }));
        sleep(Duration::from_secs(1)).await;
    }
    let began = Instant::now();
    drop(permits);
    let granted = join_all(waiting).await;
    assert_eq!(granted.len(), 3);
    assert_eq!(began.elapsed(), Duration::ZERO, "nobody waited for a reservation to pass");
}

// promise: permits
#[tokio::test(start_paused = true)]
async fn a_slot_is_handed_to_the_next_local_caller_without_a_request() {
    let (node, [locks, _]) = recorded().await;
    // The second reserves tokens for those that wait behind it.
    let first = held(&locks, 1).await;
    let waiting: Vec<_> = (0..4).map(|_| tokio::spawn(locks.permits("export", 1).acquire())).collect();
    sleep(WORK).await;
    let before = node.requests().iter().filter(|request| matches!(request, Operation::Release { .. })).count();
    drop(first);
    let mut tokens = Vec::new();
    for waiting in waiting {
        let permit = waiting.await.unwrap().unwrap();
        assert_eq!(permit.slot(), Some(0));
        tokens.push(permit.token());
    }
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    let released =
        node.requests().iter().filter(|request| matches!(request, Operation::Release { .. })).count() - before;
    assert!(released <= 3, "{released} releases for five holders");
}

// promise: permits
#[tokio::test(start_paused = true)]
async fn processes_take_turns_at_the_slots() {
    let (cluster, grants) = (MemoryCluster::new(5), Arc::new([const { AtomicUsize::new(0) }; 3]));
    let until = Instant::now() + Duration::from_secs(10);
    let mut callers = Vec::new();
    // The first process has many callers, the others have as many as it takes to wait always.
    for (process, count) in [20, 4, 4].into_iter().enumerate() {
        let locks = manager(&cluster).await;
        callers.extend((0..count).map(|caller| {
            let (locks, grants) = (locks.clone(), Arc::clone(&grants));
            tokio::spawn(async move {
                // Not handed over, and not all for the same time: processes that always begin to wait at once would be ordered
                // by their ids.
                for hold in (21..34).step_by(3).cycle().skip(caller) {
                    if Instant::now() >= until {
                        break;
                    }
                    let permit = held(&locks, 2).await;
                    grants[process].fetch_add(1, Ordering::Relaxed);
                    sleep(Duration::from_millis(hold)).await;
                    permit.release().await.unwrap();
                }
            })
        }));
    }
    join_all(callers).await.into_iter().for_each(Result::unwrap);
    let grants = [0, 1, 2].map(|process| grants[process].load(Ordering::Relaxed));
    let (least, most) = (grants.iter().min().unwrap(), grants.iter().max().unwrap());
    assert!(most * 2 <= least * 3, "{grants:?}");
    assert!(grants.iter().sum::<usize>() > 600, "of 740 that are possible: {grants:?}");
}

// promise: permits
#[tokio::test(start_paused = true)]
async fn while_clients_differ_at_most_the_largest_number_holds() {
    let (cluster, slots) = (MemoryCluster::new(5), Slots::new(4));
    let mut callers = Vec::new();
    for permits in [2, 4] {
        let locks = manager(&cluster).await;
        callers.extend((0..6).map(|_| tokio::spawn(cycles(locks.clone(), Arc::clone(&slots), permits, 20))));
    }
    join_all(callers).await.into_iter().for_each(Result::unwrap);
    assert!(slots.most() <= 4);
}

// promise: permits
#[tokio::test(start_paused = true)]
async fn nobody_has_a_slot_beyond_its_own_number_of_permits() {
    let cluster = MemoryCluster::new(5);
    let locks = manager(&cluster).await;
    let many = join_all((0..4).map(|_| held(&locks, 4))).await;
    let fewer = tokio::spawn(locks.permits("export", 2).acquire());
    sleep(WORK).await;
    let (low, high): (Vec<_>, Vec<_>) = many.into_iter().partition(|permit| permit.slot() < Some(2));
    drop(high);
    sleep(Duration::from_secs(2)).await;
    assert!(!fewer.is_finished());
    drop(low);
    assert!(fewer.await.unwrap().unwrap().slot() < Some(2));
}

// promise: permits
#[tokio::test(start_paused = true)]
async fn a_dropped_future_leaves_no_slot_and_no_waiter_behind() {
    for contended in [false, true] {
        for polls in 0..40 {
            let cluster = MemoryCluster::new(3);
            let (locks, other) = (manager(&cluster).await, manager(&cluster).await);
            let permits = if contended { join_all((0..2).map(|_| held(&other, 2))).await } else { Vec::new() };
            match poll_times(polls, locks.permits("export", 2).acquire()).await {
                // Granted, or the wait was over.
                Polled::Done(outcome) => drop(outcome),
                Polled::Dropped => {}
            }
            drop(permits);
            eventually("no key is left", || cluster.lock_keys().is_empty()).await;
            let began = Instant::now();
            drop(join_all((0..2).map(|_| held(&other, 2))).await);
            assert!(began.elapsed() < Duration::from_millis(200), "{polls} polls: {:?}", began.elapsed());
        }
    }
}

// promise: permits
#[tokio::test(start_paused = true)]
async fn a_slot_whose_holder_died_is_taken_when_its_time_to_live_is_over() {
    let cluster = MemoryCluster::new(5);
    let (dying, locks) = (manager(&cluster).await, manager(&cluster).await);
    let ttl = Duration::from_secs(3);
    let _kept = held(&locks, 2).await;
    std::mem::forget(dying.permits("export", 2).ttl(ttl).renew(false).acquire().await.unwrap());
    let began = Instant::now();
    let permit = held(&locks, 2).await;
    assert!(began.elapsed() < ttl + Duration::from_secs(1), "{:?}", began.elapsed());
    drop(permit);
}

/// A position that nobody has a use for would be called, and keep a slot from others for that time.
#[tokio::test(start_paused = true)]
async fn a_caller_that_wins_a_slot_leaves_no_position_on_a_node_that_refuses_it_late() {
    let cluster = MemoryCluster::new(5);
    let (holder, waiter) = (manager(&cluster).await, manager(&cluster).await);
    // Another owner has the key on a minority, and keeps it.
    let stray = Operation::Acquire {
        owner: OwnerId::from_bits(7),
        ttl: WAIT,
        hint: 1,
        tokens: 1,
        since: None,
        kind: Kind::Write,
    };
    for node in 3..5 {
        assert!(cluster.raw(node).await.send("export{0}", stray).await.is_ok());
    }
    let permit = held(&holder, 1).await;
    let waiting = tokio::spawn(waiter.permits("export", 1).acquire());
    sleep(WORK).await;
    cluster.nodes[3..].iter().for_each(|node| node.set_delay(5 * WORK));
    drop(permit);
    let next = waiting.await.unwrap().unwrap();
    sleep(20 * WORK).await;
    let report = waiter.inspect("export{0}").await.unwrap();
    assert!(report.nodes.iter().all(|node| node.waiters == 0), "{report:?}");
    assert!(next.is_valid());
}
