use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisResult, Value};
use thiserror::Error;

use super::classify::node_error;
use crate::limits::OutOfRange;
use crate::node::{NodeError, Reply};

/// The most replicas that a vote can be made to wait for.
const MAX_REPLICAS: u32 = 16;
/// How long a vote may be made to wait for them. Not so long that an inspection behind it fails.
const TIMEOUTS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(250));

/// How many replicas have to acknowledge a vote before it counts, and how long they are given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replication {
    replicas: u32,
    pub(super) timeout: Duration,
}

/// What `replicated` was given cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidReplication {
    /// The number of replicas is out of range.
    #[error(transparent)]
    Replicas(#[from] OutOfRange<u32>),
    /// The time that they are given is out of range.
    #[error(transparent)]
    Timeout(#[from] OutOfRange),
}

impl Replication {
    pub(super) fn new(replicas: u32, timeout: Duration) -> Result<Self, InvalidReplication> {
        OutOfRange::check("the number of replicas that a vote waits for", replicas, 1, MAX_REPLICAS)?;
        OutOfRange::check("the timeout of replicated", timeout, TIMEOUTS.0, TIMEOUTS.1)?;
        Ok(Self { replicas, timeout })
    }

    /// Sends a command, and waits for the replicas on the same connection: `WAIT` counts those that have all that was written over
    /// it. Returns the reply, and whether enough of them have.
    pub(super) async fn send(
        self,
        connection: &mut MultiplexedConnection,
        command: Cmd,
    ) -> RedisResult<(Value, Result<(), NodeError>)> {
        let mut pipeline = Pipeline::new();
        pipeline.add_command(command);
        pipeline.cmd("WAIT").arg(self.replicas).arg(u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX));
        let mut answers = connection.send_packed_commands(&pipeline, 0, 2).await?.into_iter();
        let (reply, acknowledged) = (answers.next().unwrap_or(Value::Nil), answers.next().unwrap_or(Value::Nil));
        Ok((reply, self.check(acknowledged)))
    }

    fn check(&self, acknowledged: Value) -> Result<(), NodeError> {
        let Self { replicas, timeout } = self;
        let detail = match acknowledged {
            Value::Int(count) if count >= i64::from(*replicas) => return Ok(()),
            Value::Int(count) => format!("{count} of {replicas} replicas acknowledged it within {timeout:?}"),
            Value::ServerError(error) => format!("WAIT: {}", node_error(&error.into())),
            other => format!("WAIT: {other:?}"),
        };
        Err(NodeError::NotReplicated { detail })
    }
}

/// The reply, unless it is a vote for the caller that too few replicas have.
pub(super) fn if_replicated(
    reply: Result<Reply, NodeError>,
    replicated: &Result<(), NodeError>,
) -> Result<Reply, NodeError> {
    match (&reply, replicated) {
        (Ok(Reply::Granted { .. } | Reply::Confirmed | Reply::Kept | Reply::Barred), Err(error)) => Err(error.clone()),
        _ => reply,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vote_for_the_caller_needs_the_replicas_and_any_other_reply_does_not() {
        let replication = Replication::new(2, Duration::from_millis(50)).unwrap();
        assert_eq!(replication.check(Value::Int(2)), Ok(()));
        let too_few = replication.check(Value::Int(1));
        let error = too_few.clone().unwrap_err();
        assert!(error.to_string().contains("1 of 2 replicas acknowledged it within 50ms"), "{error}");
        assert!(error.may_have_executed(), "so that it is released");
        for vote in [Reply::Granted { token: 1 }, Reply::Confirmed, Reply::Kept, Reply::Barred] {
            assert_eq!(if_replicated(Ok(vote), &too_few), Err(error.clone()));
            assert_eq!(if_replicated(Ok(vote), &Ok(())), Ok(vote));
        }
        for other in [Reply::Gone, Reply::Released, Reply::Refused { fence: 1 }] {
            assert_eq!(if_replicated(Ok(other), &too_few), Ok(other));
        }
    }
}
