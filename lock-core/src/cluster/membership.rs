//! Keeps the state of all nodes up to date: inspects them, and carries out the steps that [`Membership`] decides on.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::cluster::{FIRST_CONTACT, NotedRoster};
use super::{Cluster, MemberState, NodeSet};
use crate::error::{NodeError, NotMember};
use crate::node::{FenceReading, Inspection, NodeFuture};
use crate::observer::NodeChanged;
use crate::quorum::{LogPositions, Membership, MembershipStep, Outage, Standing};

/// How long an inspection or a step may take, connecting included.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How often a node in good order is inspected: this carries the cluster clock on, and finds a link that broke unnoticed.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// The first and the longest pause between attempts to reach a node; pauses double.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// How long a client leaves it to the one that chose a roster to read the fences. That keeps a node busy for some milliseconds.
const OTHERS_READ_FENCES: Duration = Duration::from_secs(2);
/// The shortest time between two inspections of a node, however many errors it replies with.
const MIN_PAUSE: Duration = Duration::from_millis(20);

impl Cluster {
    /// Keeps the state of all nodes up to date until the manager is dropped.
    pub(crate) async fn maintain(self: Arc<Self>) {
        let inspecting = join_all((0..self.size()).map(|node| self.maintain_member(node)));
        tokio::select! {
            biased;
            _ = inspecting => {}
            () = self.carry_out_steps() => {}
            () = self.stop.cancelled() => {}
        }
    }

    /// Inspects one node again and again.
    async fn maintain_member(&self, node: usize) {
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
            if let Some(ends) = self.membership().next_quarantine_end(node) {
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
    async fn inspect(&self, node: usize) {
        // Before the question: what another inspection learns meanwhile must not be held against this answer.
        let asked = self.membership().log_positions();
        match within_timeout(self.members[node].node.inspect(&self.keyspace)).await.and_then(Inspection::check) {
            Ok(seen) => self.inspected(node, &asked, seen),
            Err(error) => self.unreachable(node, error),
        }
    }

    /// Forgets what was found out over connections that are gone.
    pub(super) fn forget_inspections(&self) {
        for (node, member) in self.members.iter().enumerate() {
            let mut last = member.last_inspection.lock();
            last.error = None;
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
    fn reschedule(&self, node: usize) {
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
        drop(last);
        self.set_clock();
        self.membership().observe_since(asked, node, Some(seen), self.now());
        self.changed.notify_one();
    }

    fn unreachable(&self, node: usize, error: NodeError) {
        let error = if error == NodeError::TimedOut { self.timed_out(node) } else { error };
        self.members[node].last_inspection.lock().error = Some(error);
        self.members[node].test_vote.lock().disconnected();
        self.membership().observe(node, None, self.now());
        self.publish(false);
        self.changed.notify_one();
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
            self.publish(!running.is_empty());
            tokio::select! {
                biased;
                Some(node) = running.next() => busy.remove(node),
                () = self.changed.notified() => {}
                () = self.forming_allowed() => {}
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
                self.membership().pause(node, true);
                // Wakes callers that wait for the set to be formed.
                self.changed.notify_one();
                sleep(self.random.jitter(BACKOFF.1)).await;
                self.membership().pause(node, false);
            }
        }
        self.reschedule(node);
    }

    /// Sets the states of all nodes from what is known.
    fn publish(&self, in_progress: bool) {
        let now = self.now();
        let membership = self.membership();
        let rosters = self.note_roster(&membership);
        let all_inspected = membership.all_tried();
        let is_stuck = self.members.iter().any(|member| member.last_inspection.lock().record.cause().is_some());
        let states: Vec<MemberState> = (0..self.size())
            .map(|node| match membership.standing(node, now) {
                Standing::Admitted { epoch, seat } => {
                    // If not by this client, its record was written by another one.
                    self.members[node].last_inspection.lock().record.resolve();
                    MemberState::Admitted { epoch, roster: rosters, seat }
                }
                Standing::Quarantined(left) => MemberState::Quarantined(Instant::now() + left),
                Standing::Refused(refusal) => MemberState::Refused(refusal),
                Standing::NotMember(reason) => MemberState::NotMember(reason),
                Standing::Unreachable => match self.members[node].last_inspection.lock().error.clone() {
                    Some(NodeError::Refused(refusal)) => MemberState::Refused(refusal),
                    Some(error) => MemberState::Away(error),
                    None => MemberState::Joining,
                },
            })
            .collect();
        let ways: Vec<usize> = (0..self.size()).map(|node| membership.way_to(node)).collect();
        drop(membership);
        self.members.iter().zip(ways).for_each(|(member, way)| member.set_way(way));
        // Those that do not vote first: of two nodes that turn out to be one server, there must be no moment at which both vote.
        let (voting, others): (Vec<_>, Vec<_>) =
            states.into_iter().enumerate().partition(|(_, state)| matches!(state, MemberState::Admitted { .. }));
        for (node, state) in others.into_iter().chain(voting) {
            let is_first = *self.members[node].state.borrow() == MemberState::Joining;
            // Callers wait for the first contact: a set that is being formed, or changed, is nearly there.
            let is_settled = match &state {
                MemberState::NotMember(NotMember::Behind) => false,
                MemberState::NotMember(NotMember::Unformed { missing }) => {
                    all_inspected && (!missing.is_empty() || is_stuck)
                }
                MemberState::NotMember(_) | MemberState::Quarantined(_) => all_inspected && !in_progress,
                _ => true,
            };
            if is_settled || !is_first {
                self.set_state(node, state);
            }
        }
        self.note_quorum();
        self.published.notify_waiters();
    }

    /// Notes whether a majority votes.
    fn note_quorum(&self) {
        let has_quorum = self.has_quorum();
        self.answers.outage().inspected(has_quorum, self.now());
        if has_quorum {
            self.quorum_back.notify_waiters();
        }
    }

    /// Counts the rosters that this client counted by.
    fn note_roster(&self, membership: &Membership) -> u64 {
        let mut noted = self.noted.lock();
        if let Some(roster) = membership.roster()
            && noted.roster != Some(roster.id())
        {
            super::events::roster_changed(noted.roster, roster, membership.chose_roster());
            // What one node has installed, the others have, or are about to.
            (0..self.size()).for_each(|node| self.reschedule(node));
            *noted = NotedRoster { roster: Some(roster.id()), count: noted.count + 1 };
        }
        noted.count
    }

    /// Sets the state of a node, and logs a change.
    fn set_state(&self, node: usize, state: MemberState) {
        let member = &self.members[node];
        let is_another = std::mem::discriminant(&*member.state.borrow()) != std::mem::discriminant(&state);
        if is_another {
            let (node, up) = (member.node.name(), state.accepts_requests());
            super::events::state_changed(node, &state);
            self.reporter.report(|observer| observer.node_changed(&NodeChanged { node, up }));
        } else if *member.state.borrow() == state {
            return;
        }
        member.state.replace(state);
    }
}

async fn within_timeout<T>(answer: NodeFuture<Result<T, NodeError>>) -> Result<T, NodeError> {
    timeout(TIMEOUT, answer).await.unwrap_or(Err(NodeError::TimedOut))
}
