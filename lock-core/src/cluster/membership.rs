//! Carries out the steps that [`Membership`](crate::quorum::Membership) decides on, beside the inspections that it decides by.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Instant, sleep, sleep_until};

use super::inspecting::{BACKOFF, CHECK_INTERVAL, within_timeout};
use super::{Cluster, NodeSet};
use crate::error::NodeError;
use crate::node::FenceReading;
use crate::quorum::MembershipStep;
use crate::task::OnDrop;

/// How long a client leaves it to the one that chose a roster to read the fences. That keeps a node busy for some milliseconds.
const OTHERS_READ_FENCES: Duration = Duration::from_secs(2);

impl Cluster {
    /// Keeps the state of all nodes up to date until the manager is dropped.
    pub(crate) async fn maintain(self: Arc<Self>) {
        let inspecting = join_all((0..self.size()).map(|node| self.maintain_member(node)));
        tokio::select! {
            biased;
            _ = inspecting => {}
            () = self.carry_out_steps() => {}
            () = self.compare_shards() => {}
            () = self.stop.cancelled() => {}
        }
    }

    /// Carries out what the membership decides on, at most one step per node at a time.
    async fn carry_out_steps(&self) {
        let (mut running, mut busy) = (FuturesUnordered::new(), NodeSet::default());
        let mut fences = None;
        loop {
            let (steps, mut again_at) = self.next_steps();
            for step in steps {
                let (MembershipStep::Write { node, .. } | MembershipStep::ReadFence { node, .. }) = step;
                if let MembershipStep::ReadFence { roster, .. } = step {
                    // One client that reads them is enough. The others wait for a while whether the one that chose the roster
                    // does.
                    if fences.is_none_or(|(of, _)| of != roster) {
                        fences = Some((roster, self.may_read_fences_at()));
                    }
                    if let Some((_, at)) = fences.filter(|(_, at)| *at > Instant::now()) {
                        again_at = again_at.min(at);
                        continue;
                    }
                }
                if !busy.contains(node) {
                    busy.insert(node);
                    running.push(async move {
                        self.carry_out(step).await;
                        node
                    });
                }
            }
            // Only when nothing is under way is a node refused to callers that wait for the first contact: a set that forms is
            // made of such steps.
            self.publish(!running.is_empty() || self.is_comparing());
            tokio::select! {
                biased;
                Some(node) = running.next() => busy.remove(node),
                () = self.changed.notified() => {}
                () = sleep_until(again_at) => {}
            }
        }
    }

    fn may_read_fences_at(&self) -> Instant {
        let pause =
            if self.membership().chose_roster() { Duration::ZERO } else { self.random.jitter(OTHERS_READ_FENCES) };
        Instant::now() + pause
    }

    /// What is to be done now, and when to ask again if nothing changes.
    fn next_steps(&self) -> (Vec<MembershipStep>, Instant) {
        let (now, clock) = (self.now(), self.clock());
        let mut membership = self.membership();
        let may_act = membership.roster().is_some() || self.may_form();
        let steps = match may_act {
            true => membership.steps(now, clock, &mut || self.random.number()),
            false => Vec::new(),
        };
        let pause = membership.proposes_at().checked_sub(now).filter(|pause| !pause.is_zero());
        (steps, Instant::now() + pause.unwrap_or(CHECK_INTERVAL))
    }

    async fn carry_out(&self, step: MembershipStep) {
        let (MembershipStep::Write { node, .. } | MembershipStep::ReadFence { node, .. }) = step;
        let (member, keyspace) = (&self.members[node], &self.keyspace);
        let begins_quarantine = matches!(&step, MembershipStep::Write { write, .. } if !write.begin.is_empty());
        let outcome = match step {
            MembershipStep::Write { write, .. } => {
                let written = within_timeout(member.node.write_record(keyspace, write.clone())).await;
                written.map(|record| {
                    let record = record?;
                    super::events::written(member.node.name(), &write, &record);
                    self.membership().written(node, record, self.now());
                    Some(())
                })
            }
            MembershipStep::ReadFence { roster, .. } => {
                let reading = within_timeout(member.node.read_fences(keyspace)).await;
                reading.and_then(FenceReading::check).map(|reading| {
                    self.membership().fence_read(node, roster, reading?);
                    Some(())
                })
            }
        };
        match outcome {
            // A node that begins a quarantine has to be inspected when that ends.
            Ok(Some(())) => {
                member.last_inspection.lock().record.resolve();
                if !begins_quarantine {
                    return;
                }
            }
            // Another client was faster.
            Ok(None) => self.inspect(node).await,
            Err(error @ (NodeError::Unreachable { .. } | NodeError::ConnectionLost { .. } | NodeError::TimedOut)) => {
                self.unreachable(node, error);
            }
            // It answers, and would answer the same again.
            Err(error) => {
                if member.last_inspection.lock().record.note(&error) {
                    super::events::step_failed(member.node.name(), &error);
                }
                // No step is carried out on the node until this is dropped: also if the background work moves to another runtime.
                self.membership().pause(node, true);
                let _resume = OnDrop(|| self.membership().pause(node, false));
                // Wakes callers that wait for the set to be formed.
                self.changed.notify_one();
                sleep(self.random.jitter(BACKOFF.1)).await;
            }
        }
        self.reschedule(node);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{LockManager, MemoryNode};

    #[tokio::test(start_paused = true)]
    async fn a_node_on_which_a_step_failed_is_inspected_again_soon() {
        let nodes: Vec<_> = (0..3).map(|_| MemoryNode::new()).collect();
        let locks = LockManager::builder().nodes(nodes.clone()).connect().await.unwrap();
        nodes[2].forget();
        assert!(!locks.health().await.nodes[2].admitted);
        // Its promise is missing for the change of the roster.
        nodes[0].set_delay(Duration::from_secs(3600));
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(!locks.health().await.nodes[0].admitted);
        nodes[0].set_delay(Duration::ZERO);
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(locks.health().await.nodes[0].admitted);
    }
}
