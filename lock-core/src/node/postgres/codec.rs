//! Requests as parameters of `lock_votes`, and its rows as replies.

use std::collections::BTreeMap;
use std::iter;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql};

use crate::node::submission::Message;
use crate::node::{LockKeys, NodeError, Operation, OwnerId, Position, QueuePosition, Reply};

/// The parameters of one call: those of the requests are columns.
pub(super) struct Batch {
    keyspace: String,
    epoch: String,
    waiter: String,
    polls: bool,
    all_fences: Vec<i32>,
    kinds: Vec<&'static str>,
    keys: Vec<String>,
    queues: Vec<String>,
    fences: Vec<i32>,
    owners: Vec<Option<String>>,
    ttls: Vec<i64>,
    numbers: Vec<i64>,
    tokens: Vec<i32>,
    sinces: Vec<i64>,
    reads: Vec<bool>,
    /// Which requests share no fence with another one.
    alone: Vec<bool>,
}

/// What an operation has, besides its owner.
#[derive(Default)]
struct Arguments {
    kind: &'static str,
    ttl: Duration,
    number: u64,
    tokens: u32,
    since: u64,
    reads: bool,
}

impl Batch {
    /// The call for requests that agree in keyspace, epoch and waiter; `None` if there are none.
    pub(super) fn of(messages: &[Message]) -> Option<Self> {
        let first = &messages.first()?.request;
        let requests = || messages.iter().map(|message| &message.request);
        let uses = fence_uses(requests().map(|request| &request.keys));
        let arguments: Vec<Arguments> = requests().map(|request| arguments(request.operation)).collect();
        Some(Self {
            keyspace: first.keys.keyspace().record().to_owned(),
            epoch: first.epoch.to_string(),
            waiter: first.waiter.to_string(),
            polls: first.polls,
            all_fences: uses.keys().copied().collect(),
            kinds: arguments.iter().map(|of| of.kind).collect(),
            keys: requests().map(|request| request.keys.lock_key().to_owned()).collect(),
            queues: requests().map(|request| request.keys.queue().to_owned()).collect(),
            fences: requests().map(|request| request.keys.fence().into()).collect(),
            owners: requests().map(|request| request.operation.owner().map(OwnerId::uuid)).collect(),
            ttls: arguments.iter().map(|of| micros(of.ttl)).collect(),
            numbers: arguments.iter().map(|of| number(of.number)).collect(),
            tokens: arguments.iter().map(|of| i32::try_from(of.tokens).unwrap_or(i32::MAX)).collect(),
            sinces: arguments.iter().map(|of| number(of.since)).collect(),
            reads: arguments.iter().map(|of| of.reads).collect(),
            alone: requests().map(|request| fences(&request.keys).all(|fence| uses[&fence] == 1)).collect(),
        })
    }

    pub(super) fn parameters<'a>(&'a self, session: &'a String) -> [&'a (dyn ToSql + Sync); 17] {
        [
            session,
            &self.keyspace,
            &self.epoch,
            &self.waiter,
            &self.polls,
            &self.all_fences,
            &self.kinds,
            &self.keys,
            &self.queues,
            &self.fences,
            &self.owners,
            &self.ttls,
            &self.numbers,
            &self.tokens,
            &self.sinces,
            &self.reads,
            &self.alone,
        ]
    }
}

/// The fences that are locked for a lock and its queue, in ascending order.
pub(super) fn all_fences(keys: &LockKeys) -> Vec<i32> {
    fence_uses(iter::once(keys)).into_keys().collect()
}

/// How many of these locks have each fence, for themselves or for their queues.
fn fence_uses<'a>(all_keys: impl Iterator<Item = &'a LockKeys>) -> BTreeMap<i32, usize> {
    let mut uses = BTreeMap::new();
    for fence in all_keys.flat_map(fences) {
        *uses.entry(fence).or_default() += 1;
    }
    uses
}

/// The fence of a lock, and that of its queue if it is another one.
fn fences(keys: &LockKeys) -> impl Iterator<Item = i32> {
    let (fence, queue_fence) = (keys.fence(), keys.queue_fence());
    iter::once(fence).chain((queue_fence != fence).then_some(queue_fence)).map(i32::from)
}

fn arguments(operation: Operation) -> Arguments {
    let none = Arguments::default();
    match operation {
        Operation::Acquire { ttl, hint, tokens, since, mode, .. } => {
            let since = since.map_or(0, Into::into);
            Arguments { kind: "acquire", ttl, number: hint, tokens, since, reads: mode.is_read() }
        }
        Operation::Confirm { token, .. } => Arguments { kind: "confirm", number: token, ..none },
        Operation::Extend { ttl, .. } => Arguments { kind: "extend", ttl, ..none },
        Operation::Downgrade { ttl, .. } => Arguments { kind: "downgrade", ttl, ..none },
        Operation::Replace { ttl, token, mode, .. } => {
            Arguments { kind: "replace", ttl, number: token, reads: mode.is_read(), ..none }
        }
        Operation::Release { position: QueuePosition::None, .. } => Arguments { kind: "release", ..none },
        Operation::Release { position: QueuePosition::Leave, .. } => Arguments { kind: "leave", ..none },
        Operation::Release { position: QueuePosition::Keep { since, mode }, .. } => {
            Arguments { kind: "keep", since: since.into(), reads: mode.is_read(), ..none }
        }
        Operation::LeaveQueue => Arguments { kind: "leave_queue", ..none },
    }
}

/// Reads the reply to one request.
pub(super) fn decode(row: &Row) -> Result<Reply, NodeError> {
    read(row).unwrap_or_else(|| Err(NodeError::Protocol { reply: format!("{row:?}") }))
}

fn read(row: &Row) -> Option<Result<Reply, NodeError>> {
    let kind: &str = row.try_get(0).ok()?;
    let number = || u64::try_from(row.try_get::<_, i64>(1).ok()?).ok();
    let count = |column: usize| u32::try_from(row.try_get::<_, Option<i32>>(column).ok()??).ok();
    let position = || Some(Position { ahead: count(2)?, behind: count(3)?, anew: kind == "held_anew" });
    Some(Ok(match kind {
        "granted" => Reply::Granted { token: number()? },
        "held" | "held_anew" => {
            let remaining = Some(Duration::from_micros(number()?));
            Reply::Held { remaining, stranger: false, position: position() }
        }
        "confirmed" => Reply::Confirmed,
        "refused" => Reply::Refused { fence: number()? },
        "kept" => Reply::Kept,
        "barred" => Reply::Barred,
        "gone" => Reply::Gone,
        "released" => Reply::Released,
        "not_owner" => Reply::NotOwner,
        "left" => Reply::QueueLeft,
        "unadmitted" => return Some(Err(NodeError::Unadmitted)),
        "used_up" => {
            return Some(Err(NodeError::Rejected { code: "ERR".into(), detail: "the fence is used up".into() }));
        }
        _ => return None,
    }))
}

/// A column of a row. Its type is another one if the server only speaks the protocol of PostgreSQL.
pub(super) fn column<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T, NodeError> {
    row.try_get(column).map_err(|error| NodeError::Protocol { reply: error.to_string() })
}

/// A length in microseconds.
pub(super) fn micros(length: Duration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX)
}

pub(super) fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
