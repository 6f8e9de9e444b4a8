//! Batches of requests and their replies, as they travel.

use std::iter;
use std::num::NonZeroU64;
use std::time::Duration;

use redis::{Cmd, Value};

use super::batch::Batch;
use super::classify;
use super::declared::add_keys;
use super::script::{LEDGER, STRICT_LEDGER, ScriptRef};
use crate::node::limits::{MAX_TOKEN, parse_number};
use crate::node::{Kind, LockKeys, NodeError, Operation, OwnerId, Position, QueuePosition, Reply, Request, SlotOffer};

/// The command that carries a batch, and declares all keys that it may touch if the server insists on that. Its arguments are documented
/// in `ledger.lua`.
pub(super) fn encode(batch: &Batch, script: ScriptRef, declares_all: bool) -> Cmd {
    let (first, count) = (&batch.first, batch.len());
    let ledger = if declares_all { &STRICT_LEDGER } else { &LEDGER };
    let mut command = ledger.command(script, 12 + 7 * count, 256 + 160 * count);
    let keys = batch.messages().map(|message| &message.request.keys);
    add_keys(&mut command, keys, first.keys.keyspace(), declares_all);
    command.arg(&first.epoch.hex());
    match first.polls {
        true => command.arg([b"p", &first.waiter.hex()[..]].concat()),
        false => command.arg(&first.waiter.hex()),
    };
    command.arg(batch.releases.len()).arg(batch.acquires.len());
    for message in &batch.acquires {
        command.arg(message.request.keys.fence());
    }
    let may_change_queues = batch.releases.iter().chain(&batch.acquires);
    let marks: Vec<&str> = may_change_queues.map(|message| message.request.keys.queue_field()).collect();
    command.arg(marks.join(" "));
    for message in &batch.releases {
        let Request { keys, operation, .. } = &message.request;
        if let Operation::Release { owner, position } = *operation {
            encode_release(&mut command, keys, owner, position);
        }
    }
    let acquires = || batch.acquires.iter().filter_map(|message| Acquire::of(&message.request));
    if let Some(Acquire { ttl, tokens, .. }) = acquires().next() {
        command.arg(ttl).arg(tokens);
        acquires().for_each(|acquire| acquire.encode(&mut command, (ttl, tokens)));
    }
    for message in &batch.others {
        encode_other(&mut command, &message.request);
    }
    if declares_all {
        command.arg(count);
    }
    command
}

/// Nearly every release gives up the position, so this is what needs no further word.
fn encode_release(command: &mut Cmd, keys: &LockKeys, owner: OwnerId, position: QueuePosition) {
    match position {
        QueuePosition::Leave => command.arg(&owner.value()),
        QueuePosition::Keep { since, kind } => match permits(keys, kind) {
            Some(permits) => command.arg(format!("{owner} {since}k{permits}")),
            None if kind.is_read() => command.arg(format!("{owner} {since}r")),
            None => command.arg(format!("{owner} {since}")),
        },
        QueuePosition::None => command.arg(format!("{owner} none")),
    };
}

/// How many slots the caller may choose from, if the lock is one.
fn permits(keys: &LockKeys, kind: Kind) -> Option<u32> {
    keys.slot().map(|slot| kind.permits(slot))
}

struct Acquire {
    owner: OwnerId,
    last: u64,
    since: u64,
    permits: Option<u32>,
    ttl: u64,
    tokens: u32,
}

impl Acquire {
    fn of(request: &Request) -> Option<Self> {
        let Operation::Acquire { owner, ttl, hint, tokens, since, kind } = request.operation else { return None };
        let last = hint.saturating_add(u64::from(tokens) - 1);
        let (since, permits) = (since.map_or(0, NonZeroU64::get), permits(&request.keys, kind));
        Some(Self { owner, last, since, permits, ttl: millis(ttl), tokens })
    }

    /// Adds the arguments of one acquire to a batch that has a common ttl and number of tokens.
    ///
    /// A server takes 4 to 8 % more time if each acquire has all of its arguments. If a batch had to end where one of them differs,
    /// clients with four times to live would make 8 to 15 % fewer cycles.
    fn encode(&self, command: &mut Cmd, common: (u64, u32)) {
        let Self { owner, last, since, permits, ttl, tokens } = self;
        command.arg(&owner.value());
        if (*ttl, *tokens) == common {
            command.arg(last);
        } else {
            command.arg(format!("{last} {ttl} {tokens}"));
        }
        match permits {
            Some(permits) => command.arg(format!("{since}k{permits}")),
            None => command.arg(since),
        };
    }
}

fn encode_other(command: &mut Cmd, request: &Request) {
    let Request { keys, operation, .. } = request;
    match *operation {
        Operation::Release { .. } => {}
        Operation::Acquire { .. } => {
            let Some(Acquire { owner, last, since, ttl, tokens, .. }) = Acquire::of(request) else { return };
            command.arg("R").arg(&owner.value()).arg(last).arg(ttl).arg(tokens).arg(since);
            command.arg(keys.fence()).arg(keys.queue_field());
        }
        Operation::LeaveQueue => _ = command.arg("L").arg(keys.queue_field()),
        Operation::Confirm { owner, token } => {
            command.arg("C").arg(&owner.value()).arg(token).arg(keys.fence());
        }
        Operation::Extend { owner, ttl } => {
            command.arg("E").arg(&owner.value()).arg(millis(ttl));
        }
        Operation::Replace { owner, ttl, token, kind } => {
            let letter = if kind.is_read() { "Q" } else { "P" };
            command.arg(letter).arg(&owner.value()).arg(millis(ttl)).arg(token).arg(keys.fence());
            command.arg(keys.queue_field());
        }
        Operation::Downgrade { owner, ttl } => {
            command.arg("W").arg(&owner.value()).arg(millis(ttl)).arg(keys.queue_field());
        }
    }
}

/// The replies in what the server sent for a batch of `count` requests.
pub(super) fn decode(value: &Value, count: usize) -> impl Iterator<Item = Result<Reply, NodeError>> {
    let mut lines = lines(value, count);
    (0..count).map(move |_| match &mut lines {
        Ok(lines) => decode_one(lines.next().unwrap_or_default()),
        Err(error) => Err(error.clone()),
    })
}

/// A line for each of `count` requests; or else why all of them failed.
fn lines(value: &Value, count: usize) -> Result<impl Iterator<Item = &str>, NodeError> {
    let mut rest = match value {
        Value::ServerError(error) => return Err(classify::node_error(&error.clone().into())),
        Value::BulkString(text) => std::str::from_utf8(text).unwrap_or_default(),
        _ => "",
    };
    if rest == UNADMITTED {
        return Err(NodeError::Unadmitted);
    }
    // Redis 6 ends some errors with a line break of their own, such as that of a full memory.
    let lines = rest.bytes().filter(|byte| *byte == b'\n').count() + 1;
    if lines != count && lines != count + rest.matches("\r\n").count() {
        return Err(NodeError::Protocol { reply: format!("{value:?}") });
    }
    // Lines are short. `split` begins a search for each that is made for long ones.
    Ok(iter::from_fn(move || {
        let end = rest.bytes().position(|byte| byte == b'\n').unwrap_or(rest.len());
        let (line, behind) = rest.split_at(end);
        rest = behind.get(1..).unwrap_or_default();
        let Some(error) = line.strip_suffix('\r') else { return Some(line) };
        rest = rest.strip_prefix('\n').unwrap_or(rest);
        Some(error)
    }))
}

/// The reply of a node that is in another epoch.
const UNADMITTED: &str = "U";

fn decode_one(line: &str) -> Result<Reply, NodeError> {
    let unexpected = || NodeError::Protocol { reply: line.to_owned() };
    let Some((letter, detail)) = line.split_at_checked(1) else { return Err(unexpected()) };
    let number = |digits: &str| parse_number(digits).ok_or_else(unexpected);
    match letter {
        "H" | "A" | "S" => held(detail, letter).ok_or_else(unexpected),
        "T" => Ok(Reply::NotALock),
        "D" => Ok(Reply::Released),
        "N" => Ok(Reply::NotOwner),
        "L" => Ok(Reply::QueueLeft),
        "C" => Ok(Reply::Confirmed),
        "R" => Ok(Reply::Refused { fence: number(detail)? }),
        "K" => Ok(Reply::Kept),
        "B" => Ok(Reply::Barred),
        "G" => Ok(Reply::Gone),
        "E" => Err(classify::script_error(detail)),
        _ => Ok(Reply::Granted { token: number(line)? }),
    }
}

/// How long the lock is held, the position of the caller if it has one, and the slots that it may take instead.
fn held(detail: &str, letter: &str) -> Option<Reply> {
    let (detail, offer) = match detail.split_once(" s") {
        Some((detail, offer)) => (detail, Some(SlotOffer::parse(offer)?)),
        None => (detail, None),
    };
    let mut words = detail.split(' ');
    let remaining = match words.next()? {
        // A key that does not expire, or is just gone.
        "-1" | "-2" => None,
        millis => Some(Duration::from_millis(parse_number(millis).or_else(|| parse_far(millis))?)),
    };
    let position = match words.next() {
        Some(ahead) => Some(Position { ahead: ahead.parse().ok()?, anew: letter == "A" }),
        None => None,
    };
    Some(Reply::Held { remaining, stranger: letter == "S", position, offer })
}

/// The remaining time of a key that somebody else wrote and that is there for thousands of years, which Lua writes with an exponent.
fn parse_far(millis: &str) -> Option<u64> {
    let is_far = |millis: f64| (1e14..1e19).contains(&millis);
    (millis.contains('e') && millis.parse().is_ok_and(is_far)).then_some(MAX_TOKEN)
}

/// Whole milliseconds, rounded up: a key must not expire before its holder expects it to.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
