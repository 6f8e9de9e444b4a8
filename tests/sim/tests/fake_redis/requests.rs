//! Requests as the engine makes them, and the calls of scripts that the engine encodes them in. The layout of keys and
//! arguments is not repeated here: a node of the engine sends the requests to a server that records them.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lock_core::node::{Epoch, Establish, LockKeys, Operation, OwnerId, QueuePosition, Request, SetConfig};
use lock_core::{LockNode as _, RedisNode};
use lock_sim::redis::{FakeRedis, NodeClock};
use lock_support::ask;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::commands::{KEYSPACE, LOCKS, WAITERS, one_of, words};
use super::servers::over;

/// What the engine sends to a node at once, and how the call is changed before both servers get it.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    what: What,
    /// With the source in place of the hash.
    by_source: bool,
    /// Another epoch than that of the node.
    wrong_epoch: bool,
    /// One argument is replaced.
    spoilt: Option<(Index, &'static str)>,
}

#[derive(Clone, Debug)]
enum What {
    /// Requests on locks, by their places in [`LOCKS`].
    Requests { waiter: usize, requests: Vec<(usize, Operation)> },
    /// A new record, over one that is there or over none.
    Establish { over_one: bool, quarantine: Duration },
}

pub(crate) const EPOCH: Epoch = Epoch::from_bits(0xe1);
const OTHER_EPOCH: Epoch = Epoch::from_bits(0xe2);
const SHORT: Duration = Duration::from_millis(20);
const MINUTE: Duration = Duration::from_secs(60);

impl Call {
    fn plain(what: What) -> Self {
        Self { what, by_source: true, wrong_epoch: false, spoilt: None }
    }

    /// Whether it may set a time to live that ends soon: of a call with a wrong argument, any number may become one.
    pub(crate) fn is_short(&self) -> bool {
        let What::Requests { requests, .. } = &self.what else { return false };
        self.spoilt.is_some()
            || requests.iter().any(|(_, operation)| match operation {
                Operation::Acquire { ttl, .. } | Operation::Extend { ttl, .. } | Operation::Replace { ttl, .. } => {
                    (Duration::from_millis(1)..=SHORT).contains(ttl)
                }
                _ => false,
            })
    }
}

/// The locks that one call is about.
const TOGETHER: [&[usize]; 9] = [&[0], &[0], &[0], &[0], &[0, 1], &[1, 0], &[0, 1, 2], &[3], &[1, 3]];

fn owner() -> impl Strategy<Value = OwnerId> {
    select(&[1, 1, 2][..]).prop_map(OwnerId::from_bits)
}

fn since() -> impl Strategy<Value = NonZeroU64> {
    select(&[1, 2, 3, 1_700_000_000_000_000][..]).prop_map(|since| NonZeroU64::new(since).unwrap())
}

/// Tokens. In a call with a wrong argument, the last of up to 16 tokens may become a time to live: it ends within a pause, or
/// after the sequence.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => select(&[0, 1, 5, 7, 10, 1_700_000_000_000_000][..]),
        1 => select(&[(1 << 53) - 2, (1 << 53) - 1, 1 << 53][..]),
    ]
}

/// What the requests of one call have in common.
#[derive(Clone, Copy, Debug)]
struct Common {
    ttl: Duration,
    tokens: u32,
    position: QueuePosition,
}

fn common() -> impl Strategy<Value = Common> {
    let ttl = prop_oneof![
        20 => select(&[60_000, 90_000, 90_000][..]),
        3 => select(&[20, 1, 0][..]),
    ];
    let position = (select(&[2, 2, 2, 1, 1, 0][..]), since()).prop_map(|(kind, since)| match kind {
        0 => QueuePosition::None,
        1 => QueuePosition::Leave,
        _ => QueuePosition::Keep(since),
    });
    (ttl, select(&[1, 2, 16][..]), position).prop_map(|(ttl, tokens, position)| Common {
        ttl: Duration::from_millis(ttl),
        tokens,
        position,
    })
}

/// The requests on one lock: one, or a release and the next acquire.
fn on_lock(lock: usize, common: Common) -> impl Strategy<Value = Vec<(usize, Operation)>> {
    let Common { ttl, tokens, position } = common;
    (0..15, [owner(), owner()], number(), since()).prop_map(move |(kind, [owner, next], hint, since)| {
        let release = Operation::Release { owner, position };
        let acquire = |owner, since| Operation::Acquire { owner, ttl, hint, tokens, since };
        let operations = match kind {
            0 | 1 => vec![acquire(owner, None)],
            2..=4 => vec![acquire(owner, Some(since))],
            5..=7 => vec![release],
            8 => vec![release, acquire(next, None)],
            9 | 10 => vec![release, acquire(next, Some(since))],
            11 => vec![Operation::Confirm { owner, token: hint }],
            12 => vec![Operation::Extend { owner, ttl }],
            13 => vec![Operation::LeaveQueue],
            _ => vec![Operation::Replace { owner, ttl, token: hint }],
        };
        operations.into_iter().map(|operation| (lock, operation)).collect()
    })
}

/// A word in place of an argument. None is a time to live that ends between two steps.
fn spoilt() -> impl Strategy<Value = Option<(Index, &'static str)>> {
    let spoilt = (any::<Index>(), one_of(&["0", "-5", "x", "", "1.5"]));
    prop_oneof![15 => Just(None), 1 => spoilt.prop_map(Some)]
}

/// A call with a few requests.
pub(crate) fn call() -> impl Strategy<Value = Call> {
    let requests = (select(&TOGETHER[..]), common())
        .prop_flat_map(|(locks, common)| locks.iter().map(|lock| on_lock(*lock, common)).collect::<Vec<_>>());
    let wrong_epoch = prop::bool::weighted(0.1);
    (any::<bool>(), wrong_epoch, 0..WAITERS.len(), requests, spoilt()).prop_map(
        |(by_source, wrong_epoch, waiter, requests, spoilt)| Call {
            what: What::Requests { waiter, requests: requests.concat() },
            by_source,
            wrong_epoch,
            spoilt,
        },
    )
}

pub(crate) fn establish() -> impl Strategy<Value = Call> {
    let quarantine = select(&[Duration::ZERO, Duration::ZERO, Duration::ZERO, MINUTE][..]);
    (any::<bool>(), any::<bool>(), any::<bool>(), quarantine, spoilt()).prop_map(
        |(by_source, wrong_epoch, over_one, quarantine, spoilt)| Call {
            what: What::Establish { over_one, quarantine },
            by_source,
            wrong_epoch,
            spoilt,
        },
    )
}

/// The record of a node that has none.
pub(crate) fn establish_first() -> Call {
    Call::plain(What::Establish { over_one: false, quarantine: Duration::ZERO })
}

/// A request for the first lock.
pub(crate) fn held_lock(waiter: usize, owner: u128, since: Option<u64>) -> Call {
    let (owner, since) = (OwnerId::from_bits(owner), since.and_then(NonZeroU64::new));
    let acquire = Operation::Acquire { owner, ttl: MINUTE, hint: 5, tokens: 1, since };
    Call::plain(What::Requests { waiter, requests: vec![(0, acquire)] })
}

/// Encodes calls as the engine does: a node of the engine, connected to a server that only records them.
pub(crate) struct Encoder {
    node: RedisNode,
    server: FakeRedis,
    run_id: String,
    /// The scripts that the engine sent, by their hash.
    sources: BTreeMap<String, String>,
}

impl Encoder {
    pub(crate) async fn connect() -> Self {
        let server = FakeRedis::new("encoder", NodeClock::default(), false, None);
        _ = server.take_received();
        let (connected, since) = (server.clone(), Instant::now());
        let node = RedisNode::from_factory("encoder", move || {
            let (near, far) = tokio::io::duplex(1 << 16);
            let server = connected.clone();
            tokio::spawn(async move { server.serve(far, || since.elapsed()).await });
            over(near)
        });
        let run_id = node.inspect(&KEYSPACE).await.unwrap().run_id;
        let mut encoder = Self { node, server, run_id, sources: BTreeMap::new() };
        encoder.establish(None, EPOCH, Duration::ZERO).await;
        // Requests are sent for the epoch that an inspection found.
        encoder.node.inspect(&KEYSPACE).await.unwrap();
        encoder.received();
        encoder
    }

    /// The commands that the engine sends for a call.
    pub(crate) async fn encode(&mut self, call: &Call) -> Vec<Vec<String>> {
        self.received();
        match &call.what {
            What::Requests { waiter, requests } => self.submit(*waiter, requests).await,
            What::Establish { over_one, quarantine } => {
                self.establish(over_one.then_some(EPOCH), EPOCH, *quarantine).await;
            }
        }
        self.received().into_iter().map(|command| self.change(call, command)).collect()
    }

    async fn submit(&self, waiter: usize, requests: &[(usize, Operation)]) {
        let request = |keys, operation| Request { keys, epoch: EPOCH, waiter: WAITERS[waiter], operation };
        // The engine sends the first of several requests on its own, and the others together. So the first is another one.
        let first = (requests.len() > 1)
            .then(|| ask(&self.node, request(LockKeys::new(&KEYSPACE, "first"), Operation::LeaveQueue)));
        let sent = requests.iter().map(|(lock, operation)| {
            ask(&self.node, request(LockKeys::new(&KEYSPACE, &LOCKS[*lock].resource), *operation))
        });
        let sent: Vec<_> = first.into_iter().chain(sent).collect();
        join_all(sent).await;
    }

    async fn establish(&self, expected: Option<Epoch>, epoch: Epoch, quarantine: Duration) {
        let config =
            SetConfig { format: SetConfig::FORMAT, nodes: 3, max_ttl: Duration::from_secs(1), name: String::new() };
        let record = Establish { expected, run_id: self.run_id.clone(), epoch, config, quarantine };
        self.node.establish(&KEYSPACE, record).await.unwrap();
    }

    /// The calls of scripts that the server received since the last call.
    fn received(&mut self) -> Vec<Vec<String>> {
        let text = |word: Vec<u8>| String::from_utf8(word).unwrap();
        let mut calls = Vec::new();
        for command in self.server.take_received() {
            let command: Vec<String> = command.into_iter().map(text).collect();
            let source = match command[0].as_str() {
                "SCRIPT" => Some(&command[2]),
                "EVAL" => Some(&command[1]),
                _ => None,
            };
            if let Some(source) = source {
                self.sources.insert(redis::Script::new(source).get_hash().to_owned(), source.clone());
            }
            if command[0].starts_with("EVAL") {
                calls.push(command);
            }
        }
        calls
    }

    /// A call by hash or by source, with its epoch and one of its arguments changed.
    fn change(&self, call: &Call, mut command: Vec<String>) -> Vec<String> {
        let named = self.sources.iter().find(|(hash, source)| **hash == command[1] || **source == command[1]);
        let (hash, source) = named.unwrap();
        let script = if call.by_source { ["EVAL", source] } else { ["EVALSHA", hash] };
        command.splice(..2, words(&script));
        let count: usize = command[2].parse().unwrap();
        let arguments = &mut command[3 + count..];
        if call.wrong_epoch {
            for argument in arguments.iter_mut().filter(|argument| **argument == EPOCH.to_string()) {
                *argument = OTHER_EPOCH.to_string();
            }
        }
        if let Some((index, word)) = call.spoilt {
            *index.get_mut(arguments) = word.to_owned();
        }
        command
    }
}
