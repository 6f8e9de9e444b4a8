use std::num::NonZeroU64;
use std::sync::LazyLock;
use std::time::Duration;

use redis::{Cmd, Value};

use super::classify;
use super::pipeline::{AcquireArgs, Batch};
use crate::node::{Establish, Keyspace, NodeError, Operation, QueuePosition, Reply, Request};

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
static VOTES: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("scripts/begin.lua"),
        include_str!("scripts/release.lua"),
        include_str!("scripts/busy.lua"),
        include_str!("scripts/queue.lua"),
        include_str!("scripts/confirm.lua"),
        include_str!("scripts/extend.lua"),
        include_str!("scripts/replace.lua"),
        include_str!("scripts/end_of_busy.lua"),
        include_str!("scripts/acquire.lua"),
    ))
});

static ESTABLISH: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/establish.lua")));

/// The source of the script that is to be loaded on every connection before the first vote.
pub(super) fn source() -> &'static str {
    VOTES.source
}

/// How a script is named in a call.
#[derive(Clone, Copy)]
pub(super) enum ScriptRef {
    /// `EVALSHA`, as always.
    Hash,
    /// `EVAL`, when the server has lost the script.
    Source,
}

impl Script {
    /// The beginning of a command that is to have so many words and bytes, or about so many.
    fn call(&self, script: ScriptRef, words: usize, bytes: usize) -> Cmd {
        let mut command = Cmd::with_capacity(words, bytes);
        match script {
            ScriptRef::Hash => command.arg("EVALSHA").arg(&self.hash),
            ScriptRef::Source => command.arg("EVAL").arg(self.source),
        };
        command
    }
}

/// The command that carries the ballots of a call.
pub(super) fn encode<T: AsRef<Request>>(batch: &Batch<T>, script: ScriptRef) -> Cmd {
    let requests = || batch.messages().map(AsRef::as_ref);
    let Some(first) = requests().next() else { return Cmd::new() };
    let (count, keyspace) = (requests().count(), first.keys.keyspace());
    let mut command = VOTES.call(script, 13 + 6 * count, 256 + 140 * count);
    command.arg(3 + count).arg(keyspace.record()).arg(keyspace.quarantine()).arg(keyspace.queued_locks());
    for request in requests() {
        command.arg(request.keys.lock_key());
    }
    command.arg(&first.epoch.hex()).arg(&first.waiter.hex());
    command.arg(batch.pairs).arg(batch.releases.len()).arg(batch.acquires.len());
    for message in &batch.acquires {
        command.arg(message.as_ref().keys.fence());
    }
    if let Some(position) = batch.position {
        command.arg(match position {
            QueuePosition::None => "",
            QueuePosition::Leave => "leave",
            QueuePosition::Keep(_) => "keep",
        });
    }
    for message in &batch.releases {
        if let Operation::Release { owner, position } = message.as_ref().operation {
            command.arg(&owner.hex());
            if let QueuePosition::Keep(since) = position {
                command.arg(since.get());
            }
        }
    }
    if let Some(AcquireArgs { ttl, tokens }) = batch.acquire_args {
        command.arg(millis(ttl)).arg(tokens);
    }
    for message in &batch.acquires {
        if let Operation::Acquire { owner, hint, tokens, since, .. } = message.as_ref().operation {
            let last = hint.saturating_add(u64::from(tokens) - 1);
            command.arg(&owner.hex()).arg(last).arg(since.map_or(0, NonZeroU64::get));
        }
    }
    for message in &batch.others {
        encode_other(&mut command, message.as_ref());
    }
    command
}

fn encode_other(command: &mut Cmd, Request { keys, operation, .. }: &Request) {
    match operation {
        Operation::Acquire { .. } | Operation::Release { .. } => {}
        Operation::LeaveQueue => _ = command.arg("L"),
        Operation::Confirm { owner, token } => {
            command.arg("C").arg(&owner.hex()).arg(token).arg(keys.fence());
        }
        Operation::Extend { owner, ttl } => {
            command.arg("E").arg(&owner.hex()).arg(millis(*ttl));
        }
        Operation::Replace { owner, ttl, token } => {
            command.arg("P").arg(&owner.hex()).arg(millis(*ttl)).arg(token).arg(keys.fence());
        }
    }
}

/// The answers in what the server sent to `count` ballots.
pub(super) fn decode(value: &Value, count: usize) -> Vec<Result<Reply, NodeError>> {
    let all = |error: NodeError| vec![Err(error); count];
    let text = match value {
        Value::ServerError(error) => return all(classify::node_error(&error.clone().into())),
        Value::BulkString(text) => std::str::from_utf8(text).unwrap_or_default(),
        _ => "",
    };
    if text == UNADMITTED {
        return all(NodeError::Unadmitted);
    }
    let mut answers = Vec::with_capacity(count);
    answers.extend(text.split('\n').map(decode_one));
    if answers.len() == count { answers } else { all(NodeError::Protocol { answer: format!("{value:?}") }) }
}

/// The answer of a node that is in another epoch.
const UNADMITTED: &str = "U";

fn decode_one(line: &str) -> Result<Reply, NodeError> {
    let unexpected = || NodeError::Protocol { answer: line.to_owned() };
    let Some((message, detail)) = line.split_at_checked(1) else { return Err(unexpected()) };
    let number = |digits: &str| digits.parse().map_err(|_| unexpected());
    // Negative for a key that does not expire.
    let remaining = || detail.parse().ok().map(Duration::from_millis);
    match message {
        "H" => Ok(Reply::Held { remaining: remaining() }),
        "Q" => Err(NodeError::Quarantined { remaining: remaining().unwrap_or_default() }),
        "D" => Ok(Reply::Released),
        "N" => Ok(Reply::NotOwner),
        "L" => Ok(Reply::QueueLeft),
        "C" => Ok(Reply::Confirmed),
        "R" => Ok(Reply::Refused { fence: number(detail)? }),
        "K" => Ok(Reply::Kept),
        "G" => Ok(Reply::Gone),
        "E" => Err(failed(detail)),
        _ => Ok(Reply::Granted { token: number(line)? }),
    }
}

/// What made one ballot fail, in the form in which Redis tells errors: a code, if there is one, and words. Redis 6 has the
/// line of the script before it: `@user_script: 12: -OOM ...`.
fn failed(error: &str) -> NodeError {
    let error = error.rsplit_once(": -").map_or(error, |(_line, error)| error).trim_start_matches('-');
    match error.split_once(' ') {
        Some((code, detail)) if code.chars().all(|c| c.is_ascii_uppercase()) => classify::told(code, detail),
        _ => classify::told("ERR", error),
    }
}

/// The command that establishes a node.
pub(super) fn encode_establish(keyspace: &Keyspace, record: &Establish) -> Cmd {
    let expected = record.expected.map(|epoch| epoch.to_string()).unwrap_or_default();
    ESTABLISH
        .call(ScriptRef::Source, 13, 1024)
        .arg(2)
        .arg(keyspace.record())
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

/// Whole milliseconds, rounded up: a key must not expire before the holder thinks it does.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Refusal;

    #[test]
    fn a_time_is_never_rounded_down() {
        assert_eq!(millis(Duration::from_micros(100_001)), 101);
        assert_eq!(millis(Duration::from_millis(100)), 100);
        assert_eq!(millis(Duration::ZERO), 0);
    }

    fn answers(text: &str, count: usize) -> Vec<Result<Reply, NodeError>> {
        decode(&Value::BulkString(text.as_bytes().to_vec()), count)
    }

    #[test]
    fn an_answer_is_read_or_reported_as_it_came() {
        let answer = |text| answers(text, 1).remove(0);
        assert_eq!(answer("9007199254740991"), Ok(Reply::Granted { token: 9_007_199_254_740_991 }));
        assert_eq!(answer("H1500"), Ok(Reply::Held { remaining: Some(Duration::from_millis(1500)) }));
        assert_eq!(answer("H-1"), Ok(Reply::Held { remaining: None }));
        for odd in ["-7", "1e15", "R", "Rx", "X7", "é", "D\nD", ""] {
            assert!(matches!(answer(odd), Err(NodeError::Protocol { .. })), "{odd:?}");
        }
        assert_eq!(answers("U", 3), vec![Err(NodeError::Unadmitted); 3]);
        assert!(matches!(decode(&Value::Nil, 1)[..], [Err(NodeError::Protocol { .. })]));
    }

    #[test]
    fn a_ballot_that_failed_does_not_take_the_others_along() {
        let oom = NodeError::Rejected { code: "OOM".into(), detail: "command not allowed".into() };
        assert_eq!(answers("EOOM command not allowed\nD", 2), [Err(oom), Ok(Reply::Released)]);
        let plain = NodeError::Rejected { code: "ERR".into(), detail: "the fence is used up".into() };
        assert_eq!(failed("the fence is used up"), plain);
        let denied = Refusal::Permission { detail: "no 'set'".into() };
        assert_eq!(failed("NOPERM no 'set'"), denied.clone().into());
        assert_eq!(failed("@user_script: 12: -NOPERM no 'set'"), denied.into(), "as Redis 6.2 has it");
    }
}
