use std::sync::Arc;

use super::*;
use crate::node::{MemberId, Position};
use crate::random::Epoch;

const TTL: Duration = Duration::from_secs(1);
const A: OwnerId = OwnerId::from_bits(1);
const B: OwnerId = OwnerId::from_bits(2);

struct Fixture {
    store: Store,
    keys: LockKeys,
    now: Duration,
}

/// The write of a record of the first member there was.
fn write_of(expected: Option<(MemberId, u64)>, epoch: Option<Epoch>) -> RecordWrite {
    let member = MemberId { random: 1, micros: 1 };
    let record = NodeRecord {
        run_id: "run".into(),
        member,
        version: 0,
        was: None,
        epoch,
        roster: None,
        previous: Vec::new(),
        promised: None,
        accepted: None,
        quarantines: Vec::new(),
    };
    RecordWrite { expected, record, new_member: expected.is_none(), begin: vec![(member, TTL)], floor: None }
}

impl Fixture {
    fn new() -> Self {
        let keyspace = Arc::new(Keyspace::new("lock:"));
        let mut store = Store::new("run".into());
        let write = write_of(None, Some(Epoch::from_bits(7)));
        assert!(store.write_record(&keyspace, &write, 1).is_some());
        assert!(
            store.write_record(&keyspace, &write, 1).is_none(),
            "there is a record, and it is not the expected one"
        );
        Self { store, keys: LockKeys::new(&keyspace, "r"), now: Duration::ZERO }
    }

    fn request(&self, operation: Operation) -> Request {
        let (epoch, waiter) = (Epoch::from_bits(7), WaiterId::from_bits(1));
        Request { keys: self.keys.clone(), epoch, waiter, polls: false, operation }
    }

    fn execute(&mut self, operation: Operation) -> Result<Reply, NodeError> {
        let request = self.request(operation);
        self.store.execute(&request, self.now)
    }
}

#[test]
fn a_lock_is_granted_once_and_again_only_to_the_same_attempt() {
    let mut node = Fixture::new();
    let acquire = |owner| Operation::Acquire { owner, ttl: TTL, hint: 10, tokens: 1, since: None, mode: Mode::Write };
    assert_eq!(node.execute(acquire(A)), Ok(Reply::Granted { token: 10 }));
    assert_eq!(node.execute(acquire(A)), Ok(Reply::Granted { token: 10 }), "the same attempt again");
    assert_eq!(node.execute(acquire(B)), Ok(Reply::Held { remaining: Some(TTL), stranger: false, position: None }));
    node.now = TTL;
    assert_eq!(node.execute(acquire(B)), Ok(Reply::Granted { token: 11 }), "expired, and the token is larger");
    assert_eq!(node.execute(Operation::Release { owner: A, position: QueuePosition::None }), Ok(Reply::NotOwner));
    assert_eq!(node.execute(Operation::Release { owner: B, position: QueuePosition::None }), Ok(Reply::Released));
}

#[test]
fn a_waiter_that_comes_too_early_is_told_when_its_own_reservation_begins() {
    let mut node = Fixture::new();
    let acquire = |owner, since| Operation::Acquire { owner, ttl: TTL, hint: 0, tokens: 1, since, mode: Mode::Write };
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
    let acquire = |owner, since| Operation::Acquire { owner, ttl: TTL, hint: 0, tokens: 1, since, mode: Mode::Write };
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
    assert!(
        matches!(told, Reply::Held { position: Some(Position { ahead: 1, behind: 1, anew: false }), .. }),
        "{told:?}"
    );
    assert_eq!(node.look().waiters, 2);
}

#[test]
fn a_writer_behind_one_that_gives_up_bars_readers() {
    let mut node = Fixture::new();
    let attempt = |node: &mut Fixture, number: u64, waits: bool, mode: Mode| {
        let (owner, since) = (OwnerId::from_bits(number.into()), NonZeroU64::new(number).filter(|_| waits));
        let request = node.request(Operation::Acquire { owner, ttl: TTL, hint: 0, tokens: 1, since, mode });
        let request = Request { waiter: WaiterId::from_bits(number.into()), polls: true, ..request };
        node.store.execute(&request, node.now).unwrap()
    };
    node.execute(Operation::Acquire { owner: A, ttl: TTL, hint: 0, tokens: 1, since: None, mode: Mode::Write })
        .unwrap();
    for (number, mode) in [(4, Mode::Read), (5, Mode::Write), (6, Mode::Write)] {
        attempt(&mut node, number, true, mode);
    }
    node.execute(Operation::Release { owner: A, position: QueuePosition::None }).unwrap();
    assert!(matches!(attempt(&mut node, 4, true, Mode::Read), Reply::Granted { .. }));
    let leaves = Request { waiter: WaiterId::from_bits(5), polls: true, ..node.request(Operation::LeaveQueue) };
    node.store.execute(&leaves, node.now).unwrap();
    let late = attempt(&mut node, 7, false, Mode::Read);
    assert!(matches!(late, Reply::Held { .. }), "{late:?}");
}

#[test]
fn of_those_that_let_their_reservation_pass_only_the_silent_ones_lose_their_position() {
    let mut node = Fixture::new();
    let acquire = |owner, since| Operation::Acquire { owner, ttl: TTL, hint: 0, tokens: 1, since, mode: Mode::Write };
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
    assert!(
        matches!(late, Reply::Held { position: Some(Position { ahead: 0, behind: 2, anew: true }), .. }),
        "{late:?}"
    );
    assert!(matches!(attempt(&mut node, 7), Reply::Granted { .. }));
    node.execute(Operation::Release { owner: B, position: QueuePosition::None }).unwrap();
    let queue = node.store.queues.get_mut(node.keys.lock_key()).unwrap();
    assert_eq!(queue.reservation(None, node.now).map(|(first, _)| first), Some(WaiterId::from_bits(5)));
    node.now += Duration::from_millis(10);
    assert!(matches!(attempt(&mut node, 5), Reply::Granted { .. }));
    node.execute(Operation::Release { owner: B, position: QueuePosition::None }).unwrap();
    assert!(!node.store.queues.get_mut(node.keys.lock_key()).unwrap().expire(None, node.now), "6 never came");
}

#[test]
fn a_fence_that_is_used_up_grants_nothing() {
    let mut node = Fixture::new();
    let acquire = |hint| Operation::Acquire { owner: A, ttl: TTL, hint, tokens: 1, since: None, mode: Mode::Write };
    assert_eq!(node.execute(acquire(MAX_TOKEN)), Ok(Reply::Granted { token: MAX_TOKEN }));
    node.execute(Operation::Release { owner: A, position: QueuePosition::None }).unwrap();
    assert_eq!(node.execute(acquire(0)), Err(rejected("the fence is used up")));
}

#[test]
fn a_confirm_needs_the_key_and_a_token_that_is_not_lower() {
    let mut node = Fixture::new();
    node.execute(Operation::Acquire { owner: A, ttl: TTL, hint: 10, tokens: 1, since: None, mode: Mode::Write })
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
    node.execute(Operation::Acquire { owner: A, ttl: TTL, hint: 0, tokens: 1, since: None, mode: Mode::Write })
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
    let replace = Operation::Replace { owner: A, ttl: TTL, token: 20, mode: Mode::Write };
    assert_eq!(node.execute(replace), Ok(Reply::Kept));
    assert_eq!(node.execute(Operation::Release { owner: A, position: QueuePosition::None }), Ok(Reply::Released));
    assert_eq!(
        node.execute(Operation::Acquire { owner: B, ttl: TTL, hint: 0, tokens: 1, since: None, mode: Mode::Write }),
        Ok(Reply::Granted { token: 21 })
    );
    assert_eq!(node.execute(replace), Ok(Reply::Gone));
}

#[test]
fn a_node_in_another_epoch_or_without_one_executes_nothing() {
    let mut node = Fixture::new();
    let acquire = Operation::Acquire { owner: A, ttl: TTL, hint: 0, tokens: 1, since: None, mode: Mode::Write };
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
    assert_eq!(node.store.read_fences(&keyspace).unwrap().highest, 40);
    let acquire = Operation::Acquire { owner: A, ttl: TTL, hint: 3, tokens: 1, since: None, mode: Mode::Write };
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
            mode: Mode::Write,
        })
        .unwrap();
        node.now += TTL;
    }
    assert!(node.store.locks.len() <= SWEEP_INTERVAL + 2, "{}", node.store.locks.len());
}

const BARRED: Duration = Duration::from_secs(5);

impl Fixture {
    fn acquire(&mut self, owner: OwnerId) -> Reply {
        self.execute(Operation::Acquire { owner, ttl: TTL, hint: 0, tokens: 1, since: None, mode: Mode::Write })
            .unwrap()
    }

    fn evict(&mut self, owners: &[OwnerId], token: u64) -> Eviction {
        let (keys, epoch) = (self.keys.clone(), Epoch::from_bits(7));
        let holders = owners.iter().copied().map(Holder::Owner).collect();
        self.store.evict(&Evict { keys, epoch, holders, token, barred_for: BARRED }, self.now).unwrap()
    }

    fn look(&self) -> LockState {
        let look = Look { keys: vec![self.keys.clone()], epoch: None };
        self.store.look(&look, self.now).unwrap().remove(0)
    }
}

#[test]
fn an_evicted_owner_neither_acquires_nor_replaces_before_its_tombstone_expires() {
    let mut fixture = Fixture::new();
    fixture.acquire(A);
    assert_eq!(fixture.evict(&[A], 10), Eviction::Evicted { deleted: true });
    fixture.now = EVICTION_GAP;
    let late = Reply::Held { remaining: Some(Duration::ZERO), stranger: false, position: None };
    let replace = Operation::Replace { owner: A, ttl: TTL, token: 1, mode: Mode::Write };
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
    let held = Reply::Held { remaining: Some(EVICTION_GAP / 2), stranger: false, position: None };
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
