use std::num::NonZeroU64;
use std::time::Duration;

use super::{A, B, Fixture, TTL};
use crate::node::{Kind, Operation, Position, QueuePosition, Reply, Request};
use crate::random::{OwnerId, WaiterId};

#[test]
fn a_waiter_that_comes_too_early_is_told_when_its_own_reservation_begins() {
    let mut node = Fixture::new();
    let acquire = |owner, since| Operation::Acquire { owner, ttl: TTL, hint: 0, tokens: 1, since, kind: Kind::Write };
    let wait = |node: &mut Fixture, place: u64| {
        let request = node.request(acquire(B, NonZeroU64::new(place)));
        let request = Request { waiter: WaiterId::from_bits(place.into()), polls: true, ..request };
        match node.store.execute(&request, node.now) {
            Ok(Reply::Held { remaining, .. }) => remaining.unwrap().as_millis(),
            other => panic!("{other:?}"),
        }
    };
    node.execute(acquire(A, None)).unwrap();
    assert_eq!([5, 6, 7].map(|place| wait(&mut node, place)), [TTL.as_millis(); 3]);
    node.execute(Operation::Release { owner: A, position: QueuePosition::None }).unwrap();
    node.now = Duration::from_millis(30);
    assert_eq!([6, 7].map(|place| wait(&mut node, place)), [70, 170]);
    assert_eq!(wait(&mut node, 8), 270, "it came later, and has no reservation");
    node.now = Duration::from_millis(130);
    assert_eq!([5, 7].map(|place| wait(&mut node, place)), [170, 70], "the first let its reservation pass");
}

#[test]
fn a_waiter_is_told_its_position_before_those_that_do_not_listen_are_removed() {
    let mut node = Fixture::new();
    let acquire = |owner, since| Operation::Acquire { owner, ttl: TTL, hint: 0, tokens: 1, since, kind: Kind::Write };
    let attempt = |node: &mut Fixture, number: u64, polls: bool| {
        let request = node.request(acquire(B, NonZeroU64::new(number)));
        let request = Request { waiter: WaiterId::from_bits(number.into()), polls, ..request };
        node.store.execute(&request, node.now).unwrap()
    };
    node.execute(acquire(A, None)).unwrap();
    for (number, polls) in [(5, true), (6, true), (7, false)] {
        attempt(&mut node, number, polls);
    }
    // The key expires, and nobody has offered it.
    node.now = TTL;
    let told = attempt(&mut node, 6, true);
    assert!(matches!(told, Reply::Held { position: Some(Position { ahead: 1, anew: false }), .. }), "{told:?}");
    assert_eq!(node.look().waiters, 2);
}

#[test]
fn a_writer_behind_one_that_gives_up_bars_readers() {
    let mut node = Fixture::new();
    let attempt = |node: &mut Fixture, number: u64, waits: bool, kind: Kind| {
        let (owner, since) = (OwnerId::from_bits(number.into()), NonZeroU64::new(number).filter(|_| waits));
        let request = node.request(Operation::Acquire { owner, ttl: TTL, hint: 0, tokens: 1, since, kind });
        let request = Request { waiter: WaiterId::from_bits(number.into()), polls: true, ..request };
        node.store.execute(&request, node.now).unwrap()
    };
    node.execute(Operation::Acquire { owner: A, ttl: TTL, hint: 0, tokens: 1, since: None, kind: Kind::Write })
        .unwrap();
    for (number, kind) in [(4, Kind::Read), (5, Kind::Write), (6, Kind::Write)] {
        attempt(&mut node, number, true, kind);
    }
    node.execute(Operation::Release { owner: A, position: QueuePosition::None }).unwrap();
    assert!(matches!(attempt(&mut node, 4, true, Kind::Read), Reply::Granted { .. }));
    let leaves = Request { waiter: WaiterId::from_bits(5), polls: true, ..node.request(Operation::LeaveQueue) };
    node.store.execute(&leaves, node.now).unwrap();
    let late = attempt(&mut node, 7, false, Kind::Read);
    assert!(matches!(late, Reply::Held { .. }), "{late:?}");
}

#[test]
fn of_those_that_let_their_reservation_pass_only_the_silent_ones_lose_their_position() {
    let mut node = Fixture::new();
    let acquire = |owner, since| Operation::Acquire { owner, ttl: TTL, hint: 0, tokens: 1, since, kind: Kind::Write };
    let attempt = |node: &mut Fixture, number: u64| {
        let request = node.request(acquire(B, NonZeroU64::new(number)));
        let request = Request { waiter: WaiterId::from_bits(number.into()), polls: true, ..request };
        node.store.execute(&request, node.now).unwrap()
    };
    node.execute(acquire(A, None)).unwrap();
    for number in [5, 6, 7] {
        attempt(&mut node, number);
    }
    node.execute(Operation::Release { owner: A, position: QueuePosition::None }).unwrap();
    node.now = Duration::from_millis(230);
    let late = attempt(&mut node, 5);
    assert!(matches!(late, Reply::Held { position: Some(Position { ahead: 0, anew: true }), .. }), "{late:?}");
    assert!(matches!(attempt(&mut node, 7), Reply::Granted { .. }));
    node.execute(Operation::Release { owner: B, position: QueuePosition::None }).unwrap();
    let queue = node.store.waiting.queue_of(&node.keys);
    assert_eq!(queue.reservation(node.now).map(|(first, _)| first), Some(WaiterId::from_bits(5)));
    node.now += Duration::from_millis(10);
    assert!(matches!(attempt(&mut node, 5), Reply::Granted { .. }));
    node.execute(Operation::Release { owner: B, position: QueuePosition::None }).unwrap();
    assert!(!node.store.waiting.queue_of(&node.keys).expire(node.now), "6 never came");
}
