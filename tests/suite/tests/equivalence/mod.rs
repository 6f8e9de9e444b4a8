//! A node on a real server and the in-memory node give the same reply to every request of a random sequence.

mod cases;

use std::cell::Cell;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use lock_core::node::{
    Ballot, Epoch, Evict, Eviction, Holder, Inspection, Keyspace, LockKeys, LockState, Look, MemberId, NodeRecord,
    Operation, OwnerId, Quarantine, QueuePosition, RESERVATION_TTL, RecordWrite, Reply, ReplySender, Request, Roster,
    Seat, SetId, WaiterId, Wakeup, Wakeups,
};
use lock_core::{LockNode, MemoryNode, Mode, NodeError};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

pub(crate) use self::cases::*;

/// Long enough that nothing expires while a sequence runs.
const LONG: Duration = Duration::from_secs(1000);

#[derive(Clone, Debug)]
enum Action {
    /// Requests that are submitted together, each about one of three resources or two slots, in the present epoch or in an unknown one.
    Requests {
        present: bool,
        waiter: Waiter,
        operations: Vec<(usize, Operation)>,
    },
    /// All locks are looked at, in the present epoch, in an unknown one, or in any.
    Look(Option<bool>),
    /// Holders are evicted, in the present epoch or in an unknown one.
    Evict {
        resource: usize,
        present: bool,
        owners: Vec<OwnerId>,
        token: u64,
    },
    /// A new record.
    Write(RecordChange),
    ReadFences,
    Inspect,
}

/// A write of the record: what it expects, and what it changes.
#[derive(Clone, Copy, Debug)]
struct RecordChange {
    expects_present: bool,
    new_member: bool,
    votes: bool,
    has_roster: bool,
    begins_quarantine: bool,
    floor: Option<u64>,
}

fn owner() -> impl Strategy<Value = OwnerId> {
    (1_u128..5).prop_map(OwnerId::from_bits)
}

fn token() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..12, Just(1_700_000_000_000_000), Just((1 << 53) - 3)]
}

fn operation() -> impl Strategy<Value = Operation> {
    let (owner, token) = (owner(), token());
    let ttl = (1_u64..4).prop_map(|times| LONG * u32::try_from(times).unwrap());
    let since = (1_u64..6).prop_map(|since| NonZeroU64::new(since).unwrap());
    (0..14, owner, ttl, token, (1..4_u32, mode()), since).prop_map(
        |(kind, owner, ttl, token, (tokens, mode), since)| match kind {
            0 => Operation::Acquire { owner, ttl, hint: token, tokens, since: None, mode },
            1..4 => Operation::Acquire { owner, ttl, hint: token, tokens, since: Some(since), mode },
            4 => Operation::Confirm { owner, token },
            5 | 6 => Operation::Extend { owner, ttl },
            7 => Operation::Replace { owner, ttl, token, mode },
            8 => Operation::Release { owner, position: QueuePosition::None },
            9 => Operation::Release { owner, position: QueuePosition::Keep { since, mode } },
            10 => Operation::LeaveQueue,
            11 => Operation::Downgrade { owner, ttl },
            _ => Operation::Release { owner, position: QueuePosition::Leave },
        },
    )
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![2 => Just(Mode::Read), 1 => Just(Mode::Write)]
}

/// A process, and whether it says that it polls.
type Waiter = (WaiterId, bool);

/// How many locks the requests are about.
const LOCKS: usize = 5;

/// Which of them is the first that is a slot.
const FIRST_SLOT: usize = 3;

/// The operation on a slot: nobody reads those.
fn alone(operation: Operation) -> Operation {
    let mode = Mode::Write;
    match operation {
        Operation::Acquire { owner, ttl, hint, tokens, since, .. } => {
            Operation::Acquire { owner, ttl, hint, tokens, since, mode }
        }
        Operation::Replace { owner, ttl, token, .. } => Operation::Replace { owner, ttl, token, mode },
        Operation::Release { owner, position: QueuePosition::Keep { since, .. } } => {
            Operation::Release { owner, position: QueuePosition::Keep { since, mode } }
        }
        Operation::Downgrade { owner, ttl } => Operation::Extend { owner, ttl },
        other => other,
    }
}

/// How many processes wait in random sequences. The last does not listen.
const WAITERS: u128 = 5;

/// An action; so many requests are submitted together at most.
fn action(together: usize) -> impl Strategy<Value = Action> {
    let waiter = (1..=WAITERS, prop::bool::weighted(0.1)).prop_map(|(bits, polls)| (WaiterId::from_bits(bits), polls));
    let operation = (0..LOCKS, operation())
        .prop_map(|(resource, operation)| (resource, if resource < FIRST_SLOT { operation } else { alone(operation) }));
    let operations = prop::collection::vec(operation, 1..=together);
    let requests = (prop::bool::weighted(0.95), waiter, operations)
        .prop_map(|(present, waiter, operations)| Action::Requests { present, waiter, operations });
    let floor = prop::option::weighted(0.2, 1_u64..20);
    let write = (prop::bool::weighted(0.8), any::<[bool; 3]>(), prop::bool::weighted(0.8), floor).prop_map(
        |(expects_present, [new_member, has_roster, begins_quarantine], votes, floor)| {
            Action::Write(RecordChange { expects_present, new_member, votes, has_roster, begins_quarantine, floor })
        },
    );
    let look = prop::option::of(prop::bool::weighted(0.9)).prop_map(Action::Look);
    let evict = (0..LOCKS, prop::bool::weighted(0.95), prop::collection::vec(owner(), 0..3), token())
        .prop_map(|(resource, present, owners, token)| Action::Evict { resource, present, owners, token });
    prop_oneof![60 => requests, 4 => look, 6 => evict, 3 => write, 1 => Just(Action::ReadFences), 1 => Just(Action::Inspect)]
}

/// One of the two nodes under comparison.
struct Side {
    node: Box<dyn LockNode>,
    keyspace: Arc<Keyspace>,
    /// The first and the third share a fence; the last two, a queue.
    locks: [LockKeys; LOCKS],
    run_id: String,
}

impl Side {
    async fn new(node: impl LockNode, prefix: &str) -> Self {
        let keyspace = Arc::new(Keyspace::new(prefix));
        let run_id = node.inspect(&keyspace).await.unwrap().run_id;
        let fence = |resource: &str| LockKeys::new(&keyspace, resource).fence();
        let third = (0..).map(|suffix| format!("three-{suffix}")).find(|third| fence(third) == fence("one")).unwrap();
        let [one, two, third] = ["one", "two", &third].map(|resource| LockKeys::new(&keyspace, resource));
        let [first_slot, last_slot] = [0, 99].map(|slot| LockKeys::of_slot(&keyspace, "slots", slot));
        let locks = [one, two, third, first_slot, last_slot];
        Self { node: Box::new(node), keyspace, locks, run_id }
    }

    async fn send(&self, resource: usize, epoch: Epoch, operation: Operation) -> Result<Reply, NodeError> {
        self.send_together((WaiterId::from_bits(1), false), epoch, &[(resource, operation)]).await.remove(0)
    }

    async fn send_together(
        &self,
        (waiter, polls): Waiter,
        epoch: Epoch,
        operations: &[(usize, Operation)],
    ) -> Vec<Result<Reply, NodeError>> {
        let requests = operations.iter().map(|&(resource, operation)| {
            let (reply_to, reply) = ReplySender::channel();
            let keys = self.locks[resource].clone();
            ((Request { keys, epoch, waiter, polls, operation }, reply_to), reply)
        });
        let (requests, replies): (Vec<_>, Vec<_>) = requests.unzip();
        self.node.submit_all(requests);
        join_all(replies).await.into_iter().map(|reply| reply.map(without_time)).collect()
    }

    async fn look(&self, epoch: Option<Epoch>) -> Result<Vec<LockState>, NodeError> {
        let keys = self.locks.to_vec();
        let looked = self.node.look(Look { keys, epoch }).await?.into_iter();
        Ok(looked.map(without_times).collect())
    }

    async fn evict(
        &self,
        resource: usize,
        epoch: Epoch,
        owners: &[OwnerId],
        token: u64,
    ) -> Result<Eviction, NodeError> {
        let keys = self.locks[resource].clone();
        let holders = owners.iter().copied().map(Holder::Owner).collect();
        self.node.evict(Evict { keys, epoch, holders, token, barred_for: LONG }).await
    }

    /// The record at present, and when it was read.
    async fn present(&self) -> (Option<NodeRecord>, u64) {
        let Inspection { run_id, record, clock_micros, .. } = self.node.inspect(&self.keyspace).await.unwrap();
        assert_eq!(run_id, self.run_id);
        (record.get().cloned(), clock_micros)
    }

    /// Writes a record with this epoch. Returns what was written, without what depends on the clock.
    async fn write(&self, change: RecordChange, epoch: Epoch) -> Option<NodeRecord> {
        let (present, _) = self.present().await;
        let found = present.as_ref().map(|record| (record.member, record.version));
        let stale = (MemberId { random: 9, micros: 9 }, 9);
        let member = present.as_ref().map_or(MemberId { random: 1, micros: 1 }, |record| record.member);
        let seat = Seat { member, address: "a server".into() };
        let roster = Roster {
            set: SetId(5),
            generation: 3,
            max_ttl: Duration::from_secs(60),
            quarantine_ttl: LONG,
            formed_over: vec![SetId(3), SetId(4)],
            name: "a set".into(),
            seats: vec![Some(seat), None],
        };
        let ballot = Ballot { round: 2, proposer: 7 };
        let record = NodeRecord {
            run_id: self.run_id.clone(),
            member,
            version: 0,
            was: change.has_roster.then_some(member),
            epoch: change.votes.then_some(epoch),
            roster: change.has_roster.then(|| roster.clone()),
            previous: vec![member],
            promised: change.begins_quarantine.then_some(ballot),
            accepted: change.begins_quarantine.then_some((ballot, roster)),
            quarantines: Vec::new(),
        };
        let write = RecordWrite {
            expected: if change.expects_present { found } else { Some(stale) },
            record,
            new_member: change.new_member,
            begin: if change.begins_quarantine { vec![(member, LONG)] } else { Vec::new() },
            floor: change.floor,
        };
        let written = self.node.write_record(&self.keyspace, write).await.unwrap();
        let (stored, clock) = self.present().await;
        if let Some(written) = &written {
            assert_eq!(stored.as_ref(), Some(written), "what is stored is what was replied");
        }
        written.map(|record| without_clock(record, clock))
    }

    /// A record that votes in this epoch, whatever there is.
    async fn admit(&self, epoch: Epoch) {
        let change = RecordChange {
            expects_present: true,
            new_member: false,
            votes: true,
            has_roster: false,
            begins_quarantine: false,
            floor: None,
        };
        assert!(self.write(change, epoch).await.is_some());
    }

    /// The part of an inspection that must be the same on both.
    async fn inspect(&self) -> impl PartialEq + std::fmt::Debug + use<> {
        let Inspection { durable, .. } = self.node.inspect(&self.keyspace).await.unwrap();
        let (record, clock) = self.present().await;
        (durable, record.map(|record| without_clock(record, clock)))
    }

    /// The highest fence, and the part of the id that does not depend on the clock.
    async fn highest_fence(&self) -> Option<(u64, u64)> {
        let reading = self.node.read_fences(&self.keyspace).await.unwrap()?;
        Some((reading.member.random, reading.highest))
    }
}

/// A record with the parts that depend on the node's clock made comparable.
fn without_clock(record: NodeRecord, clock: u64) -> NodeRecord {
    let timeless = |member: MemberId| MemberId { micros: 0, ..member };
    let roster = |roster: Roster| {
        let seats = roster.seats.into_iter();
        let seats = seats.map(|seat| seat.map(|seat| Seat { member: timeless(seat.member), ..seat })).collect();
        Roster { seats, ..roster }
    };
    let left = |ends: u64| rounded(Duration::from_micros(ends.saturating_sub(clock))).as_secs();
    let quarantines = record.quarantines.into_iter();
    NodeRecord {
        run_id: String::new(),
        member: timeless(record.member),
        was: record.was.map(timeless),
        roster: record.roster.map(roster),
        previous: record.previous.into_iter().map(timeless).collect(),
        accepted: record.accepted.map(|(ballot, accepted)| (ballot, roster(accepted))),
        quarantines: quarantines.map(|q| Quarantine { member: timeless(q.member), ends: left(q.ends) }).collect(),
        ..record
    }
}

/// Each side has its own clock, so remaining times are compared in steps of 100 s.
fn rounded(remaining: Duration) -> Duration {
    Duration::from_secs((remaining.as_secs() + 30) / 100 * 100)
}

/// Which of two readers lives longer can differ by less than a millisecond, and so their order.
fn without_times(mut state: LockState) -> LockState {
    state.remaining = state.remaining.map(rounded);
    for reader in &mut state.readers {
        reader.remaining = rounded(reader.remaining);
    }
    state.readers.sort_by_key(|reader| reader.owner);
    state
}

fn without_time(reply: Reply) -> Reply {
    match reply {
        Reply::Held { remaining, stranger, position } => {
            Reply::Held { remaining: remaining.map(rounded), stranger, position }
        }
        reply => reply,
    }
}

/// What every process hears from a node.
struct Ears(Vec<Wakeups>);

impl Ears {
    /// The first processes listen.
    async fn of(side: &Side, listening: u128) -> Self {
        let mut ears = Vec::new();
        for waiter in 1..=listening {
            ears.push(side.node.wakeups(&side.keyspace, WaiterId::from_bits(waiter)).await.unwrap());
        }
        Self(ears)
    }

    /// The wake-ups of each process, lock by lock: requests about different locks that are submitted together may take effect in
    /// another order. Those that are expected and missing may still be on their way.
    async fn heard(&mut self, expected: &[Vec<Wakeup>]) -> Vec<Vec<Wakeup>> {
        let mut heard: Vec<Vec<Wakeup>> = Vec::new();
        for (ear, expected) in self.0.iter_mut().zip(expected) {
            let mut wakeups = Vec::new();
            let patience = |heard: usize| if heard < expected.len() { RESERVATION_TTL } else { Duration::ZERO };
            while let Ok(Some(wakeup)) = tokio::time::timeout(patience(wakeups.len()), ear.next()).await {
                wakeups.push(wakeup);
            }
            wakeups.sort_by(|one, other| one.lock_key.cmp(&other.lock_key));
            heard.push(wakeups);
        }
        heard
    }
}

/// The first difference between the replies, and between what the first `listening` processes hear. Nothing if the sequence took so
/// long that a reservation may have expired meanwhile.
async fn difference(node: impl LockNode, case: usize, listening: u128, actions: &[Action]) -> Option<String> {
    let prefix = format!("case-{case}:");
    let server = Side::new(node, &prefix).await;
    let memory = Side::new(MemoryNode::new(), &prefix).await;
    let (mut server_ears, mut memory_ears) = (Ears::of(&server, listening).await, Ears::of(&memory, listening).await);
    let mut epoch = Epoch::from_bits(1);
    let began = tokio::time::Instant::now();
    let report = |difference: String| (began.elapsed() < RESERVATION_TTL / 2).then_some(difference);
    for side in [&server, &memory] {
        assert_eq!(
            side.send(0, epoch, Operation::Release { owner: OwnerId::from_bits(1), position: QueuePosition::None })
                .await,
            Err(NodeError::Unadmitted)
        );
        side.admit(epoch).await;
    }
    let mut votes = true;
    for (step, action) in actions.iter().enumerate() {
        let case = format!("step {step}, {action:?}");
        let epoch_if = |present| if present && votes { epoch } else { Epoch::from_bits(u128::MAX) };
        match *action {
            Action::Look(present) => {
                let epoch = present.map(epoch_if);
                let (real, ours) = tokio::join!(server.look(epoch), memory.look(epoch));
                if real != ours {
                    return report(format!("{case}: {real:?}, not {ours:?}"));
                }
            }
            Action::Evict { resource, present, ref owners, token } => {
                let epoch = epoch_if(present);
                let real = server.evict(resource, epoch, owners, token).await;
                let ours = memory.evict(resource, epoch, owners, token).await;
                if real != ours {
                    return report(format!("{case}: {real:?}, not {ours:?}"));
                }
            }
            Action::Requests { present, waiter, ref operations } => {
                let epoch = epoch_if(present);
                let (real, ours) = tokio::join!(
                    server.send_together(waiter, epoch, operations),
                    memory.send_together(waiter, epoch, operations)
                );
                if real != ours {
                    return report(format!("{case}: {real:?}, not {ours:?}"));
                }
            }
            Action::Write(change) => {
                let next = Epoch::from_bits(1000 + step as u128);
                let real = server.write(change, next).await;
                assert_eq!(real, memory.write(change, next).await, "{case}");
                if real.is_some() {
                    (epoch, votes) = (next, change.votes);
                }
            }
            Action::ReadFences => {
                assert_eq!(server.highest_fence().await, memory.highest_fence().await, "{case}");
            }
            Action::Inspect => assert_eq!(server.inspect().await, memory.inspect().await, "{case}"),
        }
    }
    assert_eq!(server.inspect().await, memory.inspect().await);
    let in_time = began.elapsed() < RESERVATION_TTL / 2;
    let nothing = vec![Vec::new(); memory_ears.0.len()];
    let ours = memory_ears.heard(&nothing).await;
    let real = server_ears.heard(&ours).await;
    (in_time && real != ours).then(|| format!("wake-ups: {real:?}, not {ours:?}"))
}

/// Compares the nodes that `node` creates, one for each of so many sequences, with in-memory ones. So many requests are submitted
/// together at most.
pub(crate) fn compare<N: LockNode>(cases: u32, together: usize, node: impl Fn() -> N) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let case = Cell::new(0);
    let outcome = runner.run(&proptest::collection::vec(action(together), 1..60), |actions| {
        case.set(case.get() + 1);
        let difference = runtime.block_on(difference(node(), case.get(), WAITERS - 1, &actions));
        difference.map_or(Ok(()), |difference| Err(TestCaseError::fail(difference)))
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
