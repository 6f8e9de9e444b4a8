use std::sync::LazyLock;
use std::time::Duration;

use redis::{Cmd, Value};

use super::classify;
use crate::node::{Ballot, Establish, Keyspace, NodeError, Reply, Request};
use crate::options::LONGEST_HOLD;

/// A script and its hash, which is computed once.
pub(super) struct Script {
    source: &'static str,
    hash: String,
}

macro_rules! script {
    ($name:ident, $file:literal) => {
        static $name: LazyLock<Script> = LazyLock::new(|| {
            let source = include_str!(concat!("scripts/", $file));
            Script { source, hash: redis::Script::new(source).get_hash().to_owned() }
        });
    };
}

script!(ACQUIRE, "acquire.lua");
script!(CONFIRM, "confirm.lua");
script!(EXTEND, "extend.lua");
script!(REPLACE, "replace.lua");
script!(RELEASE, "release.lua");
script!(ESTABLISH, "establish.lua");

/// The sources of all scripts, to be loaded on every connection before the first vote.
pub(super) fn sources() -> [&'static str; 6] {
    [&ACQUIRE, &CONFIRM, &EXTEND, &REPLACE, &RELEASE, &ESTABLISH].map(|script| script.source)
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

/// The command that carries a ballot.
pub(super) fn encode(ballot: &Ballot, by: By) -> Cmd {
    let keys = &ballot.keys;
    let begin = |script: &Script| {
        let mut command = script.call(by);
        let quarantine = matches!(ballot.request, Request::Acquire { .. }).then(|| keys.keyspace().quarantine());
        command.arg(3 + usize::from(quarantine.is_some())).arg(keys.lock()).arg(keys.fence());
        command.arg(keys.keyspace().meta()).arg(quarantine).arg(ballot.epoch.to_string());
        command
    };
    let retention = millis(LONGEST_HOLD);
    match ballot.request {
        Request::Acquire { owner, ttl, hint } => {
            begin(&ACQUIRE).arg(owner.to_string()).arg(millis(ttl)).arg(hint).arg(retention).take()
        }
        Request::Confirm { owner, fence } => begin(&CONFIRM).arg(owner.to_string()).arg(fence).arg(retention).take(),
        Request::Extend { owner, ttl } => begin(&EXTEND).arg(owner.to_string()).arg(millis(ttl)).take(),
        Request::Replace { owner, ttl, fence } => {
            begin(&REPLACE).arg(owner.to_string()).arg(millis(ttl)).arg(fence).arg(retention).take()
        }
        Request::Release { owner } => begin(&RELEASE).arg(owner.to_string()).take(),
    }
}

/// The answer in what the server sent to a ballot.
pub(super) fn decode(value: Value) -> Result<Reply, NodeError> {
    let words: Vec<String> = match value {
        Value::ServerError(error) => return Err(classify::node_error(&error.into())),
        value => redis::from_redis_value(value).map_err(|error| unexpected(&error))?,
    };
    let number = || {
        let text = words.get(1).map_or("", String::as_str);
        text.parse::<i64>().map_err(|_| unexpected(&words.join(" ")))
    };
    let fence = || number().and_then(|fence| u64::try_from(fence).map_err(|_| unexpected(&words.join(" "))));
    match words.first().map_or("", String::as_str) {
        "GRANTED" => Ok(Reply::Granted { fence: fence()? }),
        "HELD" => Ok(Reply::Held { remaining: u64::try_from(number()?).ok().map(Duration::from_millis) }),
        "CONFIRMED" => Ok(Reply::Confirmed),
        "REFUSED" => Ok(Reply::Refused { fence: fence()? }),
        "KEPT" => Ok(Reply::Kept),
        "GONE" => Ok(Reply::Gone),
        "RELEASED" => Ok(Reply::Released),
        "NOT_OWNER" => Ok(Reply::NotOwner),
        "UNADMITTED" => Err(NodeError::Unadmitted),
        "QUARANTINED" => {
            let remaining = Duration::from_millis(u64::try_from(number()?).unwrap_or_default());
            Err(NodeError::Quarantined { remaining })
        }
        _ => Err(unexpected(&words.join(" "))),
    }
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

fn unexpected(answer: &impl ToString) -> NodeError {
    NodeError::Protocol { answer: answer.to_string() }
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
        let answer = |words: &[&str]| {
            decode(Value::Array(words.iter().map(|word| Value::BulkString(word.as_bytes().to_vec())).collect()))
        };
        assert_eq!(answer(&["GRANTED", "9007199254740991"]), Ok(Reply::Granted { fence: 9_007_199_254_740_991 }));
        assert_eq!(answer(&["HELD", "1500"]), Ok(Reply::Held { remaining: Some(Duration::from_millis(1500)) }));
        assert_eq!(answer(&["HELD", "-1"]), Ok(Reply::Held { remaining: None }));
        assert_eq!(answer(&["UNADMITTED"]), Err(NodeError::Unadmitted));
        assert_eq!(answer(&["WHAT", "7"]), Err(NodeError::Protocol { answer: "WHAT 7".into() }));
        assert!(matches!(answer(&["GRANTED", "many"]), Err(NodeError::Protocol { .. })));
        assert!(matches!(decode(Value::Nil), Err(NodeError::Protocol { .. })));
    }
}
