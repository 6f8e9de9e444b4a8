use std::sync::Arc;
use std::time::Duration;

use super::{A, B, BARRED, Fixture, TTL, write_of};
use crate::node::limits::MAX_TOKEN;
use crate::node::limits::used_up;
use crate::node::memory::store::SWEEP_INTERVAL;
use crate::node::{
    EVICTION_GAP, Eviction, Holder, Keyspace, Kind, LockKeys, MemberId, NodeError, Operation, QueuePosition,
    RecordWrite, Reply, Request,
};
use crate::random::Epoch;

#[test]
fn a_lock_is_granted_once_and_again_only_to_the_same_attempt() {
    let mut node = Fixture::new();
    let acquire = |owner| Operation::Acquire { owner, ttl: TTL, hint: 10, tokens: 1, since: None, kind: Kind::Write };
    assert_eq!(node.execute(acquire(A)), Ok(Reply::Granted { token: 10 }));
    assert_eq!(node.execute(acquire(A)), Ok(Reply::Granted { token: 10 }), "the same attempt again");
    assert_eq!(
        node.execute(acquire(B)),
        Ok(Reply::Held { remaining: Some(TTL), stranger: false, position: None, offer: None })
    );
    node.now = TTL;
    assert_eq!(node.execute(acquire(B)), Ok(Reply::Granted { token: 11 }), "expired, and the token is larger");
    assert_eq!(node.execute(Operation::Release { owner: A, position: QueuePosition::None }), Ok(Reply::NotOwner));
    assert_eq!(node.execute(Operation::Release { owner: B, position: QueuePosition::None }), Ok(Reply::Released));
}

#[test]
fn a_fence_that_is_used_up_grants_nothing() {
    let mut node = Fixture::new();
    let acquire = |hint| Operation::Acquire { owner: A, ttl: TTL, hint, tokens: 1, since: None, kind: Kind::Write };
    assert_eq!(node.execute(acquire(MAX_TOKEN)), Ok(Reply::Granted { token: MAX_TOKEN }));
    node.execute(Operation::Release { owner: A, position: QueuePosition::None }).unwrap();
    assert_eq!(node.execute(acquire(0)), Err(used_up()));
}

#[test]
fn a_confirm_needs_the_key_and_a_token_that_is_not_lower() {
    let mut node = Fixture::new();
    node.execute(Operation::Acquire { owner: A, ttl: TTL, hint: 10, tokens: 1, since: None, kind: Kind::Write })
        .unwrap();
    assert_eq!(node.execute(Operation::Confirm { owner: A, token: 9 }), Ok(Reply::Refused { fence: 10 }));
    assert_eq!(node.execute(Operation::Confirm { owner: B, token: 11 }), Ok(Reply::Refused { fence: 10 }));
    assert_eq!(node.execute(Operation::Confirm { owner: A, token: 10 }), Ok(Reply::Confirmed));
    assert_eq!(node.execute(Operation::Confirm { owner: A, token: 12 }), Ok(Reply::Confirmed));
}

#[test]
fn an_extend_never_shortens_and_never_creates() {
    let mut node = Fixture::new();
    assert_eq!(node.execute(Operation::Extend { owner: A, ttl: TTL }), Ok(Reply::Gone));
    node.execute(Operation::Acquire { owner: A, ttl: TTL, hint: 0, tokens: 1, since: None, kind: Kind::Write })
        .unwrap();
    assert_eq!(node.execute(Operation::Extend { owner: A, ttl: TTL / 2 }), Ok(Reply::Kept));
    node.now = TTL * 3 / 4;
    assert_eq!(node.execute(Operation::Extend { owner: A, ttl: TTL }), Ok(Reply::Kept));
    node.now = TTL * 3 / 2;
    assert_eq!(node.execute(Operation::Extend { owner: B, ttl: TTL }), Ok(Reply::Gone));
    assert_eq!(node.execute(Operation::Extend { owner: A, ttl: TTL }), Ok(Reply::Kept));
}

#[test]
fn a_replace_fills_a_gap_and_never_touches_another_owner() {
    let mut node = Fixture::new();
    let replace = Operation::Replace { owner: A, ttl: TTL, token: 20, kind: Kind::Write };
    assert_eq!(node.execute(replace), Ok(Reply::Kept));
    assert_eq!(node.execute(Operation::Release { owner: A, position: QueuePosition::None }), Ok(Reply::Released));
    assert_eq!(
        node.execute(Operation::Acquire { owner: B, ttl: TTL, hint: 0, tokens: 1, since: None, kind: Kind::Write }),
        Ok(Reply::Granted { token: 21 })
    );
    assert_eq!(node.execute(replace), Ok(Reply::Gone));
}

#[test]
fn a_node_in_another_epoch_or_without_one_executes_nothing() {
    let mut node = Fixture::new();
    let acquire = Operation::Acquire { owner: A, ttl: TTL, hint: 0, tokens: 1, since: None, kind: Kind::Write };
    let request = Request { epoch: Epoch::from_bits(8), ..node.request(acquire) };
    assert_eq!(node.store.execute(&request, node.now), Err(NodeError::Unadmitted));
    let member = MemberId { random: 1, micros: 1 };
    let keyspace = Keyspace::new("lock:");
    assert!(node.store.write_record(&keyspace, &write_of(Some((member, 1)), None), 2).is_some());
    assert_eq!(node.execute(acquire), Err(NodeError::Unadmitted));
}

#[test]
fn a_record_is_completed_by_the_node() {
    let mut node = Fixture::new();
    let keyspace = Keyspace::new("lock:");
    let expected = Some((MemberId { random: 1, micros: 1 }, 1));
    let write = RecordWrite { floor: Some(40), ..write_of(expected, Some(Epoch::from_bits(7))) };
    let record = node.store.write_record(&keyspace, &write, 5).unwrap();
    assert_eq!((record.version, record.quarantines[0].ends), (2, 5 + 1_000_000));
    assert_eq!(node.store.ledger.records.highest_fence(&keyspace, "run").unwrap().highest, 40);
    let acquire = Operation::Acquire { owner: A, ttl: TTL, hint: 3, tokens: 1, since: None, kind: Kind::Write };
    assert_eq!(node.execute(acquire), Ok(Reply::Granted { token: 41 }), "every fence is at the floor at least");
}

#[test]
fn expired_keys_are_swept() {
    let mut node = Fixture::new();
    for n in 0..SWEEP_INTERVAL * 2 {
        node.keys = LockKeys::new(&Arc::new(Keyspace::new("lock:")), &format!("r{n}"));
        node.execute(Operation::Acquire {
            owner: A,
            ttl: Duration::from_micros(1),
            hint: 0,
            tokens: 1,
            since: None,
            kind: Kind::Write,
        })
        .unwrap();
        node.now += TTL;
    }
    assert!(node.store.ledger.count() <= SWEEP_INTERVAL + 2, "{}", node.store.ledger.count());
}

#[test]
fn an_evicted_owner_neither_acquires_nor_replaces_before_its_tombstone_expires() {
    let mut fixture = Fixture::new();
    fixture.acquire(A);
    assert_eq!(fixture.evict(&[A], 10), Eviction::Evicted { deleted: true });
    fixture.now = EVICTION_GAP;
    let late = Reply::Held { remaining: Some(Duration::ZERO), stranger: false, position: None, offer: None };
    let replace = Operation::Replace { owner: A, ttl: TTL, token: 1, kind: Kind::Write };
    assert_eq!((fixture.acquire(A), fixture.execute(replace)), (late, Ok(Reply::Gone)));
    assert_eq!(fixture.look().evicted, [A]);
    fixture.now = BARRED;
    assert_eq!(fixture.execute(replace), Ok(Reply::Kept));
    assert_eq!(fixture.look().evicted, []);
}

#[test]
fn an_eviction_leaves_a_successor_alone() {
    let mut fixture = Fixture::new();
    fixture.acquire(B);
    let before = fixture.look();
    assert_eq!(fixture.evict(&[A], 10), Eviction::Superseded);
    assert_eq!(fixture.look(), before);
}

#[test]
fn an_eviction_takes_a_token_that_no_node_has_assigned() {
    let mut fixture = Fixture::new();
    fixture.acquire(A);
    assert_eq!(fixture.evict(&[A], 1), Eviction::Refused { fence: 1 });
    assert_eq!(fixture.look().holder, Some(Holder::Owner(A)));
    assert_eq!(fixture.evict(&[A], 2), Eviction::Evicted { deleted: true });
    fixture.now = EVICTION_GAP;
    assert_eq!(fixture.acquire(B), Reply::Granted { token: 3 });
}

#[test]
fn an_evicted_lock_is_granted_to_nobody_for_a_moment_however_often_it_is_evicted() {
    let mut fixture = Fixture::new();
    fixture.acquire(A);
    assert_eq!(fixture.evict(&[A], 10), Eviction::Evicted { deleted: true });
    fixture.now = EVICTION_GAP / 2;
    assert_eq!(fixture.evict(&[], 20), Eviction::Evicted { deleted: false });
    let held = Reply::Held { remaining: Some(EVICTION_GAP / 2), stranger: false, position: None, offer: None };
    assert_eq!(fixture.acquire(B), held);
    fixture.now = EVICTION_GAP;
    assert_eq!(fixture.acquire(B), Reply::Granted { token: 21 });
}

#[test]
fn a_second_eviction_forgets_nobody_of_the_first() {
    let mut fixture = Fixture::new();
    fixture.acquire(A);
    fixture.evict(&[A], 10);
    fixture.now = BARRED / 2;
    fixture.acquire(B);
    fixture.evict(&[B], 20);
    assert_eq!(fixture.look().evicted, [A, B]);
    fixture.now = BARRED;
    assert_eq!(fixture.look().evicted, [A, B]);
}
