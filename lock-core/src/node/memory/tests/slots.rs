use std::num::NonZeroU64;
use std::time::Duration;

use tokio::sync::mpsc;

use super::{BARRED, Fixture, TTL};
use crate::node::{
    Evict, Holder, Kind, LockKeys, Operation, QueuePosition, RESERVATION_TTL, Reply, Request, SlotOffer, Slots, Wakeup,
};
use crate::random::{Epoch, OwnerId, WaiterId};

/// Two slots that a process holds which waits for none, and processes that listen.
struct Slotted {
    node: Fixture,
    slots: [LockKeys; 2],
    ears: Vec<mpsc::Receiver<Wakeup>>,
}

const HOLDER: u64 = 9;

impl Slotted {
    fn new(listening: u64) -> Self {
        let mut node = Fixture::new();
        let slots = [0, 1].map(|slot| LockKeys::of_slot(node.keys.keyspace(), "r", slot));
        let ears =
            (1..=listening).map(|waiter| node.store.waiting.listen(WaiterId::from_bits(waiter.into()))).collect();
        let mut slotted = Self { node, slots, ears };
        for slot in [0, 1] {
            assert!(matches!(slotted.acquire(HOLDER, slot, None, 2), Reply::Granted { .. }));
        }
        slotted
    }

    fn ask(&mut self, waiter: u64, slot: usize, operation: Operation) -> Reply {
        let request = self.node.request(operation);
        let (keys, waiter) = (self.slots[slot].clone(), WaiterId::from_bits(waiter.into()));
        self.node.store.execute(&Request { keys, waiter, ..request }, self.node.now).unwrap()
    }

    fn acquire(&mut self, waiter: u64, slot: usize, since: Option<u64>, of: u32) -> Reply {
        let (since, owner) = (since.and_then(NonZeroU64::new), owner(waiter, slot));
        self.ask(
            waiter,
            slot,
            Operation::Acquire { owner, ttl: TTL, hint: 0, tokens: 1, since, kind: Kind::Permit { of } },
        )
    }

    /// A waiter with this number, which is also when it began to wait, asks for one of this many slots.
    fn wait(&mut self, waiter: u64, slot: usize, of: u32) -> Reply {
        self.acquire(waiter, slot, Some(waiter), of)
    }

    fn release(&mut self, waiter: u64, slot: usize, position: QueuePosition) {
        self.ask(waiter, slot, Operation::Release { owner: owner(waiter, slot), position });
    }

    /// What a waiter heard: how many come before it, the slot, and which are free.
    fn heard(&mut self, waiter: usize) -> Vec<(u32, String, Vec<u32>)> {
        let ear = &mut self.ears[waiter - 1];
        let heard = std::iter::from_fn(|| ear.try_recv().ok());
        heard.map(|Wakeup { before, lock_key, free }| (before, lock_key, free.iter().collect())).collect()
    }
}

fn owner(waiter: u64, slot: usize) -> OwnerId {
    OwnerId::from_bits(u128::from(waiter) * 10 + slot as u128)
}

fn called(slot: u32, free: &[u32]) -> (u32, String, Vec<u32>) {
    (0, format!("lock:r{{{slot}}}"), free.to_vec())
}

fn offer(reply: Reply) -> Option<SlotOffer> {
    if let Reply::Held { offer, .. } = reply { offer } else { panic!("{reply:?}") }
}

fn offered(proposed: u32, free: &[u32]) -> Option<SlotOffer> {
    Some(SlotOffer { proposed, free: free.iter().copied().collect::<Slots>() })
}

#[test]
fn the_first_waiters_may_take_any_of_the_slots_that_are_free() {
    let mut node = Slotted::new(3);
    for waiter in [1, 2, 3] {
        assert_eq!(offer(node.wait(waiter, 0, 2)), None, "no slot is free");
    }
    node.release(HOLDER, 1, QueuePosition::None);
    assert_eq!(node.heard(1), [called(1, &[1])]);
    assert_eq!(node.heard(2), [(1, "lock:r{0}".to_owned(), vec![])], "in 100 ms");
    node.release(HOLDER, 0, QueuePosition::None);
    assert_eq!(node.heard(1), [called(0, &[0, 1])], "told of the other slot, too");
    assert_eq!(node.heard(2), [called(1, &[0, 1])]);
    assert_eq!(offer(node.wait(3, 0, 2)), None, "two come before");
    // Each takes the slot that is proposed to the other.
    assert!(matches!(node.wait(2, 0, 2), Reply::Granted { .. }));
    assert_eq!(node.heard(1).last(), Some(&called(1, &[1])));
    assert!(matches!(node.wait(1, 1, 2), Reply::Granted { .. }));
    assert_eq!(offer(node.wait(3, 0, 2)), None);
}

#[test]
fn a_waiter_that_does_not_come_is_passed_and_the_others_are_not_held_up() {
    let mut node = Slotted::new(3);
    for waiter in [1, 2, 3] {
        node.wait(waiter, 0, 2);
    }
    node.release(HOLDER, 0, QueuePosition::None);
    node.release(HOLDER, 1, QueuePosition::None);
    assert!(matches!(node.wait(2, 1, 2), Reply::Granted { .. }));
    assert_eq!(offer(node.wait(3, 0, 2)), None, "the first may still come");
    node.node.now += RESERVATION_TTL;
    assert!(matches!(node.wait(3, 0, 2), Reply::Granted { .. }));
    let late = node.wait(1, 0, 2);
    assert!(matches!(late, Reply::Held { position: Some(position), .. } if position.anew && position.ahead == 0));
}

#[test]
fn nobody_is_offered_a_slot_beyond_its_number_of_permits_nor_kept_from_its_only_one() {
    let mut node = Slotted::new(2);
    node.wait(1, 0, 2);
    node.wait(2, 0, 1);
    node.release(HOLDER, 1, QueuePosition::None);
    assert_eq!((node.heard(1), node.heard(2).len()), (vec![called(1, &[1])], 1));
    node.release(HOLDER, 0, QueuePosition::None);
    assert_eq!(node.heard(1), [called(0, &[0, 1])]);
    assert_eq!(node.heard(2), [], "the slot that it may have is proposed to another");
    assert!(matches!(node.wait(1, 1, 2), Reply::Granted { .. }));
    assert_eq!(node.heard(2), [called(0, &[0])]);

    let mut node = Slotted::new(2);
    node.wait(1, 0, 1);
    node.wait(2, 0, 2);
    node.release(HOLDER, 0, QueuePosition::None);
    node.release(HOLDER, 1, QueuePosition::None);
    assert_eq!(offer(node.wait(2, 0, 2)), offered(1, &[0, 1]), "the first can have no other");
    assert!(matches!(node.wait(2, 1, 2), Reply::Granted { .. }));
}

#[test]
fn a_release_that_keeps_the_position_calls_anew() {
    let mut node = Slotted::new(1);
    node.wait(1, 0, 2);
    node.release(HOLDER, 0, QueuePosition::None);
    assert_eq!(node.heard(1), [called(0, &[0])]);
    let keep = QueuePosition::Keep { since: NonZeroU64::MIN, kind: Kind::Permit { of: 2 } };
    node.release(1, 1, keep);
    assert_eq!(node.heard(1), [called(0, &[0])]);
}

#[test]
fn a_caller_that_does_not_wait_passes_nobody_and_hears_what_is_free() {
    let mut node = Slotted::new(1);
    node.release(HOLDER, 1, QueuePosition::None);
    assert_eq!(offer(node.acquire(2, 0, None, 2)), offered(1, &[1]));
    node.wait(1, 0, 2);
    assert_eq!(offer(node.acquire(2, 1, None, 2)), None);
    node.ask(1, 0, Operation::LeaveQueue);
    assert!(matches!(node.acquire(2, 1, None, 2), Reply::Granted { .. }));
}

#[test]
fn a_waiter_that_nobody_listens_for_leaves_the_queue() {
    let mut node = Slotted::new(2);
    node.ears.remove(0);
    node.wait(1, 0, 2);
    node.wait(2, 0, 2);
    node.release(HOLDER, 1, QueuePosition::None);
    let heard = std::iter::from_fn(|| node.ears[0].try_recv().ok()).count();
    assert_eq!(heard, 1, "in the place of the first");
    assert!(matches!(node.wait(2, 1, 2), Reply::Granted { .. }));
}

#[test]
fn the_waiters_are_told_of_an_eviction_and_again_when_the_slot_is_free() {
    let mut node = Slotted::new(1);
    node.wait(1, 0, 2);
    let evict = Evict {
        keys: node.slots[1].clone(),
        epoch: Epoch::from_bits(7),
        holders: vec![Holder::Owner(owner(HOLDER, 1))],
        token: 100,
        barred_for: BARRED,
    };
    node.node.store.evict(&evict, Duration::ZERO).unwrap();
    assert_eq!(node.heard(1), [called(1, &[1])]);
    assert_eq!(offer(node.wait(1, 1, 2)), None, "not yet");
    node.node.now += crate::node::EVICTION_GAP;
    assert!(matches!(node.wait(1, 1, 2), Reply::Granted { .. }));
}

#[test]
fn a_slot_that_is_put_back_is_offered_to_nobody() {
    let mut node = Slotted::new(2);
    node.wait(1, 0, 2);
    node.wait(2, 0, 2);
    node.release(HOLDER, 0, QueuePosition::None);
    node.release(HOLDER, 1, QueuePosition::None);
    assert_eq!(node.heard(2).last(), Some(&called(1, &[0, 1])));
    let replace = Operation::Replace { owner: owner(8, 0), ttl: TTL, token: 5, kind: Kind::Permit { of: 2 } };
    assert_eq!(node.ask(8, 0, replace), Reply::Kept);
    assert_eq!(node.heard(1).last(), Some(&called(1, &[1])));
    assert_eq!(offer(node.wait(2, 1, 2)), None);
}
