use std::num::NonZeroU64;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use redis::{Cmd, RedisWrite as _, Value};

use super::classify;
use crate::node::{Ballot, Establish, Keyspace, NodeError, Place, Reply, Request};
use crate::options::LONGEST_HOLD;
use crate::random::OwnerId;

/// A script and its hash, which is computed once.
pub(super) struct Script {
    source: &'static str,
    hash: String,
}

impl Script {
    fn new(source: &'static str) -> Self {
        Self { source, hash: redis::Script::new(source).get_hash().to_owned() }
    }
}

/// All votes go through one script, so that votes that come together are one call.
static BALLOTS: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("scripts/begin.lua"),
        include_str!("scripts/queue.lua"),
        include_str!("scripts/confirm.lua"),
        include_str!("scripts/extend.lua"),
        include_str!("scripts/replace.lua"),
        include_str!("scripts/end_of_rest.lua"),
        include_str!("scripts/acquire.lua"),
        include_str!("scripts/release.lua"),
        include_str!("scripts/ballots.lua"),
    ))
});

static ESTABLISH: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/establish.lua")));

/// The source of the script that is to be loaded on every connection before the first vote.
pub(super) fn source() -> &'static str {
    BALLOTS.source
}

/// How a script is named in a call.
#[derive(Clone, Copy)]
pub(super) enum By {
    /// `EVALSHA`, as always.
    Hash,
    /// `EVAL`, when the server has lost the script.
    Source,
}

impl Script {
    fn call(&self, by: By) -> Cmd {
        match by {
            By::Hash => redis::cmd("EVALSHA").arg(&self.hash).take(),
            By::Source => redis::cmd("EVAL").arg(self.source).take(),
        }
    }
}

/// Whether two ballots can travel in one call: what is told once must be the same.
pub(super) fn travel_together(one: &Ballot, other: &Ballot) -> bool {
    let same_keyspace = Arc::ptr_eq(one.keys.keyspace(), other.keys.keyspace());
    (one.epoch, one.waiter) == (other.epoch, other.waiter) && same_keyspace
}

/// The command that carries ballots that [travel together](travel_together).
pub(super) fn encode(first: &Ballot, others: &[&Ballot], by: By) -> Cmd {
    let mut command = BALLOTS.call(by);
    let ballots = || std::iter::once(first).chain(others.iter().copied());
    command.arg(2 + ballots().map(|ballot| keys(ballot).count()).sum::<usize>());
    command.arg(first.keys.keyspace().meta()).arg(first.keys.keyspace().quarantine());
    for key in ballots().flat_map(keys) {
        command.arg(key);
    }
    command.write_arg_fmt(first.epoch);
    command.arg(millis(LONGEST_HOLD));
    command.write_arg_fmt(first.waiter);
    for ballot in ballots() {
        encode_request(&mut command, &ballot.request);
    }
    command
}

/// The keys that a ballot is about, in the order in which its script has them.
fn keys(ballot: &Ballot) -> impl Iterator<Item = &str> {
    let keys = &ballot.keys;
    let (fence, queue) = match ballot.request {
        Request::Acquire { .. } => (true, true),
        Request::Confirm { .. } | Request::Replace { .. } => (true, false),
        Request::Extend { .. } => (false, false),
        Request::Release { .. } => (false, true),
    };
    let wanted = |key, wanted: bool| wanted.then_some(key);
    let beside = [wanted(keys.fence(), fence), wanted(keys.queue(), queue), wanted(keys.turn(), queue)];
    std::iter::once(keys.lock()).chain(beside.into_iter().flatten())
}

fn encode_request(command: &mut Cmd, request: &Request) {
    let begin = |command: &mut Cmd, kind: &str, owner: &OwnerId| {
        command.arg(kind);
        command.write_arg_fmt(owner);
    };
    match request {
        Request::Acquire { owner, ttl, hint, tokens, since } => {
            begin(command, "A", owner);
            let last = hint.saturating_add(u64::from(*tokens) - 1);
            command.arg(millis(*ttl)).arg(hint).arg(last).arg(since.map_or(0, NonZeroU64::get));
        }
        Request::Confirm { owner, fence } => {
            begin(command, "C", owner);
            command.arg(fence);
        }
        Request::Extend { owner, ttl } => {
            begin(command, "E", owner);
            command.arg(millis(*ttl));
        }
        Request::Replace { owner, ttl, fence } => {
            begin(command, "P", owner);
            command.arg(millis(*ttl)).arg(fence);
        }
        Request::Release { owner, place } => {
            begin(command, "R", owner);
            match place {
                Place::None => command.arg(""),
                Place::Leave => command.arg("leave"),
                Place::Keep(since) => command.arg(since.get()),
            };
        }
    }
}

/// The answers in what the server sent to `count` ballots.
pub(super) fn decode(value: Value, count: usize) -> Vec<Result<Reply, NodeError>> {
    let all = |error: NodeError| vec![Err(error); count];
    match value {
        Value::ServerError(error) => all(classify::node_error(&error.into())),
        Value::Array(values) if values == [Value::Int(UNADMITTED)] => all(NodeError::Unadmitted),
        Value::Array(values) if values.len() == 2 * count => {
            values.chunks_exact(2).map(|answer| decode_one(&answer[0], &answer[1])).collect()
        }
        other => all(unexpected(&other)),
    }
}

/// The one code that stands for all ballots; the others are in `begin.lua`.
const UNADMITTED: i64 = 0;

fn decode_one(code: &Value, detail: &Value) -> Result<Reply, NodeError> {
    let Value::Int(code) = code else { return Err(unexpected(code)) };
    if let (-1, Value::BulkString(error)) = (code, detail) {
        return Err(failed(&String::from_utf8_lossy(error)));
    }
    let Value::Int(number) = detail else { return Err(unexpected(detail)) };
    let fence = u64::try_from(*number).map_err(|_| unexpected(detail));
    let remaining = u64::try_from(*number).ok().map(Duration::from_millis);
    match code {
        1 => Ok(Reply::Granted { fence: fence? }),
        2 => Ok(Reply::Held { remaining }),
        3 => Err(NodeError::Quarantined { remaining: remaining.unwrap_or_default() }),
        4 => Ok(Reply::Confirmed),
        5 => Ok(Reply::Refused { fence: fence? }),
        6 => Ok(Reply::Kept),
        7 => Ok(Reply::Gone),
        8 => Ok(Reply::Released),
        9 => Ok(Reply::NotOwner),
        _ => Err(unexpected(&Value::Int(*code))),
    }
}

/// What made one ballot fail, in the form in which Redis tells errors: a code, if there is one, and words.
fn failed(error: &str) -> NodeError {
    let error = error.trim_start_matches('-');
    let (code, detail) = match error.split_once(' ') {
        Some((code, detail)) if code.chars().all(|c| c.is_ascii_uppercase()) => (code, detail),
        _ => ("ERR", error),
    };
    NodeError::Rejected { code: code.to_owned(), detail: detail.to_owned() }
}

/// The command that establishes a node.
pub(super) fn encode_establish(keyspace: &Keyspace, record: &Establish) -> Cmd {
    let expected = record.expected.map(|epoch| epoch.to_string()).unwrap_or_default();
    ESTABLISH
        .call(By::Source)
        .arg(2)
        .arg(keyspace.meta())
        .arg(keyspace.quarantine())
        .arg(expected)
        .arg(&record.run_id)
        .arg(record.epoch.to_string())
        .arg(record.config.format)
        .arg(record.config.nodes)
        .arg(millis(record.config.max_ttl))
        .arg(&record.config.name)
        .arg(millis(record.quarantine))
        .take()
}

fn unexpected(answer: &Value) -> NodeError {
    NodeError::Protocol { answer: format!("{answer:?}") }
}

/// Whole milliseconds, rounded up: a key must not expire before the holder thinks it does.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_never_rounded_down() {
        assert_eq!(millis(Duration::from_micros(100_001)), 101);
        assert_eq!(millis(Duration::from_millis(100)), 100);
        assert_eq!(millis(Duration::ZERO), 0);
    }

    #[test]
    fn an_answer_is_read_or_reported_as_it_came() {
        let answer = |code, number| decode(Value::Array(vec![Value::Int(code), Value::Int(number)]), 1).remove(0);
        assert_eq!(answer(1, 9_007_199_254_740_991), Ok(Reply::Granted { fence: 9_007_199_254_740_991 }));
        assert_eq!(answer(2, 1500), Ok(Reply::Held { remaining: Some(Duration::from_millis(1500)) }));
        assert_eq!(answer(2, -1), Ok(Reply::Held { remaining: None }));
        assert!(matches!(answer(1, -7), Err(NodeError::Protocol { .. })));
        assert!(matches!(answer(77, 7), Err(NodeError::Protocol { .. })));
        assert_eq!(decode(Value::Array(vec![Value::Int(0)]), 3), vec![Err(NodeError::Unadmitted); 3]);
        assert!(matches!(decode(Value::Nil, 1)[..], [Err(NodeError::Protocol { .. })]));
        assert!(matches!(decode(Value::Array(vec![Value::Int(8)]), 1)[..], [Err(NodeError::Protocol { .. })]));
    }

    #[test]
    fn a_ballot_that_failed_does_not_take_the_others_along() {
        let error = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let values = vec![Value::Int(-1), error("OOM command not allowed"), Value::Int(8), Value::Int(0)];
        let oom = NodeError::Rejected { code: "OOM".into(), detail: "command not allowed".into() };
        assert_eq!(decode(Value::Array(values), 2), [Err(oom), Ok(Reply::Released)]);
        let plain = NodeError::Rejected { code: "ERR".into(), detail: "extend: not a number".into() };
        assert_eq!(failed("extend: not a number"), plain);
    }
}
