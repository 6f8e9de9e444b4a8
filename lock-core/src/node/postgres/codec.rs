//! Requests as parameters of `lock_vote` and `lock_votes`, and rows as replies and as states of locks.

use std::collections::BTreeMap;
use std::iter;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql};

use crate::node::limits::{MAX_TOKEN, used_up};
use crate::node::submission::Message;
use crate::node::{
    Holder, Kind, LockKeys, LockState, NodeError, Operation, OwnerId, Position, QueuePosition, Reader, Reply, Request,
    SlotOffer,
};

/// A parameter of a call.
pub(super) type Parameter = Box<dyn ToSql + Send + Sync>;

/// What an operation has, besides its owner.
#[derive(Default)]
struct Arguments {
    name: &'static str,
    ttl: Duration,
    number: u64,
    tokens: u32,
    since: u64,
    kind: Kind,
}

/// The parameters of the call for requests that agree with the first one in keyspace, epoch and waiter. What differs from request to request
/// is a column; of a lone request, its value.
pub(super) fn encode(first: &Request, messages: &[Message]) -> Vec<Parameter> {
    fn column<T: ToSql + Send + Sync + 'static>(
        requests: &[(&Request, Arguments)],
        of: impl Fn(&Request, &Arguments) -> T,
    ) -> Parameter {
        match requests {
            [(request, arguments)] => Box::new(of(request, arguments)),
            several => Box::new(several.iter().map(|(request, arguments)| of(request, arguments)).collect::<Vec<T>>()),
        }
    }
    let requests = messages.iter().map(|message| (&message.request, arguments(message.request.operation)));
    let requests: Vec<_> = requests.collect();
    let uses = fence_uses(requests.iter().map(|(request, _)| &request.keys));
    // In the order of `lock_vote` and `lock_votes`.
    let mut parameters: Vec<Parameter> = vec![
        Box::new(first.keys.keyspace().record().to_owned()),
        Box::new(first.epoch.to_string()),
        Box::new(first.waiter.to_string()),
        Box::new(first.polls),
        Box::new(uses.keys().copied().collect::<Vec<i32>>()),
        column(&requests, |_, of| of.name),
        column(&requests, |request, _| request.keys.lock_key().to_owned()),
        column(&requests, |request, _| request.keys.queue().to_owned()),
        column(&requests, |request, _| i32::from(request.keys.fence())),
        column(&requests, |request, _| request.operation.owner().map(OwnerId::uuid)),
        column(&requests, |_, of| micros(of.ttl)),
        column(&requests, |_, of| number(of.number)),
        column(&requests, |_, of| count(of.tokens)),
        column(&requests, |_, of| number(of.since)),
        column(&requests, |_, of| of.kind.is_read()),
    ];
    if messages.len() > 1 {
        // Which requests share no fence with another one: see `lock_usual`.
        parameters.push(column(&requests, |request, _| fences(&request.keys).all(|fence| uses[&fence] == 1)));
    }
    parameters.push(column(&requests, |request, of| permits(&request.keys, of.kind)));
    parameters
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

/// The fence of a lock, and the fence of its queue if it is another one.
fn fences(keys: &LockKeys) -> impl Iterator<Item = i32> {
    let (fence, queue_fence) = (keys.fence(), keys.queue_fence());
    iter::once(fence).chain((queue_fence != fence).then_some(queue_fence)).map(i32::from)
}

fn permits(keys: &LockKeys, kind: Kind) -> i32 {
    keys.slot().map_or(0, |slot| count(kind.permits(slot)))
}

fn count(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn arguments(operation: Operation) -> Arguments {
    let none = Arguments::default();
    match operation {
        Operation::Acquire { ttl, hint, tokens, since, kind, .. } => {
            let since = since.map_or(0, Into::into);
            Arguments { name: "acquire", ttl, number: hint, tokens, since, kind }
        }
        Operation::Confirm { token, .. } => Arguments { name: "confirm", number: token, ..none },
        Operation::Extend { ttl, .. } => Arguments { name: "extend", ttl, ..none },
        Operation::Downgrade { ttl, .. } => Arguments { name: "downgrade", ttl, ..none },
        Operation::Replace { ttl, token, kind, .. } => Arguments { name: "replace", ttl, number: token, kind, ..none },
        Operation::Release { position: QueuePosition::None, .. } => Arguments { name: "release", ..none },
        Operation::Release { position: QueuePosition::Leave, .. } => Arguments { name: "leave", ..none },
        Operation::Release { position: QueuePosition::Keep { since, kind }, .. } => {
            Arguments { name: "keep", since: since.into(), kind, ..none }
        }
        Operation::LeaveQueue => Arguments { name: "leave_queue", ..none },
    }
}

/// Reads the reply to one request.
pub(super) fn decode(row: &Row) -> Result<Reply, NodeError> {
    read(row).unwrap_or_else(|| Err(NodeError::Protocol { reply: format!("{row:?}") }))
}

fn read(row: &Row) -> Option<Result<Reply, NodeError>> {
    let kind: &str = row.try_get(0).ok()?;
    let number = || u64::try_from(row.try_get::<_, i64>(1).ok()?).ok();
    let ahead = || u32::try_from(row.try_get::<_, Option<i32>>(2).ok()??).ok();
    let position = || Some(Position { ahead: ahead()?, anew: kind == "held_anew" });
    Some(Ok(match kind {
        "granted" => Reply::Granted { token: number()? },
        "held" | "held_anew" => {
            let remaining = Some(Duration::from_micros(number()?));
            let offer = match row.try_get::<_, Option<&str>>(3).ok()? {
                Some(offer) => Some(SlotOffer::parse(offer)?),
                None => None,
            };
            Reply::Held { remaining, stranger: false, position: position(), offer }
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
        "used_up" => return Some(Err(used_up())),
        _ => return None,
    }))
}

/// Reads the state of a lock; `None` if it is malformed.
pub(super) fn decode_state(row: &Row) -> Option<LockState> {
    let length = |micros: i64| u64::try_from(micros).ok().map(Duration::from_micros);
    let owners = |column: usize| {
        let owners: Vec<String> = row.try_get::<_, Option<_>>(column).ok()?.unwrap_or_default();
        owners.iter().map(|owner| OwnerId::from_uuid(owner)).collect::<Option<Vec<OwnerId>>>()
    };
    let owner: Option<String> = row.try_get(0).ok()?;
    let is_held: bool = row.try_get(1).ok()?;
    let remaining: Vec<i64> = row.try_get::<_, Option<_>>(6).ok()?.unwrap_or_default();
    let readers = owners(5)?.into_iter().zip(remaining);
    Some(LockState {
        holder: match owner {
            Some(owner) => Some(Holder::Owner(OwnerId::from_uuid(&owner)?)),
            None => is_held.then_some(Holder::Readers),
        },
        remaining: row.try_get::<_, Option<i64>>(2).ok()?.and_then(length),
        fence: u64::try_from(row.try_get::<_, i64>(3).ok()?).ok()?,
        waiters: u32::try_from(row.try_get::<_, i64>(4).ok()?).ok()?,
        readers: readers
            .map(|(owner, left)| Some(Reader { owner, remaining: length(left)? }))
            .collect::<Option<_>>()?,
        evicted: owners(7)?,
    })
}

/// A column of a row. Its type is another one if the server only speaks the protocol of PostgreSQL.
pub(super) fn column<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T, NodeError> {
    row.try_get(column).map_err(|error| NodeError::Protocol { reply: error.to_string() })
}

/// A length in microseconds.
pub(super) fn micros(length: Duration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX)
}

/// A token, a hint or a time. One beyond the highest token stays so, and leaves room for what is added to it.
pub(super) fn number(number: u64) -> i64 {
    i64::try_from(number.min(MAX_TOKEN + 1)).unwrap_or(i64::MAX)
}
