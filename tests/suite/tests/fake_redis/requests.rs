//! Requests as the engine makes them.

use std::num::NonZeroU64;
use std::time::Duration;

use lock_core::node::{Epoch, Holder, Kind, MemberId, Operation, OwnerId, QueuePosition};
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::commands::{LOCKS, WAITERS, one_of};

/// What the engine sends to a node at once, and how the call is changed before both servers get it.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(super) what: What,
    /// With the source instead of the hash.
    pub(super) by_source: bool,
    /// Another epoch than that of the node.
    pub(super) wrong_epoch: bool,
    /// One argument is replaced.
    pub(super) spoiled: Option<(Index, &'static str)>,
}

#[derive(Clone, Debug)]
pub(super) enum What {
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
pub(super) struct Write {
    /// The record is expected to have this version; `None` for no record.
    pub(super) over: Option<u64>,
    /// The node completes the id with its time. What is expected later is then there no more.
    pub(super) new_member: bool,
    pub(super) votes: bool,
    pub(super) has_roster: bool,
    pub(super) begins_quarantine: bool,
    pub(super) floor: Option<u64>,
}

pub(super) const MEMBER: MemberId = MemberId { random: 0xaa, micros: 7 };
pub(crate) const EPOCH: Epoch = Epoch::from_bits(0xe1);
pub(super) const OTHER_EPOCH: Epoch = Epoch::from_bits(0xe2);
const SHORT: Duration = Duration::from_millis(20);
pub(super) const MINUTE: Duration = Duration::from_secs(60);

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

pub(super) const FIRST: Write =
    Write { over: None, new_member: false, votes: true, has_roster: false, begins_quarantine: false, floor: None };

/// A request for the first lock.
pub(crate) fn held_lock(waiter: usize, owner: u128, since: Option<u64>) -> Call {
    let (owner, since) = (OwnerId::from_bits(owner), since.and_then(NonZeroU64::new));
    let acquire = Operation::Acquire { owner, ttl: MINUTE, hint: 5, tokens: 1, since, kind: Kind::Write };
    Call::plain(What::Requests { waiter, polls: false, requests: vec![(0, acquire)] })
}
