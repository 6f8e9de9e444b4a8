//! The client: it sends requests, passes the replies to the shipped quorum code, and acts on its decisions.

use lock_core::quorum::{Step, Verdict};

use super::action::Delivery;
use super::coverage::CoveragePoint;
use super::decider::{Decider, Decision};
use super::model::LockModel;
use super::mutant::Mutant;
use super::nodes::Nodes;
use super::state::{Attempt, Client, NODES, Phase, Renewal, Replace, ReplyKind, ReplySlot, State, Vote};

/// A token or fence of the shipped code as the model stores it. All of them are small here.
pub(super) fn to_u8(value: u64) -> u8 {
    u8::try_from(value).unwrap()
}

impl LockModel {
    pub(super) fn begin(&self, state: &mut State, client: usize) {
        let tokens = self.setting.tokens;
        // The token of a reader has to be larger than those of writers only. If one of them reads by then, it may have the same.
        let reads = |client| self.setting.reads(client);
        let completed = state.clients.iter().zip(tokens).enumerate();
        let counted = completed.filter(|(other, _)| !(reads(client) && reads(*other)));
        let completed =
            counted.filter_map(|(_, (client, tokens))| client.last_token(tokens)).chain(state.eviction_token());
        let floor = completed.max().unwrap_or_default();
        let beginner = &mut state.clients[client];
        beginner.phase = Phase::Acquiring(Box::new(Attempt {
            decider: Decider::of_attempt(self.setting.ttl_of(client), tokens[client].max(1)),
            began: state.now,
            floor,
            epoch: state.nodes[0].epoch,
            granted: Nodes::default(),
            replies: [ReplySlot::Awaiting(ReplyKind::Acquire); NODES],
        }));
        (0..NODES).for_each(|node| self.send(state, client, node));
    }

    pub(super) fn renew(&self, state: &mut State, client: usize) {
        state.clients[client].renewals += 1;
        self.begin_renewal(state, client, false);
    }

    /// From now on the client reads, whatever becomes of it.
    pub(super) fn downgrade(&self, state: &mut State, client: usize) {
        state.clients[client].downgraded = true;
        self.begin_renewal(state, client, true);
        if self.setting.time.is_none() {
            state.clients[client].downgrades = Nodes::all();
        }
    }

    fn begin_renewal(&self, state: &mut State, client: usize, downgrades: bool) {
        let (sent, after_eviction) = (state.now, state.is_evicted(client) && state.eviction_token().is_some());
        if let Phase::Holding { renewal, .. } = &mut state.clients[client].phase {
            let reply = if downgrades { ReplyKind::Downgrade } else { ReplyKind::Extend };
            *renewal = Some(Box::new(Renewal {
                decider: Decider::of_renewal(),
                sent,
                epochs: [None; NODES],
                kept: Nodes::default(),
                renewed: false,
                after_eviction,
                downgrades,
                replies: [ReplySlot::Awaiting(reply); NODES],
            }));
        }
        (0..NODES).for_each(|node| self.send(state, client, node));
    }

    /// Sends the acquire, or the extend or downgrade of the current renewal, addressed to the node's current epoch. No acquire is sent to
    /// a node in quarantine.
    fn send(&self, state: &mut State, client: usize, node: usize) {
        let (sender, target) = (&mut state.clients[client], &state.nodes[node]);
        match &mut sender.phase {
            Phase::Acquiring(_) if target.is_quarantined() => {
                self.coverage.mark(CoveragePoint::SkippedQuarantined);
            }
            Phase::Acquiring(_) => sender.acquires[node] = Some(target.epoch),
            Phase::Holding { renewal: Some(renewal), .. } => {
                renewal.epochs[node] = Some(target.epoch);
                if renewal.downgrades {
                    sender.downgrades.insert(node);
                } else {
                    sender.extends.insert(node);
                }
            }
            _ => {}
        }
    }

    /// Every sequence of replies and timeouts that leads the client to a decision. Replies without a decision are delivered
    /// only together with the one that leads to it, because until then nobody else can observe them.
    pub(super) fn deliveries(&self, state: &State, client: usize, found: &mut Vec<Delivery>) {
        let (decider, replies, elapsed) = match &state.clients[client].phase {
            Phase::Acquiring(attempt) => (&attempt.decider, &attempt.replies, state.now - attempt.began),
            Phase::Holding { renewal: Some(renewal), .. } => (&renewal.decider, &renewal.replies, 0),
            _ => return,
        };
        extend_delivery(decider, *replies, elapsed, &mut Delivery::default(), found);
    }

    pub(super) fn deliver(&self, state: &mut State, client: usize, delivery: Delivery) {
        let now = state.now;
        let mut decided = None;
        match &mut state.clients[client].phase {
            Phase::Acquiring(attempt) => {
                for (node, arrives) in delivery.iter() {
                    let slot = std::mem::take(&mut attempt.replies[node]);
                    let Some(vote) = received(slot, arrives) else { return };
                    decided = attempt.decider.receive(node, vote, now - attempt.began);
                }
            }
            Phase::Holding { renewal: Some(renewal), .. } => {
                for (node, arrives) in delivery.iter() {
                    let slot = std::mem::take(&mut renewal.replies[node]);
                    let Some(vote) = received(slot, arrives) else { return };
                    decided = renewal.decider.receive(node, vote, 0);
                }
            }
            _ => return,
        }
        match decided {
            Some(Decision::Acquisition(step)) => self.apply_step(state, client, step),
            Some(Decision::Renewal(verdict)) => self.apply_verdict(state, client, verdict),
            None => {}
        }
        self.end_renewal(state, client);
    }

    fn apply_step(&self, state: &mut State, client: usize, step: Step) {
        let epoch = state.nodes[0].epoch;
        match step {
            Step::Wait => {}
            Step::Confirm { token, .. } if self.setting.mutant == Some(Mutant::LargestGrant) => {
                self.hold(state, client, token);
            }
            Step::Confirm { round, token, nodes } => {
                self.coverage.mark(if round == 1 { CoveragePoint::Confirm } else { CoveragePoint::SecondConfirm });
                let Phase::Acquiring(attempt) = &mut state.clients[client].phase else { return };
                for node in &nodes {
                    attempt.replies[*node] = ReplySlot::Awaiting(ReplyKind::Confirm(round));
                }
                // A reply of the previous round no longer counts.
                for slot in &mut attempt.replies {
                    if matches!(slot.kind(), Some(ReplyKind::Confirm(of)) if of != round) {
                        *slot = ReplySlot::Closed;
                    }
                }
                // Nodes refuse a confirm that is addressed to an earlier epoch.
                let is_refused = attempt.epoch != epoch && self.setting.mutant != Some(Mutant::FloorWithoutInstall);
                let proposal = &mut state.clients[client].confirms[usize::from(round) - 1];
                proposal.token = to_u8(token);
                nodes.into_iter().filter(|_| !is_refused).for_each(|node| proposal.nodes.insert(node));
            }
            Step::Granted { token } => self.hold(state, client, token),
            Step::Failed(_) => {
                self.coverage.mark(CoveragePoint::Failure);
                self.end(state, client);
            }
        }
    }

    fn hold(&self, state: &mut State, client: usize, token: u64) {
        let holder = &mut state.clients[client];
        let Phase::Acquiring(attempt) = &holder.phase else { return };
        let token = to_u8(token);
        if attempt.floor > 0 {
            self.coverage.mark(CoveragePoint::OrderedGrants);
        }
        if holder.confirms[1].token > 0 {
            self.coverage.mark(CoveragePoint::SecondConfirmGranted);
        }
        let floor = attempt.floor;
        state.breaches.token_without_majority |= !attempt.granted.are_majority();
        let until = attempt.began + self.setting.ttl_of(client);
        holder.token = Some(token);
        // Without time there is no validity, and a key may expire at any step, as if the holder had released at once.
        holder.phase = if self.setting.time.is_some() { Phase::Holding { until, renewal: None } } else { Phase::Ended };
        let holds = |client: &Client| matches!(client.phase, Phase::Holding { .. });
        if state.clients.iter().filter(|client| holds(client)).count() > 1 {
            self.coverage.mark(CoveragePoint::SharedLock);
        }
        let shares = self.shares_token(state, client);
        if shares {
            self.coverage.mark(CoveragePoint::SharedToken);
        }
        state.breaches.unordered_token |= token < floor || token == floor && !shares;
    }

    /// Whether a reader has the token of one that reads beside it.
    fn shares_token(&self, state: &State, client: usize) -> bool {
        let reads = |other: usize| self.setting.reads(other) || state.clients[other].downgraded;
        let token_of = |client: usize| state.clients[client].last_token(self.setting.tokens[client]);
        let mut others = (0..state.clients.len()).filter(|other| *other != client && reads(*other));
        self.setting.reads(client) && others.any(|other| token_of(other) == token_of(client))
    }

    /// Ends an attempt or a lease, for whatever reason. Replies no longer matter, and the release is sent.
    pub(super) fn end(&self, state: &mut State, client: usize) {
        state.clients[client].phase = Phase::Ended;
    }

    fn apply_verdict(&self, state: &mut State, client: usize, verdict: Verdict) {
        let Phase::Holding { until, renewal: Some(renewal) } = &mut state.clients[client].phase else { return };
        match verdict {
            // Within the old validity, because the client still holds the lock.
            Verdict::Held => {
                *until = (*until).max(renewal.sent + self.setting.ttl_of(client));
                renewal.renewed = true;
                state.breaches.evicted_renewed |= renewal.after_eviction;
                state.breaches.lost_key_renewed |= !renewal.kept.are_majority();
                self.coverage.mark(match renewal.downgrades {
                    true => CoveragePoint::Downgraded,
                    false => CoveragePoint::Renewed,
                });
            }
            Verdict::Lost => {
                self.coverage.mark(CoveragePoint::LostLease);
                self.end(state, client);
            }
            Verdict::Unknown if renewal.downgrades => self.end(state, client),
            Verdict::Unknown => {}
        }
    }

    /// When every reply of a renewal has arrived or timed out, puts the key back on the nodes that lost it.
    fn end_renewal(&self, state: &mut State, client: usize) {
        let renewed = &mut state.clients[client];
        let Phase::Holding { renewal: current, .. } = &mut renewed.phase else { return };
        let Some(renewal) = current.take_if(|renewal| renewal.replies == [ReplySlot::Closed; NODES]) else { return };
        if renewal.renewed && !renewal.downgrades {
            let reads = self.setting.reads(client) || renewed.downgraded;
            for node in renewal.decider.gone() {
                renewed.replaces[node] = Some(Replace { epoch: state.nodes[node].epoch, reads });
            }
        }
    }
}

/// The vote that a reply slot delivers: the node's reply, or a timeout.
fn received(slot: ReplySlot, arrives: bool) -> Option<Vote> {
    match slot {
        ReplySlot::InFlight(vote) if arrives => Some(vote),
        _ if arrives => None,
        slot => slot.no_reply(),
    }
}

/// Adds every sequence that begins with `so_far` and leads to a decision.
fn extend_delivery(
    decider: &Decider,
    replies: [ReplySlot; NODES],
    elapsed: u8,
    so_far: &mut Delivery,
    found: &mut Vec<Delivery>,
) {
    let is_last = replies.iter().filter(|slot| **slot != ReplySlot::Closed).count() == 1;
    for node in 0..NODES {
        for arrives in [true, false] {
            // While an attempt gathers grants, a timeout leads to failure or to nothing, so it may be delivered later.
            if !arrives && decider.is_gathering() {
                continue;
            }
            let Some(vote) = received(replies[node], arrives) else { continue };
            let mut decider = decider.clone();
            let decided = decider.receive(node, vote, elapsed);
            so_far.push(node, arrives);
            match decided {
                // Covered by `Action::Release`, which is possible at every step.
                Some(Decision::Acquisition(Step::Failed(_))) => {}
                Some(_) => found.push(*so_far),
                // The end of a renewal.
                None if is_last && decider.is_renewal() => found.push(*so_far),
                None => {
                    let mut replies = replies;
                    replies[node] = ReplySlot::Closed;
                    extend_delivery(&decider, replies, elapsed, so_far, found);
                }
            }
            so_far.pop();
        }
    }
}
