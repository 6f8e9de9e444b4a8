//! Single cases that random sequences do not have, or that take time.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::time::Duration;

use lock_core::node::{
    EVICTION_GAP, Epoch, Eviction, Holder, Operation, OwnerId, QueuePosition, RESERVATION_TTL, Reply, WaiterId, Wakeup,
};
use lock_core::{LockNode, MemoryNode, Mode};
use lock_support::eventually_async;
use tokio::time::Instant;

use super::{Action, Ears, FIRST_SLOT, LONG, Side, WAITERS, difference};

/// An acquire to write; one with 0 for `since` does not wait.
fn acquire(owner: u128, since: u64, hint: u64) -> Operation {
    let (owner, since, mode) = (OwnerId::from_bits(owner), NonZeroU64::new(since), Mode::Write);
    Operation::Acquire { owner, ttl: LONG, hint, tokens: 1, since, mode }
}

/// Few random sequences have this: a lock is kept for a reader, another one is put back, and a third joins that one.
pub(crate) async fn compare_joining_readers_of_a_kept_lock(node: impl LockNode) {
    let since = NonZeroU64::MIN;
    let release = |owner, position| Operation::Release { owner: OwnerId::from_bits(owner), position };
    let (kept, mode) = (QueuePosition::Keep { since, mode: Mode::Read }, Mode::Read);
    let put_back = Operation::Replace { owner: OwnerId::from_bits(1), ttl: LONG, token: 0, mode };
    let owner = OwnerId::from_bits(4);
    let joins = Operation::Acquire { owner, ttl: LONG, hint: 0, tokens: 1, since: Some(since), mode };
    let steps = [
        (1, release(1, kept)),
        (2, put_back),
        (2, joins),
        (1, release(4, QueuePosition::None)),
        (1, release(1, QueuePosition::None)),
    ];
    let actions = steps.map(|(waiter, operation)| Action::Requests {
        present: true,
        waiter: (WaiterId::from_bits(waiter), false),
        operations: vec![(1, operation)],
    });
    assert_eq!(difference(node, 0, WAITERS - 1, &actions).await, None);
}

/// No random sequence has a queue as long as this: a lock is released while the process that held it waits, and another process that
/// waits has ended.
pub(crate) async fn compare_offers_to_a_long_queue<N: LockNode>(node: impl Fn() -> N) {
    let listening = 11;
    // The clock is ahead of every fence.
    let acquire = |owner, since| acquire(owner, since, 10 * u64::try_from(owner).unwrap());
    let release = Operation::Release { owner: OwnerId::from_bits(1), position: QueuePosition::Leave };
    // The last does not listen.
    let with_ended = |at: u64| (1..=u64::try_from(listening).unwrap()).map(move |n| if n == at { 12 } else { n });
    let holders_and_ended = [(11, 0), (11, 1), (11, 2), (11, 4), (11, 9), (11, 11), (3, 0), (3, 2), (1, 5)];
    for (case, (holder, ended)) in holders_and_ended.into_iter().enumerate() {
        let holds = [(holder, acquire(1, 0))];
        let wait = with_ended(ended).zip(1..).map(|(waiter, since)| (waiter, acquire(1 + u128::from(since), since)));
        let requests =
            holds.into_iter().chain(wait).chain([(holder, release), (12, acquire(30, 0)), (2, acquire(31, 2))]);
        let actions: Vec<_> = requests
            .flat_map(|(waiter, operation)| {
                let waiter = (WaiterId::from_bits(waiter.into()), false);
                [Action::Requests { present: true, waiter, operations: vec![(1, operation)] }, Action::Look(Some(true))]
            })
            .collect();
        assert_eq!(difference(node(), case, listening, &actions).await, None, "{holder} held it, {ended} ended");
    }
}

/// A free lock is kept for a waiter that does not come, and then for the next: the first comes too late.
pub(crate) async fn compare_reservations_that_pass(node: impl LockNode) {
    let epoch = Epoch::from_bits(1);
    // Ahead of every fence, as the clock is.
    let hint = Cell::new(1);
    let acquire = |owner, since| acquire(owner, since, hint.replace(hint.get() + 1));
    let release = Operation::Release { owner: OwnerId::from_bits(9), position: QueuePosition::Leave };
    for side in [Side::new(node, "pass:").await, Side::new(MemoryNode::new(), "pass:").await] {
        side.admit(epoch).await;
        let _ears = Ears::of(&side, 2).await;
        let send = async |waiter, operation| {
            let waiter = (WaiterId::from_bits(waiter), false);
            side.send_together(waiter, epoch, &[(1, operation)]).await.remove(0).unwrap()
        };
        eventually_async("it is asked while it is kept for the second", async || {
            assert!(matches!(send(3, acquire(9, 0)).await, Reply::Granted { .. }));
            for waiter in 1..=2 {
                assert!(matches!(send(waiter.into(), acquire(1, waiter)).await, Reply::Held { .. }));
            }
            let released = tokio::time::Instant::now();
            assert_eq!(send(3, release).await, Reply::Released);
            let kept = tokio::time::Instant::now();
            tokio::time::sleep_until(kept + RESERVATION_TTL + Duration::from_millis(5)).await;
            let (first, second) = (send(1, acquire(7, 1)).await, send(2, acquire(8, 2)).await);
            if released.elapsed() >= 2 * RESERVATION_TTL {
                // It may have passed as well. Once more.
                for owner in [7, 8] {
                    let owner = OwnerId::from_bits(owner);
                    send(3, Operation::Release { owner, position: QueuePosition::None }).await;
                }
                for waiter in 1..=2 {
                    send(waiter, Operation::LeaveQueue).await;
                }
                return false;
            }
            assert!(matches!(first, Reply::Held { .. }), "{first:?}");
            assert!(matches!(second, Reply::Granted { .. }), "{second:?}");
            true
        })
        .await;
    }
}

/// A lock, a slot, or a lock that is read is granted to nobody for a moment when its holder was evicted, also if it is evicted again; and
/// then to anybody.
pub(crate) async fn compare_gaps_after_evictions<N: LockNode>(node: impl Fn() -> N) {
    for (lock, mode) in [(0, Mode::Write), (1, Mode::Read), (FIRST_SLOT, Mode::Write)] {
        let was_seen = async |case: usize| {
            let prefix = format!("gap-{lock}-{case}:");
            let (real, memory) = (Side::new(node(), &prefix).await, Side::new(MemoryNode::new(), &prefix).await);
            has_gap(&real, lock, mode).await && has_gap(&memory, lock, mode).await
        };
        let mut cases = 0..;
        eventually_async("the gap is seen in time", async || was_seen(cases.next().unwrap()).await).await;
    }
}

/// Returns false if it took so long that the gap may have been over.
async fn has_gap(side: &Side, lock: usize, mode: Mode) -> bool {
    let (epoch, id) = (Epoch::from_bits(1), OwnerId::from_bits);
    side.admit(epoch).await;
    let acquire =
        |owner: u128, mode| Operation::Acquire { owner: id(owner), ttl: LONG, hint: 0, tokens: 1, since: None, mode };
    let held = Reply::Held { remaining: Some(Duration::ZERO), stranger: false, position: None };
    let replace = |owner| Operation::Replace { owner: id(owner), ttl: LONG, token: 9, mode };
    let steps = [
        (acquire(1, mode), held),
        (acquire(2, Mode::Write), held),
        (acquire(3, mode), held),
        (replace(1), Reply::Gone),
        (replace(2), Reply::Gone),
        (Operation::Extend { owner: id(1), ttl: LONG }, Reply::Gone),
        (Operation::Confirm { owner: id(1), token: 99 }, Reply::Refused { fence: 50 }),
        (Operation::Release { owner: id(1), position: QueuePosition::Leave }, Reply::NotOwner),
    ];
    assert_eq!(side.send(lock, epoch, acquire(1, mode)).await, Ok(Reply::Granted { token: 1 }));
    let began = Instant::now();
    assert_eq!(side.evict(lock, epoch, &[id(1)], 50).await, Ok(Eviction::Evicted { deleted: true }));
    let operations = steps.map(|(operation, _)| (lock, operation));
    let replies = side.send_together((WaiterId::from_bits(1), false), epoch, &operations).await;
    let state = side.look(Some(epoch)).await.unwrap().swap_remove(lock);
    let again = [side.evict(lock, epoch, &[], 60).await, side.evict(lock, epoch, &[id(2)], 70).await];
    if began.elapsed() >= EVICTION_GAP {
        return false;
    }
    for ((operation, expected), reply) in steps.into_iter().zip(replies) {
        assert_eq!(reply, Ok(expected), "{operation:?}");
    }
    assert_eq!((state.holder, state.readers.len()), (Some(Holder::Owner(OwnerId::NOBODY)), 0));
    assert_eq!(
        again,
        [Ok(Eviction::Evicted { deleted: false }), Ok(Eviction::Evicted { deleted: false })],
        "nobody has it"
    );
    eventually_async("another owner acquires the lock", async || {
        side.send(lock, epoch, acquire(3, mode)).await == Ok(Reply::Granted { token: 71 })
    })
    .await;
    assert!(began.elapsed() >= EVICTION_GAP, "too early, after {:?}", began.elapsed());
    true
}

/// A lock of a node ends with its ttl, and not before, as that of an in-memory one.
pub(crate) async fn compare_ttls(node: impl LockNode) {
    let (short, long) = (Duration::from_millis(150), LONG);
    let acquire = |owner, ttl| Operation::Acquire {
        owner: OwnerId::from_bits(owner),
        ttl,
        hint: 0,
        tokens: 1,
        since: None,
        mode: Mode::Write,
    };
    let sides = [Side::new(node, "ttl:").await, Side::new(MemoryNode::new(), "ttl:").await];
    for side in sides {
        let epoch = Epoch::from_bits(1);
        side.admit(epoch).await;
        let granted = tokio::time::Instant::now();
        assert_eq!(side.send(0, epoch, acquire(1, short)).await, Ok(Reply::Granted { token: 1 }));
        assert_eq!(side.send(1, epoch, acquire(1, short)).await, Ok(Reply::Granted { token: 1 }));
        let extend = Operation::Extend { owner: OwnerId::from_bits(1), ttl: long };
        assert_eq!(side.send(1, epoch, extend).await, Ok(Reply::Kept));
        eventually_async("another owner acquires the lock", async || {
            side.send(0, epoch, acquire(2, long)).await == Ok(Reply::Granted { token: 2 })
        })
        .await;
        assert!(granted.elapsed() >= short, "expired early, after {:?}", granted.elapsed());
        assert_eq!(side.send(0, epoch, extend).await, Ok(Reply::Gone));
        assert_eq!(
            side.send(1, epoch, acquire(2, long)).await,
            Ok(Reply::Held { remaining: Some(long), stranger: false, position: None })
        );
    }
}

/// A release that the server refuses wakes nobody: the lock is still held.
#[allow(dead_code, reason = "the tests of PostgreSQL have the module, too, and no such release")]
pub(crate) async fn check_a_release_that_is_refused(node: impl LockNode, refuse_writes: impl AsyncFnOnce()) {
    let (side, epoch) = (Side::new(node, "refused:").await, Epoch::from_bits(1));
    side.admit(epoch).await;
    let mut ears = Ears::of(&side, 1).await;
    let send = async |waiter, operation| {
        side.send_together((WaiterId::from_bits(waiter), false), epoch, &[(1, operation)]).await.remove(0)
    };
    assert_eq!(send(2, acquire(9, 0, 0)).await, Ok(Reply::Granted { token: 1 }));
    assert!(matches!(send(1, acquire(1, 1, 0)).await, Ok(Reply::Held { .. })));
    refuse_writes().await;
    let release = Operation::Release { owner: OwnerId::from_bits(9), position: QueuePosition::Leave };
    assert!(send(2, release).await.is_err());
    let waits_a_while = [vec![Wakeup { lock_key: String::new(), before: 0 }]];
    assert_eq!(ears.heard(&waits_a_while).await, [Vec::new()]);
}
