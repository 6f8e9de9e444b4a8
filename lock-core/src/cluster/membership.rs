use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{Cluster, MemberState};
use crate::error::{NodeError, Refusal};
use crate::node::{Establish, Inspection};
use crate::quorum::{Admission, Census, admit, census, clock_lag, majority};
use crate::random::Epoch;

/// How long an inspection may take, connecting included.
const INSPECTION_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a node in good order is inspected: this carries the cluster clock on, and finds a link that broke unnoticed.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// The first and the longest pause between attempts to reach a node; pauses double.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// The shortest time between two inspections of a node, however many errors it replies with.
const MIN_PAUSE: Duration = Duration::from_millis(20);
/// How long a census goes on after a majority has answered.
const COUNT_GRACE: Duration = Duration::from_millis(100);
/// How long another client is given to finish the first start of the set, before a node without a record is assumed to have
/// lost it.
const FIRST_START_GRACE: Duration = Duration::from_millis(250);
/// How often a node's record may change during an inspection before the inspection is postponed.
const MAX_CHANGES: usize = 5;

impl Cluster {
    /// Keeps the state of all nodes up to date until the manager is dropped.
    pub(super) async fn maintain(self: Arc<Self>) {
        let maintaining = join_all((0..self.size()).map(|node| self.maintain_member(node)));
        tokio::select! {
            biased;
            _ = maintaining => {}
            () = self.stop.cancelled() => {}
        }
    }

    async fn maintain_member(&self, node: usize) {
        let member = &self.members[node];
        let mut backoff = BACKOFF.0;
        loop {
            let state = self.inspect(node).await;
            let inspected = Instant::now();
            self.set_state(node, state.clone());
            let wait = match &state {
                MemberState::Admitted(_) => CHECK_INTERVAL,
                MemberState::Quarantined(_, until) => CHECK_INTERVAL.min(until.saturating_duration_since(inspected)),
                _ => backoff,
            };
            if matches!(state, MemberState::Admitted(_) | MemberState::Quarantined(..)) {
                backoff = BACKOFF.0;
                // At the end of a quarantine, jitter would only delay the admission.
                let wait = if wait < CHECK_INTERVAL { wait } else { self.random.jitter(wait) };
                tokio::select! {
                    biased;
                    () = member.node.disconnected() => {
                        let error = NodeError::Unreachable { reason: "connection lost".into() };
                        self.set_state(node, MemberState::Away(error));
                    }
                    () = member.recheck.notified() => {}
                    () = sleep(wait) => {}
                }
                sleep_until(inspected + MIN_PAUSE).await;
            } else {
                // Jitter, so that the clients of a node that comes back do not all come at once.
                sleep(self.random.jitter(wait)).await;
                backoff = (backoff * 2).min(BACKOFF.1);
            }
        }
    }

    /// Inspects a node and, where necessary, establishes it.
    async fn inspect(&self, node: usize) -> MemberState {
        for _ in 0..MAX_CHANGES {
            let seen = match self.inspect_once(node).await {
                Ok(seen) => seen,
                Err(NodeError::Refused(refusal)) => return MemberState::Refused(refusal),
                Err(error) => return MemberState::Away(error),
            };
            if let Some(refusal) = self.settle_duplicates(node) {
                return MemberState::Refused(refusal);
            }
            match admit(&seen, &self.config) {
                Admission::Admitted(epoch) => return MemberState::Admitted(epoch),
                Admission::Quarantined(epoch, remaining) => {
                    // A quarantine without an end is checked again now and then.
                    return MemberState::Quarantined(epoch, Instant::now() + remaining.min(CHECK_INTERVAL * 2));
                }
                Admission::Refused(refusal) => return MemberState::Refused(refusal),
                Admission::Restarted(expected, quarantine) => self.establish(node, &seen, expected, quarantine).await,
                Admission::Unknown => {
                    if let Census::Unknown = self.take_census(node).await {
                        return MemberState::Undecided;
                    }
                }
            }
        }
        MemberState::Away(NodeError::Protocol { reply: "the node's record keeps changing".into() })
    }

    /// Inspects a node and stores what must be remembered.
    async fn inspect_once(&self, node: usize) -> Result<Inspection, NodeError> {
        let (seen, clock) = match self.ask(node).await? {
            // The answer took too long, because this process was paused or the network is slow: its clock reading is stale.
            (_, None) => self.ask(node).await?,
            fresh => fresh,
        };
        let mut last = self.members[node].last_inspection();
        last.run_id = Some(seen.run_id.clone());
        last.clock = clock.or(last.clock);
        // Without its clock the node must not vote: tokens could go backwards where a fence was lost.
        last.clock.map(|_| seen).ok_or(NodeError::TimedOut)
    }

    /// Inspects a node. Also returns the node's clock and when it was read, if that is known precisely enough: the quarantine
    /// of a node that lost its fences is longer by this imprecision, so that the cluster clock is then ahead of every earlier
    /// token.
    async fn ask(&self, node: usize) -> Result<(Inspection, Option<(u64, Instant)>), NodeError> {
        let asked = Instant::now();
        let inspecting = timeout(INSPECTION_TIMEOUT, self.members[node].node.inspect(&self.keyspace));
        let seen = inspecting.await.unwrap_or(Err(NodeError::TimedOut))?;
        let answered = Instant::now();
        let precise = answered - asked < clock_lag(self.config.max_ttl);
        let clock = precise.then_some((seen.clock_micros, answered));
        Ok((seen, clock))
    }

    /// If two nodes turn out to be one server, the one that was named first stays, and the other is refused at once: there
    /// must be no moment at which both vote. (Nothing is awaited between this and the admission of the node.)
    fn settle_duplicates(&self, node: usize) -> Option<Refusal> {
        let other = self.same_server(node)?;
        let refused = node.max(other);
        let name = self.members[node.min(other)].node.name().to_owned();
        let refusal = Refusal::Duplicate { other: name };
        if refused == node {
            return Some(refusal);
        }
        self.set_state(other, MemberState::Refused(refusal));
        self.members[other].recheck.notify_one();
        None
    }

    /// Another node whose last inspection reached the same server.
    fn same_server(&self, node: usize) -> Option<usize> {
        let run_id = |node: usize| self.members[node].last_inspection().run_id.clone();
        let present = |other: usize| !matches!(*self.members[other].state.borrow(), MemberState::Away(_));
        let own = run_id(node)?;
        (0..self.size()).find(|other| *other != node && present(*other) && run_id(*other).as_ref() == Some(&own))
    }

    async fn establish(&self, node: usize, seen: &Inspection, expected: Option<Epoch>, quarantine: Duration) {
        let record = Establish {
            expected,
            run_id: seen.run_id.clone(),
            epoch: self.random.epoch(),
            config: self.config.clone(),
            quarantine,
        };
        let establishing = self.members[node].node.establish(&self.keyspace, record);
        let name = self.members[node].node.name();
        match timeout(INSPECTION_TIMEOUT, establishing).await {
            Ok(Ok(true)) if quarantine.is_zero() => {
                tracing::info!(name: "lock.node_established", node = name, "a node joined the set");
            }
            Ok(Ok(true)) => tracing::warn!(name: "lock.node_quarantined", node = name, ?quarantine,
                "a node lost its data; it grants no lock until every lock it may have granted has ended"),
            // Another client did it, or the next inspection will show what is wrong.
            Ok(Ok(false) | Err(_)) | Err(_) => {}
        }
    }

    /// Asks all nodes, because this one has no record, and establishes the nodes that have to be.
    async fn take_census(&self, node: usize) -> Census {
        let _one_at_a_time = self.census.lock().await;
        // All of these begin after the node was found without a record; the verdict relies on that.
        let mut inspecting: FuturesUnordered<_> =
            (0..self.size()).map(|node| async move { (node, self.inspect_once(node).await) }).collect();
        let (mut nodes, mut answers) = (Vec::new(), Vec::new());
        let mut until = Instant::now() + INSPECTION_TIMEOUT;
        while let Ok(Some((node, seen))) = tokio::time::timeout_at(until, inspecting.next()).await {
            let Ok(seen) = seen else { continue };
            let usable = !matches!(admit(&seen, &self.config), Admission::Refused(_));
            let counted = answers.iter().any(|other: &Inspection| other.run_id == seen.run_id);
            // Count each server once, and none that cannot be a member.
            if !usable || counted {
                continue;
            }
            nodes.push(node);
            answers.push(seen);
            if answers.len() == majority(self.size()) {
                until = until.min(Instant::now() + COUNT_GRACE);
            }
        }
        let verdict = census(self.size(), &answers, &self.config);
        match verdict {
            Census::FirstStart => {
                let unknown = |seen: &Inspection| admit(seen, &self.config) == Admission::Unknown;
                let empty = nodes.into_iter().zip(&answers).filter(|(_, seen)| unknown(seen));
                join_all(empty.map(|(node, seen)| self.establish(node, seen, None, Duration::ZERO))).await;
            }
            Census::InUse(quarantine) => {
                let is_empty = |seen: &Inspection| seen.record.is_none() && seen.quarantine.is_none();
                // If another task established it while this one waited for the census, there is nothing to do.
                if nodes.iter().zip(&answers).any(|(other, seen)| *other == node && is_empty(seen)) {
                    sleep(FIRST_START_GRACE).await;
                    if let Ok(seen) = self.inspect_once(node).await
                        && is_empty(&seen)
                    {
                        self.establish(node, &seen, None, quarantine).await;
                    }
                }
            }
            Census::Unknown => {}
        }
        verdict
    }

    /// Sets the state of a node, and logs a change.
    fn set_state(&self, node: usize, state: MemberState) {
        let member = &self.members[node];
        let before = member.state.replace(state.clone());
        if std::mem::discriminant(&before) == std::mem::discriminant(&state) {
            return;
        }
        let name = member.node.name();
        match state {
            MemberState::Admitted(_) => tracing::debug!(name: "lock.node_admitted", node = name, "a node votes"),
            MemberState::Quarantined(_, until) => {
                let remaining = until.saturating_duration_since(Instant::now());
                tracing::debug!(name: "lock.node_in_quarantine", node = name, ?remaining, "a node is in quarantine and grants no locks");
            }
            MemberState::Away(error) => {
                tracing::warn!(name: "lock.node_away", node = name, %error, "a node is not reachable");
            }
            MemberState::Undecided => tracing::warn!(name: "lock.node_undecided", node = name,
                "a node has no record, and too few other nodes answer to say why"),
            MemberState::Refused(refusal) => {
                tracing::error!(name: "lock.node_refused", node = name, %refusal, "a node was refused");
            }
            MemberState::Joining => {}
        }
    }
}
