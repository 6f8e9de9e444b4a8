//! What a client does: it asks the nodes, hands their answers to the shipped deciders, and does what these say.

use lock_core::quorum::{RenewalVerdict, Step};

use super::decider::{Decider, Decision};
use super::event::Hearing;
use super::locks::Locks;
use super::nodes::Nodes;
use super::setting::Rules;
use super::sight::Sight;
use super::state::{Answer, Asking, Line, NODES, Phase, Question, Round, State};

/// Numbers are small in here.
pub(super) fn small(number: u64) -> u8 {
    u8::try_from(number).unwrap()
}

impl Locks {
    pub(super) fn begin(&self, state: &mut State, client: usize, hint: u8) {
        let tokens = self.setting.tokens;
        let completed = state.clients.iter().zip(tokens);
        let floor = completed.filter_map(|(client, tokens)| client.last_token(tokens)).max().unwrap_or_default();
        let asked = &mut state.clients[client];
        asked.hint = hint;
        asked.phase = Phase::Asking(Box::new(Asking {
            decider: Decider::of_attempt(self.setting.ttl(), tokens[client]),
            began: state.now,
            floor,
            granted: Nodes::default(),
            lines: [Line::Open(Question::Acquire); NODES],
        }));
        (0..NODES).for_each(|node| self.send(state, client, node));
    }

    pub(super) fn renew(&self, state: &mut State, client: usize) {
        let sent = state.now;
        let renewed = &mut state.clients[client];
        renewed.renewals += 1;
        if let Phase::Holding { round, .. } = &mut renewed.phase {
            *round = Some(Box::new(Round {
                decider: Decider::of_renewal(),
                sent,
                epochs: [None; NODES],
                kept: Nodes::default(),
                renewed: false,
                lines: [Line::Open(Question::Extend); NODES],
            }));
        }
        (0..NODES).for_each(|node| self.send(state, client, node));
    }

    /// Sends the acquire, or the extend of the present round, as the node stands now. An acquire is not sent to a node that is
    /// known to sit out.
    fn send(&self, state: &mut State, client: usize, node: usize) {
        let (sender, place) = (&mut state.clients[client], &state.nodes[node]);
        match &mut sender.phase {
            Phase::Asking(_) if place.is_quarantined() && self.setting.rules != Rules::AsksInQuarantine => {
                self.sights.note(Sight::NotAskedInQuarantine);
                // To be sent yet, in an epoch to come.
                if self.setting.hesitant {
                    sender.acquires[node] = Some(place.epoch - 1);
                }
            }
            Phase::Asking(_) => sender.acquires[node] = Some(place.epoch),
            Phase::Holding { round: Some(round), .. } => {
                round.epochs[node] = Some(place.epoch);
                sender.extends.insert(node);
            }
            _ => {}
        }
    }

    /// Those who hesitate send to a node that may grant again. To one that forgets, the acquire was sent before, and comes to
    /// nothing, or after: then it is sent here.
    pub(super) fn send_at_last(&self, state: &mut State) {
        if !self.setting.hesitant {
            return;
        }
        for client in state.clients.iter_mut().filter(|client| matches!(client.phase, Phase::Asking(_))) {
            for (sent, node) in client.acquires.iter_mut().zip(&state.nodes) {
                if let Some(epoch) = sent
                    && !node.is_quarantined()
                {
                    *epoch = node.epoch;
                }
            }
        }
    }

    /// What a client can hear that leads to something, as answers come in this order or that, or do not come. What leads to
    /// nothing yet is heard no sooner than it does: nobody else can tell the difference.
    pub(super) fn hearings(&self, state: &State, client: usize, found: &mut Vec<Hearing>) {
        let (decider, lines, elapsed) = match &state.clients[client].phase {
            Phase::Asking(asking) => (&asking.decider, &asking.lines, state.now - asking.began),
            Phase::Holding { round: Some(round), .. } => (&round.decider, &round.lines, 0),
            _ => return,
        };
        hear_on(decider, *lines, elapsed, &mut Hearing::default(), found);
    }

    pub(super) fn hear(&self, state: &mut State, client: usize, hearing: Hearing) {
        let now = state.now;
        let mut decided = None;
        match &mut state.clients[client].phase {
            Phase::Asking(asking) => {
                for (node, comes) in hearing.iter() {
                    let line = std::mem::take(&mut asking.lines[node]);
                    let Some(answer) = heard(line, comes) else { return };
                    decided = asking.decider.hear(node, answer, now - asking.began);
                }
            }
            Phase::Holding { round: Some(round), .. } => {
                for (node, comes) in hearing.iter() {
                    let line = std::mem::take(&mut round.lines[node]);
                    let Some(answer) = heard(line, comes) else { return };
                    decided = round.decider.hear(node, answer, 0);
                }
            }
            _ => return,
        }
        match decided {
            Some(Decision::Acquisition(step)) => self.follow(state, client, step),
            Some(Decision::Renewal(verdict)) => self.judge(state, client, verdict),
            None => {}
        }
        self.end_round(state, client);
    }

    fn follow(&self, state: &mut State, client: usize, step: Step) {
        match step {
            Step::Wait => {}
            Step::Confirm { token: fence, .. } if self.setting.rules == Rules::LargestGrant => {
                self.hold(state, client, fence);
            }
            Step::Confirm { round, token: fence, nodes } => {
                self.sights.note(if round == 1 { Sight::Confirm } else { Sight::SecondConfirm });
                let Phase::Asking(asking) = &mut state.clients[client].phase else { return };
                for node in &nodes {
                    asking.lines[*node] = Line::Open(Question::Confirm(round));
                }
                // An answer of the round before is none any more.
                for line in &mut asking.lines {
                    if matches!(line.question(), Some(Question::Confirm(of)) if of != round) {
                        *line = Line::Closed;
                    }
                }
                let proposal = &mut state.clients[client].confirms[usize::from(round) - 1];
                proposal.fence = small(fence);
                nodes.into_iter().for_each(|node| proposal.nodes.insert(node));
            }
            Step::Granted { token, .. } => self.hold(state, client, token),
            Step::Failed(_) => {
                self.sights.note(Sight::Failure);
                self.end(state, client);
            }
        }
    }

    fn hold(&self, state: &mut State, client: usize, token: u64) {
        let holder = &mut state.clients[client];
        let Phase::Asking(asking) = &holder.phase else { return };
        let token = small(token);
        if asking.floor > 0 {
            self.sights.note(Sight::OneAfterTheOther);
        }
        if holder.confirms[1].fence > 0 {
            self.sights.note(Sight::SecondConfirmGranted);
        }
        state.breaches.disorder |= token <= asking.floor;
        state.breaches.minority |= !asking.granted.are_majority();
        let until = asking.began + self.setting.ttl();
        holder.token = Some(token);
        // Without time, nothing is said of validity, and a key may end at any step, as if it had let go at once.
        holder.phase = if self.setting.time.is_some() { Phase::Holding { until, round: None } } else { Phase::Over };
    }

    /// Its time is over, by its own will or not: what it waits for does not matter any more, and its release is sent.
    pub(super) fn end(&self, state: &mut State, client: usize) {
        state.clients[client].phase = Phase::Over;
    }

    fn judge(&self, state: &mut State, client: usize, verdict: RenewalVerdict) {
        let Phase::Holding { until, round: Some(round) } = &mut state.clients[client].phase else { return };
        match verdict {
            // Inside the old validity, for it is holding yet.
            RenewalVerdict::Renewed => {
                *until = (*until).max(round.sent + self.setting.ttl());
                round.renewed = true;
                state.breaches.resurrection |= !round.kept.are_majority();
                self.sights.note(Sight::Renewed);
            }
            RenewalVerdict::Lost => {
                self.sights.note(Sight::Lost);
                self.end(state, client);
            }
            RenewalVerdict::Unknown => {}
        }
    }

    /// When all answers of a renewal have come, or none will, the key is put back where it was lost.
    fn end_round(&self, state: &mut State, client: usize) {
        let renewed = &mut state.clients[client];
        let Phase::Holding { round: slot, .. } = &mut renewed.phase else { return };
        let Some(round) = slot.take_if(|round| round.lines == [Line::Closed; NODES]) else { return };
        if round.renewed {
            for node in round.decider.gone() {
                renewed.replaces[node] = Some(state.nodes[node].epoch);
            }
        }
    }
}

/// What is heard of a node: its answer, or that none comes.
fn heard(line: Line, comes: bool) -> Option<Answer> {
    match line {
        Line::Answered(answer) if comes => Some(answer),
        _ if comes => None,
        line => line.silence(),
    }
}

/// Adds all that can be heard after `so_far` and leads to something.
fn hear_on(decider: &Decider, lines: [Line; NODES], elapsed: u8, so_far: &mut Hearing, found: &mut Vec<Hearing>) {
    let is_last = lines.iter().filter(|line| **line != Line::Closed).count() == 1;
    for node in 0..NODES {
        for comes in [true, false] {
            // While an attempt gathers grants, silence leads to failure or to nothing, and may as well be heard later.
            if !comes && decider.is_gathering() {
                continue;
            }
            let Some(answer) = heard(lines[node], comes) else { continue };
            let mut decider = decider.clone();
            let decided = decider.hear(node, answer, elapsed);
            so_far.push(node, comes);
            match decided {
                // To give up is open to a client at any time.
                Some(Decision::Acquisition(Step::Failed(_))) => {}
                Some(_) => found.push(*so_far),
                // The end of a round of renewal.
                None if is_last && decider.is_renewal() => found.push(*so_far),
                None => {
                    let mut lines = lines;
                    lines[node] = Line::Closed;
                    hear_on(&decider, lines, elapsed, so_far, found);
                }
            }
            so_far.pop();
        }
    }
}
