//! When a node is inspected: at intervals while it is in good order, and at once when a reply, a broken connection or the end of a
//! quarantine gives reason to.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::first_contact::FIRST_CONTACT;
use super::{Cluster, MemberState};
use crate::error::{NodeError, Refusal};
use crate::node::{Inspection, NodeFuture};
use crate::quorum::{LogPositions, Outage, Standing};

/// How long an inspection or a step may take, connecting included.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How often a node in good order is inspected: this carries the cluster clock on, and finds a link that broke unnoticed.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// The first and the longest pause between attempts to reach a node; pauses double.
pub(super) const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// The shortest time between two inspections of a node, however many errors it replies with.
const MIN_PAUSE: Duration = Duration::from_millis(20);

impl Cluster {
    /// Inspects one node again and again.
    pub(super) async fn maintain_member(&self, node: usize) {
        let member = &self.members[node];
        let (mut backoff, mut is_away) = (BACKOFF.0, true);
        loop {
            let inspected = Instant::now();
            self.inspect(node).await;
            let standing = self.membership().standing(node, self.now());
            let was_away = std::mem::replace(&mut is_away, matches!(standing, Standing::Unreachable));
            if was_away && !is_away {
                // It answers again. What it has become, or what others make of it, is soon known.
                backoff = BACKOFF.0;
            }
            // Jitter, so that the clients of a node that comes back do not all come at once.
            let mut pause = self.random.jitter(backoff);
            backoff = (backoff * 2).min(BACKOFF.1);
            if matches!(standing, Standing::Admitted { .. }) {
                (pause, backoff) = (self.random.jitter(CHECK_INTERVAL), BACKOFF.0);
            }
            // Not by the pause of a node that votes: every second after the end of its quarantine, the set has one vote less than
            // it could.
            if let Some(ends) = self.membership().next_quarantine_end(node, self.now()) {
                pause = ends.clamp(MIN_PAUSE, CHECK_INTERVAL);
            }
            tokio::select! {
                biased;
                () = member.node.disconnected(), if !is_away => {
                    let reason = match member.node.last_words() {
                        Some(words) => format!("connection lost: {words}"),
                        None => "connection lost".into(),
                    };
                    self.unreachable(node, NodeError::Unreachable { reason });
                }
                () = member.recheck.notified() => {}
                () = sleep(pause) => {}
                () = self.keep_tested(node) => {}
            }
            // However often something asks for it: of a node that refuses every request, inspections would never end.
            sleep_until(inspected + MIN_PAUSE).await;
        }
    }

    /// Inspects a node and tells the membership.
    pub(super) async fn inspect(&self, node: usize) {
        // Before the question: what another inspection learns meanwhile must not be held against this answer.
        let asked = self.membership().log_positions();
        match within_timeout(self.members[node].node.inspect(&self.keyspace)).await.and_then(Inspection::check) {
            Ok(seen) => self.inspected(node, &asked, seen),
            Err(error) => {
                // Its name may lead to another server by now: to the new primary. The connection does not break when a server becomes a
                // replica.
                if error == NodeError::Refused(Refusal::Replica) {
                    self.members[node].node.disconnect();
                }
                self.unreachable(node, error);
            }
        }
    }

    /// Forgets what was found out over connections that are gone.
    pub(super) fn forget_inspections(&self) {
        self.has_contact.store(false, Ordering::Release);
        for (node, member) in self.members.iter().enumerate() {
            let mut last = member.last_inspection.lock();
            (last.error, last.is_elsewhere) = (None, false);
            last.record.resolve();
            drop(last);
            member.test_vote.lock().disconnected();
            self.membership().forget(node);
            // The task that paused it may be gone.
            self.membership().pause(node, false);
            member.state.replace(MemberState::Joining);
        }
        *self.answers.outage() = Outage::expecting(self.now() + FIRST_CONTACT);
        self.note_quorum();
    }

    /// Lets [`maintain_member`](Self::maintain_member) inspect a node now, and decide again when that has to be done next. What
    /// another task found out about the node may shorten half a minute to the end of a quarantine, or to the pause before a node
    /// that is gone is looked for.
    pub(crate) fn reschedule(&self, node: usize) {
        self.members[node].recheck.notify_one();
    }

    /// Inspects all nodes.
    pub(crate) async fn inspect_all(&self) {
        join_all((0..self.size()).map(|node| async move {
            self.inspect(node).await;
            self.reschedule(node);
        }))
        .await;
        self.publish(false);
    }

    fn inspected(&self, node: usize, asked: &LogPositions, seen: Inspection) {
        let mut last = self.members[node].last_inspection.lock();
        (last.clock, last.error) = (Some((seen.clock_micros, Instant::now())), None);
        last.is_elsewhere = false;
        drop(last);
        self.membership().observe_since(asked, node, Some(seen), self.now());
        self.set_clock();
        self.changed.notify_one();
    }

    pub(super) fn unreachable(&self, node: usize, error: NodeError) {
        let error = if error == NodeError::TimedOut { self.timed_out(node) } else { error };
        self.members[node].last_inspection.lock().error = Some(error);
        self.members[node].test_vote.lock().disconnected();
        self.membership().observe(node, None, self.now());
        self.publish(false);
        self.changed.notify_one();
    }
}

/// An answer, or the error that it took too long.
pub(super) async fn within_timeout<T>(answer: NodeFuture<Result<T, NodeError>>) -> Result<T, NodeError> {
    timeout(TIMEOUT, answer).await.unwrap_or(Err(NodeError::TimedOut))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{LockManager, MemoryNode};

    #[tokio::test(start_paused = true)]
    async fn a_quarantine_ends_when_two_nodes_can_say_so_and_not_at_their_next_inspection() {
        let nodes: Vec<_> = (0..3).map(|_| MemoryNode::new()).collect();
        let builder = LockManager::builder().nodes(nodes.clone()).max_ttl(Duration::from_secs(1));
        let locks = builder.connect().await.unwrap();
        nodes[2].forget();
        assert!(!locks.health().await.nodes[2].admitted);
        tokio::time::sleep(Duration::from_millis(900)).await;
        assert!(!locks.health().await.nodes[2].admitted);
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert!(locks.health().await.nodes[2].admitted);
    }
}
