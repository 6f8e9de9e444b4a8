//! Test votes: whether a node that is admitted would grant and renew a lock.

use std::future::pending;
use std::time::Duration;

use futures_util::future::join3;
use tokio::time::{Instant, sleep_until, timeout};

use super::{Cluster, Complaint, MemberState, events};
use crate::error::NodeError;
use crate::node::{Kind, Operation, QueuePosition, Reply, ReplySender};
use crate::quorum::RollCall;
use crate::random::{Epoch, Random};

/// How long a node may take for a test vote.
const TIMEOUT: Duration = Duration::from_secs(1);
/// How long the key of a test vote lives if it is neither extended nor released.
const TTL: Duration = Duration::from_millis(100);
/// How long it lives after its extension: longer than before, because only then does a node set the time to live.
const EXTENDED_TTL: Duration = Duration::from_millis(150);
/// The first and the longest pause of a manager before it tests a node again that granted nothing; pauses double.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(30));

/// What came of the test votes of a node.
#[derive(Default)]
pub(super) struct TestVote {
    /// The epoch in which the last one was cast over the present connection.
    cast_in: Option<Epoch>,
    /// Why it was no grant.
    complaint: Complaint,
    /// The pause before the next one, without jitter, and when it ends; unless one is granted before.
    backoff: Option<(Duration, Instant)>,
}

impl TestVote {
    /// The connection is gone. Behind the next one there may be a server with other settings.
    pub(super) fn disconnected(&mut self) {
        self.cast_in = None;
    }

    /// Whether there is a result for this epoch, and which.
    fn result(&self, epoch: Epoch) -> Option<Result<(), NodeError>> {
        (self.cast_in == Some(epoch)).then(|| self.complaint.cause().map_or(Ok(()), |cause| Err(cause.clone())))
    }

    /// Begins the pause after a test vote that is being cast.
    fn back_off(&mut self, random: &Random) {
        let pause = self.backoff.map_or(BACKOFF.0, |(last, _)| (last * 2).min(BACKOFF.1));
        self.backoff = Some((pause, Instant::now() + random.jitter(pause)));
    }

    /// Notes what came of a test vote. Returns whether that is news: another cause than before, or the end of one.
    fn note(&mut self, epoch: Epoch, outcome: &Result<(), NodeError>) -> bool {
        match outcome {
            Ok(()) => {
                (self.cast_in, self.backoff) = (Some(epoch), None);
                self.complaint.resolve()
            }
            Err(
                error @ (NodeError::Rejected { .. }
                | NodeError::Elsewhere { .. }
                | NodeError::Refused(_)
                | NodeError::Protocol { .. }
                | NodeError::NotReplicated { .. }),
            ) => {
                self.cast_in = Some(epoch);
                self.complaint.note(error)
            }
            // A reason, but no answer: it may go away at any time, so the next caller that asks has another test vote cast.
            Err(error @ NodeError::HeldUp { .. }) => {
                self.cast_in = None;
                self.complaint.note(error)
            }
            // No answer of the node. What comes of the connection is reported by the inspections.
            Err(_) => false,
        }
    }
}

impl Cluster {
    /// Has a node cast a test vote: a lock that nobody else can ask for is acquired, extended and released, by the requests that any
    /// lock is acquired, extended and released with. So whatever keeps the node from granting or renewing locks keeps it from
    /// this, too.
    ///
    /// This changes nothing for anyone. The key lives for 150 ms if the release does not arrive, and the node counts test votes with
    /// a fence of their own. A node in quarantine is not asked.
    ///
    /// # Errors
    ///
    /// Why the node would grant no lock, or not renew it. The log has an event for each new cause.
    pub(crate) async fn test_vote(&self, node: usize) -> Result<(), NodeError> {
        // The epoch is the one of this state. If the node is admitted again meanwhile, the result is not noted for what it has
        // become.
        let state = self.state(node);
        let MemberState::Admitted { epoch, .. } = state else {
            return Err(state.problem().unwrap_or(NodeError::Unadmitted));
        };
        let owner = self.random.owner();
        let keys = self.keyspace.test_keys(owner);
        let acquire = Operation::Acquire { owner, ttl: TTL, hint: 0, tokens: 1, since: None, kind: Kind::Write };
        let extend = Operation::Extend { owner, ttl: EXTENDED_TTL };
        let release = Operation::Release { owner, position: QueuePosition::None };
        // All are submitted before the first reply is awaited: dropped at any point, this leaves nothing behind.
        let [acquired, extended, released] = [acquire, extend, release].map(|operation| {
            let (reply_to, reply) = ReplySender::channel();
            self.send(node, &mut RollCall::by_any_roster(), &keys, operation, reply_to, None);
            reply
        });
        let outcome = match timeout(TIMEOUT, join3(acquired, extended, released)).await {
            Ok(
                (Ok(Reply::Granted { .. }), Ok(Reply::Kept), Ok(Reply::Released))
                // The key expired before it was released, or before it was extended.
                | (Ok(Reply::Granted { .. }), Ok(Reply::Kept | Reply::Gone), Ok(Reply::NotOwner)),
            ) => Ok(()),
            Ok((Err(error), _, _) | (_, Err(error), _) | (_, _, Err(error))) => Err(error),
            Ok(replies) => Err(NodeError::Protocol { reply: format!("{replies:?}") }),
            Err(_) => Err(self.timed_out(node)),
        };
        if let Err(error) = &outcome {
            self.report(node, error);
        }
        self.note_test_vote(node, epoch, &outcome);
        outcome
    }

    /// The result of the test vote that a node has cast since it was admitted; otherwise has it cast one.
    ///
    /// # Errors
    ///
    /// Why the node would not grant a lock, or not renew it.
    pub(crate) async fn test_vote_since_admission(&self, node: usize) -> Result<(), NodeError> {
        let result = match self.state(node) {
            MemberState::Admitted { epoch, .. } => self.members[node].test_vote.lock().result(epoch),
            _ => None,
        };
        match result {
            Some(result) => result,
            None => self.test_vote(node).await,
        }
    }

    /// Has a node cast a test vote when it is admitted, unless it has granted one since then. Never resolves: the result changes
    /// nothing about when the node is inspected.
    ///
    /// A node may pass every inspection and fail every test vote: behind a proxy that cuts scripts, say. Each failure leads to another
    /// inspection, so test votes back off. The pause begins with the vote, since this is dropped if the connection is lost.
    pub(super) async fn keep_tested(&self, node: usize) {
        let member = &self.members[node];
        let backoff = member.test_vote.lock().backoff;
        if let Some((_, ends)) = backoff {
            sleep_until(ends).await;
        }
        self.wait_until_reachable(node).await;
        if let MemberState::Admitted { epoch, .. } = self.state(node)
            && member.test_vote.lock().result(epoch) != Some(Ok(()))
        {
            member.test_vote.lock().back_off(&self.random);
            _ = self.test_vote(node).await;
        }
        pending::<()>().await;
    }

    fn note_test_vote(&self, node: usize, epoch: Epoch, outcome: &Result<(), NodeError>) {
        let member = &self.members[node];
        // Logged when nothing is locked any more: a subscriber may ask for the health.
        let is_news = member.test_vote.lock().note(epoch, outcome);
        match outcome {
            Ok(()) if is_news => events::votes_again(member.node.name()),
            Err(error) if is_news => events::cannot_vote(member.node.name(), error),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::thread;

    use tokio_util::sync::CancellationToken;
    use tracing::{Event, Metadata, Subscriber, span};

    use super::*;
    use crate::cluster::Beside;
    use crate::error::Refusal;
    use crate::node::{Keyspace, LockNode, MemoryNode};
    use crate::quorum::MembershipConfig;

    /// A cluster of one node.
    fn cluster() -> Cluster {
        let node = MemoryNode::new();
        let config = MembershipConfig::of([node.name()]);
        let random = Arc::new(Random::from_seed(1));
        let (nodes, stop) = (vec![Arc::new(node) as Arc<dyn LockNode>], CancellationToken::new());
        Cluster::new(nodes, Keyspace::new(""), config, Beside::alone(), random, Arc::default(), stop)
    }

    /// Asks for the state of the node's test votes while it takes an event.
    struct Curious {
        cluster: Arc<Cluster>,
        answered: mpsc::Sender<bool>,
    }

    impl Subscriber for Curious {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.is_event() && metadata.name().starts_with("lock.")
        }

        fn event(&self, _: &Event<'_>) {
            let (cluster, (asked, asking)) = (Arc::clone(&self.cluster), mpsc::channel());
            thread::spawn(move || {
                asked.send(cluster.members[0].test_vote.lock().result(Epoch::from_bits(1)).is_some())
            });
            _ = self.answered.send(asking.recv_timeout(Duration::from_secs(10)) == Ok(true));
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }

    #[test]
    fn nothing_is_locked_while_a_result_is_logged() {
        let cluster = Arc::new(cluster());
        let (answered, answers) = mpsc::channel();
        let curious = Curious { cluster: Arc::clone(&cluster), answered };
        tracing::subscriber::with_default(curious, || {
            for outcome in [Err(Refusal::Replica.into()), Ok(())] {
                cluster.note_test_vote(0, Epoch::from_bits(1), &outcome);
            }
        });
        assert_eq!(answers.iter().collect::<Vec<_>>(), [true, true]);
    }
}
