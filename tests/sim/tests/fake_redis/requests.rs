//! Requests as the engine makes them, and the calls of scripts that the engine encodes them in. The layout of keys and
//! arguments is not repeated here: a node of the engine sends the requests to a server that records them.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lock_core::node::{
    Ballot, Division, Epoch, Evict, Holder, Kind, LockKeys, Look, MemberId, NodeRecord, Operation, OwnerId,
    QueuePosition, RecordWrite, Request, Roster, Seat, SetId, WaiterId,
};
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
    /// With the source instead of the hash.
    by_source: bool,
    /// Another epoch than that of the node.
    wrong_epoch: bool,
    /// One argument is replaced.
    spoiled: Option<(Index, &'static str)>,
}

#[derive(Clone, Debug)]
enum What {
    /// Requests on locks, by their places in [`LOCKS`].
    Requests { waiter: usize, polls: bool, requests: Vec<(usize, Operation)> },
    /// These locks are looked at, by their places in [`LOCKS`]; also by a node without an epoch.
    Look { locks: Vec<usize>, in_any_epoch: bool },
    /// Holders are evicted from the lock at this place in [`LOCKS`].
    Evict { lock: usize, holders: Vec<Holder>, token: u64 },
    /// A write of the record.
    Write(Write),
    /// The highest fence is read.
    ReadFences,
}

/// What a write of the record expects, and what it changes.
#[derive(Clone, Copy, Debug)]
struct Write {
    /// The record is expected to have this version; `None` for no record.
    over: Option<u64>,
    /// The node completes the id with its time. What is expected later is then there no more.
    new_member: bool,
    votes: bool,
    has_roster: bool,
    begins_quarantine: bool,
    floor: Option<u64>,
}

const MEMBER: MemberId = MemberId { random: 0xaa, micros: 7 };
pub(crate) const EPOCH: Epoch = Epoch::from_bits(0xe1);
const OTHER_EPOCH: Epoch = Epoch::from_bits(0xe2);
const SHORT: Duration = Duration::from_millis(20);
const MINUTE: Duration = Duration::from_secs(60);

impl Call {
    fn plain(what: What) -> Self {
        Self { what, by_source: true, wrong_epoch: false, spoiled: None }
    }

    /// Whether one of its arguments is wrong.
    pub(crate) fn is_spoiled(&self) -> bool {
        self.spoiled.is_some()
    }

    /// Whether it may set a time to live that ends soon: of a call with a wrong argument, any number may become one.
    pub(crate) fn is_short(&self) -> bool {
        let What::Requests { requests, .. } = &self.what else { return false };
        self.is_spoiled()
            || requests.iter().any(|(_, operation)| match operation {
                Operation::Acquire { ttl, .. }
                | Operation::Extend { ttl, .. }
                | Operation::Downgrade { ttl, .. }
                | Operation::Replace { ttl, .. } => (Duration::from_millis(1)..=SHORT).contains(ttl),
                _ => false,
            })
    }
}

/// The locks that one call is about.
const TOGETHER: [&[usize]; 14] =
    [&[0], &[0], &[0], &[0], &[0, 1], &[1, 0], &[0, 1, 2], &[3], &[1, 3], &[4], &[4], &[5], &[5], &[4, 5]];

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

fn kind() -> impl Strategy<Value = Kind> {
    select(&[Kind::Write, Kind::Read][..])
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
    let position = (select(&[2, 2, 2, 1, 1, 0][..]), since(), kind()).prop_map(|(case, since, kind)| match case {
        0 => QueuePosition::None,
        1 => QueuePosition::Leave,
        _ => QueuePosition::Keep { since, kind },
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
    (0..16, [owner(), owner()], number(), since(), kind()).prop_map(move |(case, [owner, next], hint, since, kind)| {
        let release = Operation::Release { owner, position };
        // A reader whose time to live is zero may or may not expire between two requests.
        let ttl = if kind == Kind::Read { ttl.max(Duration::from_millis(1)) } else { ttl };
        let permits = if tokens == 1 { 2 } else { LOCKS[lock].keys.slot().unwrap_or_default() + 1 };
        let kind = if LOCKS[lock].keys.slot().is_some() { Kind::Permit { of: permits } } else { kind };
        let acquire = |owner, since| Operation::Acquire { owner, ttl, hint, tokens, since, kind };
        let operations = match case {
            0 | 1 => vec![acquire(owner, None)],
            2..=4 => vec![acquire(owner, Some(since))],
            5..=7 => vec![release],
            8 => vec![release, acquire(next, None)],
            9 | 10 => vec![release, acquire(next, Some(since))],
            11 => vec![Operation::Confirm { owner, token: hint }],
            12 => vec![Operation::Extend { owner, ttl }],
            13 => vec![Operation::LeaveQueue],
            14 => vec![Operation::Downgrade { owner, ttl: ttl.max(Duration::from_millis(1)) }],
            _ => vec![Operation::Replace { owner, ttl, token: hint, kind }],
        };
        operations.into_iter().map(|operation| (lock, operation)).collect()
    })
}

/// A word instead of an argument. None is a time to live that ends between two steps.
fn spoiled() -> impl Strategy<Value = Option<(Index, &'static str)>> {
    let spoiled = (any::<Index>(), one_of(&["0", "-5", "x", "", "1.5"]));
    prop_oneof![15 => Just(None), 1 => spoiled.prop_map(Some)]
}

/// A call with a few requests.
pub(crate) fn call() -> impl Strategy<Value = Call> {
    let requests = (select(&TOGETHER[..]), common())
        .prop_flat_map(|(locks, common)| locks.iter().map(|lock| on_lock(*lock, common)).collect::<Vec<_>>());
    let (wrong_epoch, waiter) = (prop::bool::weighted(0.1), (0..WAITERS.len(), prop::bool::weighted(0.2)));
    (any::<bool>(), wrong_epoch, waiter, requests, spoiled()).prop_map(
        |(by_source, wrong_epoch, (waiter, polls), requests, spoiled)| Call {
            what: What::Requests { waiter, polls, requests: requests.concat() },
            by_source,
            wrong_epoch,
            spoiled,
        },
    )
}

pub(crate) fn look() -> impl Strategy<Value = Call> {
    let (locks, in_any_epoch) = (select(&TOGETHER[..]), prop::bool::weighted(0.3));
    (any::<bool>(), prop::bool::weighted(0.1), locks, in_any_epoch, spoiled()).prop_map(
        |(by_source, wrong_epoch, locks, in_any_epoch, spoiled)| Call {
            what: What::Look { locks: locks.to_vec(), in_any_epoch },
            by_source,
            wrong_epoch,
            spoiled,
        },
    )
}

pub(crate) fn evict() -> impl Strategy<Value = Call> {
    let stranger = Just(Holder::Stranger(b"a stranger".to_vec()));
    let holder = prop_oneof![4 => owner().prop_map(Holder::Owner), 1 => stranger, 1 => Just(Holder::NotALock)];
    let holders = prop::collection::vec(holder, 0..3);
    let lock = select(&[0, 0, 0, 4][..]);
    (any::<bool>(), prop::bool::weighted(0.1), (lock, holders), number(), spoiled()).prop_map(
        |(by_source, wrong_epoch, (lock, holders), token, spoiled)| Call {
            what: What::Evict { lock, holders, token },
            by_source,
            wrong_epoch,
            spoiled,
        },
    )
}

pub(crate) fn write() -> impl Strategy<Value = Call> {
    // A sequence has few writes, so the versions are small.
    let over = select(&[None, Some(1), Some(1), Some(1), Some(2), Some(2), Some(3)][..]);
    let floor = prop::option::weighted(0.2, number());
    let changes = (over, prop::bool::weighted(0.1), prop::bool::weighted(0.8), any::<[bool; 2]>(), floor);
    let write = changes.prop_map(|(over, new_member, votes, [has_roster, begins_quarantine], floor)| Write {
        over,
        new_member,
        votes,
        has_roster,
        begins_quarantine,
        floor,
    });
    (any::<bool>(), any::<bool>(), write, spoiled()).prop_map(|(by_source, wrong_epoch, write, spoiled)| Call {
        what: What::Write(write),
        by_source,
        wrong_epoch,
        spoiled,
    })
}

pub(crate) fn read_fences() -> Call {
    Call::plain(What::ReadFences)
}

/// The first record of a node, in which it votes.
pub(crate) fn first_record() -> Call {
    Call::plain(What::Write(FIRST))
}

const FIRST: Write =
    Write { over: None, new_member: false, votes: true, has_roster: false, begins_quarantine: false, floor: None };

/// A request for the first lock.
pub(crate) fn held_lock(waiter: usize, owner: u128, since: Option<u64>) -> Call {
    let (owner, since) = (OwnerId::from_bits(owner), since.and_then(NonZeroU64::new));
    let acquire = Operation::Acquire { owner, ttl: MINUTE, hint: 5, tokens: 1, since, kind: Kind::Write };
    Call::plain(What::Requests { waiter, polls: false, requests: vec![(0, acquire)] })
}

/// Encodes calls as the engine does: a node of the engine, connected to a server that only records them.
pub(crate) struct Encoder {
    node: RedisNode,
    server: FakeRedis,
    run_id: String,
    /// The scripts that the engine sent, by their hash.
    sources: BTreeMap<String, String>,
    /// Whether the server insists that scripts declare their keys.
    declares: bool,
}

impl Encoder {
    pub(crate) async fn connect(declares: bool) -> Self {
        let server = FakeRedis::new("encoder", NodeClock::default(), false, None);
        if declares {
            server.insist_on_declarations();
        }
        _ = server.take_received();
        let (connected, since) = (server.clone(), Instant::now());
        let node = RedisNode::from_factory("encoder", move |config| {
            let (near, far) = tokio::io::duplex(1 << 16);
            let server = connected.clone();
            tokio::spawn(async move { server.serve(far, || since.elapsed()).await });
            over(near, config)
        });
        let run_id = node.inspect(&KEYSPACE).await.unwrap().run_id;
        let mut encoder = Self { node, server, run_id, sources: BTreeMap::new(), declares };
        encoder.write(FIRST).await;
        // Requests are sent for the epoch that an inspection found.
        encoder.node.inspect(&KEYSPACE).await.unwrap();
        encoder.received();
        encoder
    }

    /// The commands that the engine sends for a call.
    pub(crate) async fn encode(&mut self, call: &Call) -> Vec<Vec<String>> {
        let mut sent = self.send(call).await;
        // A process that was stopped for a while gives its connection up, before it sends anything or between the hash of a script
        // and its source. And to a server whose record has become another one the engine sends nothing.
        for _ in 0..50 {
            let known = |command: &Vec<String>| command[0] == "HGETALL" || self.script(command).is_some();
            if !sent.is_empty() && sent.iter().all(known) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            *self = Self::connect(self.declares).await;
            sent = self.send(call).await;
        }
        assert!(!sent.is_empty(), "the engine sends nothing for {call:?}");
        sent.into_iter().map(|command| self.change(call, command)).collect()
    }

    async fn send(&mut self, call: &Call) -> Vec<Vec<String>> {
        self.received();
        match &call.what {
            What::Requests { waiter, polls, requests } => self.submit(WAITERS[*waiter], *polls, requests).await,
            // What comes of these does not matter: the server that records has other locks.
            What::Look { locks, in_any_epoch } => {
                let keys = locks.iter().map(|lock| LOCKS[*lock].keys.clone()).collect();
                _ = self.node.look(Look { keys, epoch: (!in_any_epoch).then_some(EPOCH) }).await;
            }
            What::Evict { lock, holders, token } => {
                let (keys, holders) = (LOCKS[*lock].keys.clone(), holders.clone());
                _ = self.node.evict(Evict { keys, epoch: EPOCH, holders, token: *token, barred_for: MINUTE }).await;
            }
            What::Write(write) => self.write(*write).await,
            // What comes of it does not matter: fences that are too large are refused.
            What::ReadFences => _ = self.node.read_fences(&KEYSPACE).await,
        }
        self.received()
    }

    async fn submit(&self, waiter: WaiterId, polls: bool, requests: &[(usize, Operation)]) {
        let request = |keys, operation| Request { keys, epoch: EPOCH, waiter, polls, operation };
        // The engine sends the first of several requests on its own, and the others together. So the first is another one.
        let first = (requests.len() > 1)
            .then(|| ask(&self.node, request(LockKeys::new(&KEYSPACE, "first"), Operation::LeaveQueue)));
        let sent =
            requests.iter().map(|(lock, operation)| ask(&self.node, request(LOCKS[*lock].keys.clone(), *operation)));
        let sent: Vec<_> = first.into_iter().chain(sent).collect();
        join_all(sent).await;
    }

    async fn write(&self, write: Write) {
        let roster = Roster {
            set: SetId(5),
            generation: 3,
            max_ttl: MINUTE,
            quarantine_ttl: MINUTE,
            formed_over: vec![SetId(3), SetId(4)],
            name: "a set".to_owned(),
            division: Division::default(),
            seats: vec![Some(Seat { member: MEMBER, address: "a server".to_owned() }), None],
        };
        let ballot = Ballot { round: 2, proposer: 7 };
        let record = NodeRecord {
            run_id: self.run_id.clone(),
            member: MEMBER,
            version: 0,
            was: write.has_roster.then_some(MEMBER),
            epoch: write.votes.then_some(EPOCH),
            roster: write.has_roster.then(|| roster.clone()),
            previous: vec![MEMBER],
            promised: write.begins_quarantine.then_some(ballot),
            accepted: write.begins_quarantine.then_some((ballot, roster)),
            quarantines: Vec::new(),
        };
        let begin = if write.begins_quarantine { vec![(MEMBER, MINUTE)] } else { Vec::new() };
        let expected = write.over.map(|version| (MEMBER, version));
        let write = RecordWrite { expected, record, new_member: write.new_member, begin, floor: write.floor };
        // The server that records has a record of its own, which may be another one.
        _ = self.node.write_record(&KEYSPACE, write).await;
    }

    /// The calls of scripts, and the readings of the fences, that the server received since the last call.
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
            if command[0].starts_with("EVAL") || command[0] == "HGETALL" {
                calls.push(command);
            }
        }
        calls
    }

    /// The hash and the source of the script that a command calls, if both are known.
    fn script(&self, command: &[String]) -> Option<(&String, &String)> {
        self.sources.iter().find(|(hash, source)| **hash == command[1] || **source == command[1])
    }

    /// A call by hash or by source, with its epoch and one of its arguments changed.
    fn change(&self, call: &Call, mut command: Vec<String>) -> Vec<String> {
        if command[0] == "HGETALL" {
            return command;
        }
        let (hash, source) = self.script(&command).unwrap();
        let script = if call.by_source { ["EVAL", source] } else { ["EVALSHA", hash] };
        command.splice(..2, words(&script));
        let count: usize = command[2].parse().unwrap();
        let arguments = &mut command[3 + count..];
        if call.wrong_epoch {
            for argument in arguments.iter_mut().filter(|argument| **argument == EPOCH.to_string()) {
                *argument = OTHER_EPOCH.to_string();
            }
        }
        // Not the number of requests, which says where the record is.
        if let Some((index, word)) = call.spoiled.filter(|_| !self.declares) {
            let argument = index.get_mut(arguments);
            // The mark of a queue is a time, which may differ between the servers. In the field of a fence it would be taken for one.
            let mark = if names_a_mark(argument) { "q" } else { "" };
            *argument = format!("{mark}{word}");
        }
        command
    }
}

/// Whether an argument names the fields of a record that have the marks of queues.
fn names_a_mark(argument: &str) -> bool {
    argument.split(' ').all(|name| name.strip_prefix('q').is_some_and(|fence| fence.parse::<u16>().is_ok()))
}
