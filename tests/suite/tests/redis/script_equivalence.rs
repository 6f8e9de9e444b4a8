//! The scripts on a real server and the in-memory node give the same reply to every request.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use lock_core::node::{
    Epoch, Establish, Inspection, Keyspace, LockKeys, Operation, OwnerId, QueuePosition, RESERVATION_TTL, Reply,
    Request, SetConfig, WaiterId, Wakeup, WakeupKind,
};
use lock_core::{LockNode, MemoryNode, NodeError, RedisNode};
use lock_support::{RedisServer, ask, eventually_async};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

/// Long enough that nothing expires while a sequence runs.
const LONG: Duration = Duration::from_secs(1000);

#[derive(Clone, Debug)]
enum Action {
    /// A request about one of three resources, in the present epoch or in an unknown one.
    Request {
        resource: usize,
        present: bool,
        waiter: WaiterId,
        operation: Operation,
    },
    /// A new record, which expects the present one or none; perhaps with a quarantine.
    Establish {
        expected: bool,
        quarantine: bool,
        max_ttl: u64,
    },
    Inspect,
}

fn operation() -> impl Strategy<Value = Operation> {
    let owner = (1_u128..4).prop_map(OwnerId::from_bits);
    let ttl = (1_u64..4).prop_map(|times| LONG * u32::try_from(times).unwrap());
    let token = prop_oneof![0_u64..12, Just(1_700_000_000_000_000), Just((1 << 53) - 3)];
    let since = (1_u64..6).prop_map(|since| NonZeroU64::new(since).unwrap());
    (0..11, owner, ttl, token, 1..4_u32, since).prop_map(|(kind, owner, ttl, token, tokens, since)| match kind {
        0 => Operation::Acquire { owner, ttl, hint: token, tokens, since: None },
        1 | 2 => Operation::Acquire { owner, ttl, hint: token, tokens, since: Some(since) },
        3 => Operation::Confirm { owner, token },
        4 => Operation::Extend { owner, ttl },
        5 => Operation::Replace { owner, ttl, token },
        6 => Operation::Release { owner, position: QueuePosition::None },
        7 => Operation::Release { owner, position: QueuePosition::Keep(since) },
        8 => Operation::LeaveQueue,
        _ => Operation::Release { owner, position: QueuePosition::Leave },
    })
}

/// How many processes wait.
const WAITERS: u128 = 3;

fn action() -> impl Strategy<Value = Action> {
    let waiter = (1..=WAITERS).prop_map(WaiterId::from_bits);
    let request = (0..3_usize, prop::bool::weighted(0.95), waiter, operation())
        .prop_map(|(resource, present, waiter, operation)| Action::Request { resource, present, waiter, operation });
    let establish = (any::<bool>(), prop::bool::weighted(0.2), 1..3_u64)
        .prop_map(|(expected, quarantine, max_ttl)| Action::Establish { expected, quarantine, max_ttl });
    prop_oneof![30 => request, 1 => establish, 1 => Just(Action::Inspect)]
}

/// One of the two nodes under comparison.
struct Side {
    node: Box<dyn LockNode>,
    keyspace: Arc<Keyspace>,
    /// The first and the last share a fence.
    resources: [String; 3],
    run_id: String,
}

impl Side {
    async fn new(node: impl LockNode, prefix: &str) -> Self {
        let keyspace = Arc::new(Keyspace::new(prefix));
        let run_id = node.inspect(&keyspace).await.unwrap().run_id;
        let fence = |resource: &str| LockKeys::new(&keyspace, resource).fence();
        let third = (0..).map(|suffix| format!("three-{suffix}")).find(|third| fence(third) == fence("one")).unwrap();
        let resources = ["one".to_owned(), "two".to_owned(), third];
        Self { node: Box::new(node), keyspace, resources, run_id }
    }

    async fn send(&self, resource: usize, epoch: Epoch, operation: Operation) -> Result<Reply, NodeError> {
        self.send_as(WaiterId::from_bits(1), resource, epoch, operation).await
    }

    async fn send_as(
        &self,
        waiter: WaiterId,
        resource: usize,
        epoch: Epoch,
        operation: Operation,
    ) -> Result<Reply, NodeError> {
        let keys = LockKeys::new(&self.keyspace, &self.resources[resource]);
        ask(&self.node, Request { keys, epoch, waiter, operation }).await.map(without_time).map_err(|error| match error
        {
            NodeError::Quarantined { remaining } => NodeError::Quarantined { remaining: rounded(remaining) },
            error => error,
        })
    }

    async fn establish(&self, expected: Option<Epoch>, epoch: Epoch, quarantine: Duration, max_ttl: u64) -> bool {
        let max_ttl = Duration::from_millis(max_ttl);
        let config = SetConfig { format: SetConfig::FORMAT, nodes: 3, max_ttl, name: "a set".into() };
        let record = Establish { expected, run_id: self.run_id.clone(), epoch, config, quarantine };
        let established = self.node.establish(&self.keyspace, record).await.unwrap();
        // A node takes requests only in an epoch that an inspection has found.
        self.node.inspect(&self.keyspace).await.unwrap();
        established
    }

    /// The part of an inspection that must be the same on both.
    async fn inspect(&self) -> impl PartialEq + std::fmt::Debug + use<> {
        let Inspection { run_id, role, eviction_policy, durable, record, quarantine, .. } =
            self.node.inspect(&self.keyspace).await.unwrap();
        assert_eq!(run_id, self.run_id);
        let record = record.map(|record| (record.run_id == run_id, record.epoch, record.config));
        (role, eviction_policy, durable, record, quarantine.map(rounded))
    }
}

/// Each side has its own clock, so remaining times are compared in steps of 100 s.
fn rounded(remaining: Duration) -> Duration {
    Duration::from_secs((remaining.as_secs() + 30) / 100 * 100)
}

fn without_time(reply: Reply) -> Reply {
    match reply {
        Reply::Held { remaining } => Reply::Held { remaining: remaining.map(rounded) },
        reply => reply,
    }
}

/// The wake-ups of each process on the in-memory node, in the format of the script.
fn wakeups(side: &Side) -> Vec<Vec<String>> {
    let of = |waiter| {
        let wakeups = side.node.wakeups(&side.keyspace, WaiterId::from_bits(waiter)).now_or_never();
        let encode = |Wakeup { lock_key, kind }: Wakeup| {
            format!("{}{lock_key}", if kind == WakeupKind::Reserved { "T" } else { "S" })
        };
        wakeups.map_or_else(Vec::new, |wakeups| wakeups.unwrap().into_iter().map(encode).collect())
    };
    (1..=WAITERS).map(of).collect()
}

async fn wakeups_on(server: &RedisServer, keyspace: &Keyspace) -> Vec<Vec<String>> {
    let mut connection = server.connect().await.unwrap();
    let mut wakeups = Vec::new();
    for waiter in 1..=WAITERS {
        let list = keyspace.wakeups(WaiterId::from_bits(waiter));
        wakeups.push(redis::cmd("LRANGE").arg(list).arg(0).arg(-1).query_async(&mut connection).await.unwrap());
    }
    wakeups
}

/// The first difference between the replies. Nothing if the sequence took so long that a reservation may have expired
/// meanwhile.
async fn difference(server: &RedisServer, case: usize, actions: &[Action]) -> Option<String> {
    let prefix = format!("case-{case}:");
    let redis = Side::new(RedisNode::from_url(&server.url()).unwrap(), &prefix).await;
    let memory = Side::new(MemoryNode::new(), &prefix).await;
    let mut epoch = Epoch::from_bits(1);
    let began = tokio::time::Instant::now();
    let report = |difference: String| (began.elapsed() < RESERVATION_TTL / 2).then_some(difference);
    for side in [&redis, &memory] {
        assert_eq!(
            side.send(0, epoch, Operation::Release { owner: OwnerId::from_bits(1), position: QueuePosition::None })
                .await,
            Err(NodeError::Unadmitted)
        );
        assert!(side.establish(None, epoch, Duration::ZERO, 1).await);
    }
    for (step, action) in actions.iter().enumerate() {
        let case = format!("step {step}, {action:?}");
        match *action {
            Action::Request { resource, present, waiter, operation } => {
                let epoch = if present { epoch } else { Epoch::from_bits(u128::MAX) };
                let (real, ours) = tokio::join!(
                    redis.send_as(waiter, resource, epoch, operation),
                    memory.send_as(waiter, resource, epoch, operation)
                );
                if real != ours {
                    return report(format!("{case}: {real:?}, not {ours:?}"));
                }
            }
            Action::Establish { expected, quarantine, max_ttl } => {
                let next = Epoch::from_bits(1000 + step as u128);
                let expected = expected.then_some(epoch);
                let quarantine = if quarantine { LONG } else { Duration::ZERO };
                let real = redis.establish(expected, next, quarantine, max_ttl).await;
                assert_eq!(real, memory.establish(expected, next, quarantine, max_ttl).await, "{case}");
                if real {
                    epoch = next;
                }
            }
            Action::Inspect => assert_eq!(redis.inspect().await, memory.inspect().await, "{case}"),
        }
    }
    assert_eq!(redis.inspect().await, memory.inspect().await);
    let (real, ours) = (wakeups_on(server, &redis.keyspace).await, wakeups(&memory));
    if real == ours { None } else { report(format!("wake-ups: {real:?}, not {ours:?}")) }
}

#[test]
fn the_scripts_and_the_in_memory_node_reply_alike() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = runtime.block_on(RedisServer::start());
    let mut runner = TestRunner::new(Config { cases: 300, failure_persistence: None, ..Config::default() });
    let case = std::cell::Cell::new(0);
    let outcome = runner.run(&proptest::collection::vec(action(), 1..60), |actions| {
        case.set(case.get() + 1);
        let difference = runtime.block_on(difference(&server, case.get(), &actions));
        difference.map_or(Ok(()), |difference| Err(TestCaseError::fail(difference)))
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

#[tokio::test]
async fn a_ttl_ends_alike_on_both() {
    let server = RedisServer::start().await;
    let (short, long) = (Duration::from_millis(150), LONG);
    let acquire =
        |owner, ttl| Operation::Acquire { owner: OwnerId::from_bits(owner), ttl, hint: 0, tokens: 1, since: None };
    let sides = [
        Side::new(RedisNode::from_url(&server.url()).unwrap(), "ttl:").await,
        Side::new(MemoryNode::new(), "ttl:").await,
    ];
    for side in sides {
        let epoch = Epoch::from_bits(1);
        assert!(side.establish(None, epoch, Duration::ZERO, 1).await);
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
        assert_eq!(side.send(1, epoch, acquire(2, long)).await, Ok(Reply::Held { remaining: Some(long) }));
    }
}
