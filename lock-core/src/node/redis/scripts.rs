use std::num::NonZeroU64;
use std::sync::LazyLock;
use std::time::Duration;

use redis::{Cmd, Value};

use super::calls::{Call, Terms};
use super::classify;
use crate::node::{Ballot, Establish, Keyspace, NodeError, Place, Reply, Request};

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
    /// The beginning of a command that is to have so many words and bytes, or about so many.
    fn call(&self, by: By, words: usize, bytes: usize) -> Cmd {
        let mut command = Cmd::with_capacity(words, bytes);
        match by {
            By::Hash => command.arg("EVALSHA").arg(&self.hash),
            By::Source => command.arg("EVAL").arg(self.source),
        };
        command
    }
}

/// The command that carries the ballots of a call.
pub(super) fn encode<T: AsRef<Ballot>>(call: &Call<T>, by: By) -> Cmd {
    let ballots = || call.letters().map(AsRef::as_ref);
    let Some(first) = ballots().next() else { return Cmd::new() };
    let (count, keyspace) = (ballots().count(), first.keys.keyspace());
    let mut command = BALLOTS.call(by, 13 + 6 * count, 256 + 140 * count);
    command.arg(3 + count).arg(keyspace.meta()).arg(keyspace.quarantine()).arg(keyspace.queued());
    for ballot in ballots() {
        command.arg(ballot.keys.lock());
    }
    command.arg(&first.epoch.hex()).arg(&first.waiter.hex());
    command.arg(call.pairs).arg(call.releases.len()).arg(call.acquires.len());
    for letter in &call.acquires {
        command.arg(letter.as_ref().keys.fence());
    }
    if let Some(place) = call.place {
        command.arg(match place {
            Place::None => "",
            Place::Leave => "leave",
            Place::Keep(_) => "keep",
        });
    }
    for letter in &call.releases {
        if let Request::Release { owner, place } = letter.as_ref().request {
            command.arg(&owner.hex());
            if let Place::Keep(since) = place {
                command.arg(since.get());
            }
        }
    }
    if let Some(Terms { ttl, tokens }) = call.terms {
        command.arg(millis(ttl)).arg(tokens);
    }
    for letter in &call.acquires {
        if let Request::Acquire { owner, hint, tokens, since, .. } = letter.as_ref().request {
            let last = hint.saturating_add(u64::from(tokens) - 1);
            command.arg(&owner.hex()).arg(last).arg(since.map_or(0, NonZeroU64::get));
        }
    }
    for letter in &call.others {
        encode_other(&mut command, letter.as_ref());
    }
    command
}

fn encode_other(command: &mut Cmd, Ballot { keys, request, .. }: &Ballot) {
    match request {
        Request::Acquire { .. } | Request::Release { .. } => {}
        Request::Confirm { owner, fence } => {
            command.arg("C").arg(&owner.hex()).arg(fence).arg(keys.fence());
        }
        Request::Extend { owner, ttl } => {
            command.arg("E").arg(&owner.hex()).arg(millis(*ttl));
        }
        Request::Replace { owner, ttl, fence } => {
            command.arg("P").arg(&owner.hex()).arg(millis(*ttl)).arg(fence).arg(keys.fence());
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
    let Some((letter, detail)) = line.split_at_checked(1) else { return Err(unexpected()) };
    let fence = |digits: &str| digits.parse().map_err(|_| unexpected());
    // Negative for a key that does not expire.
    let remaining = || detail.parse().ok().map(Duration::from_millis);
    match letter {
        "H" => Ok(Reply::Held { remaining: remaining() }),
        "Q" => Err(NodeError::Quarantined { remaining: remaining().unwrap_or_default() }),
        "D" => Ok(Reply::Released),
        "N" => Ok(Reply::NotOwner),
        "C" => Ok(Reply::Confirmed),
        "R" => Ok(Reply::Refused { fence: fence(detail)? }),
        "K" => Ok(Reply::Kept),
        "G" => Ok(Reply::Gone),
        "E" => Err(failed(detail)),
        _ => Ok(Reply::Granted { fence: fence(line)? }),
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
        .call(By::Source, 13, 1024)
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
        assert_eq!(answer("9007199254740991"), Ok(Reply::Granted { fence: 9_007_199_254_740_991 }));
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
