use std::time::Duration;

use super::{Membership, Step};
use crate::node::{Ballot, NodeRecord, RecordWrite, Roster};

/// The longest pause after the first proposal that another client's overtook. It doubles with each, up to five times.
const PAUSE: Duration = Duration::from_millis(20);

/// The proposals of one client, one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Proposals {
    proposer: u64,
    current: Option<Proposal>,
    /// The highest round of its proposals. What it reads of the nodes may be older than that.
    round: u64,
    /// How many were overtaken since a roster was last chosen.
    overtaken: u32,
    /// When the next may begin.
    next_at: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Proposal {
    ballot: Ballot,
    /// What it proposes, once it knows what was accepted before. One ballot never has two values.
    value: Option<Roster>,
}

/// A decision: who takes part, and what a client wants.
pub(super) struct Decision<'a> {
    /// The nodes that have to accept.
    pub(super) acceptors: Vec<usize>,
    /// How many of them.
    pub(super) quorum: usize,
    /// Whether a roster belongs to this decision. One that was accepted before is proposed again.
    pub(super) concerns: &'a dyn Fn(&Roster) -> bool,
    /// What the client wants, if anything.
    pub(super) wanted: Option<Roster>,
}

impl Proposals {
    pub(super) fn new(proposer: u64) -> Self {
        Self { proposer, current: None, round: 0, overtaken: 0, next_at: Duration::ZERO }
    }

    /// Ends the present proposal: a roster was chosen.
    pub(super) fn forget(&mut self) {
        (self.current, self.overtaken) = (None, 0);
    }

    /// The present proposal, or a new one; `None` while this client leaves it to those that overtook it. `highest` is the highest ballot
    /// that a node promised.
    fn present(
        &mut self,
        highest: Option<Ballot>,
        decision: &Decision<'_>,
        now: Duration,
        draw: &mut dyn FnMut() -> u64,
    ) -> Option<&mut Proposal> {
        let is_overtaken = |proposal: &mut Proposal| {
            let is_stale = proposal.value.as_ref().is_some_and(|value| !(decision.concerns)(value));
            is_stale || highest.is_some_and(|highest| highest > proposal.ballot)
        };
        if self.current.take_if(is_overtaken).is_some() {
            self.overtaken += 1;
            let most = PAUSE * (1 << self.overtaken.min(5));
            // At random, because clients that overtake each other in step would go on with it.
            let share = u32::try_from(draw() % 1024).unwrap_or_default();
            self.next_at = now + most / 2 + most * share / 2048;
        }
        if self.current.is_none() {
            if now < self.next_at {
                return None;
            }
            self.round = highest.map_or(0, |highest| highest.round).max(self.round).saturating_add(1);
        }
        let ballot = Ballot { round: self.round, proposer: self.proposer };
        Some(self.current.get_or_insert(Proposal { ballot, value: None }))
    }
}

impl Membership {
    /// When the client may propose again, if it has to wait for that.
    pub fn proposes_at(&self) -> Duration {
        self.proposals.next_at
    }

    /// Takes the next step towards a decision. Returns the roster if it is chosen already, otherwise what is to be done.
    #[expect(clippy::result_large_err, reason = "a roster is chosen once in a long time")]
    pub(super) fn decide(
        &mut self,
        decision: &Decision<'_>,
        now: Duration,
        draw: &mut dyn FnMut() -> u64,
    ) -> Result<Vec<Step>, Roster> {
        let records: Vec<(usize, NodeRecord)> = self.records().map(|(node, record)| (node, record.clone())).collect();
        let acceptors: Vec<&(usize, NodeRecord)> =
            records.iter().filter(|(node, _)| decision.acceptors.contains(node)).collect();
        let accepted = || acceptors.iter().filter_map(|(_, record)| record.accepted.as_ref());
        let accepted = || accepted().filter(|(_, roster)| (decision.concerns)(roster));
        for (ballot, roster) in accepted() {
            if accepted().filter(|(other, _)| other == ballot).count() >= decision.quorum {
                return Err(roster.clone());
            }
        }
        let Some(wanted) = &decision.wanted else {
            self.proposals.current = None;
            return Ok(Vec::new());
        };
        // As in Paxos: a ballot that somebody else has begun is given up, and one above it begun after a pause.
        let highest = acceptors.iter().filter_map(|(_, record)| record.promised).max();
        let Some(proposal) = self.proposals.present(highest, decision, now, draw) else { return Ok(Vec::new()) };
        let ballot = proposal.ballot;
        let promised = acceptors.iter().filter(|(_, record)| record.promised == Some(ballot));
        if proposal.value.is_none() && promised.count() >= decision.quorum {
            // A value that may have been chosen is proposed again, and the own one is not: two rosters of one generation must not
            // both be chosen.
            let latest = accepted().max_by_key(|(ballot, _)| *ballot).map(|(_, roster)| roster);
            proposal.value = Some(latest.unwrap_or(wanted).clone());
        }
        let vote = |record: &NodeRecord| match &proposal.value {
            None if record.promised < Some(ballot) => Some(NodeRecord { promised: Some(ballot), ..record.clone() }),
            Some(value) if record.accepted.as_ref().is_none_or(|(accepted, _)| *accepted != ballot) => {
                let accepted = Some((ballot, value.clone()));
                Some(NodeRecord { promised: Some(ballot), accepted, ..record.clone() })
            }
            _ => None,
        };
        let write = |(node, record): &(usize, NodeRecord)| {
            Some(Step::Write { node: *node, write: RecordWrite::replacing(record, vote(record)?) })
        };
        Ok(acceptors.into_iter().filter_map(write).collect())
    }
}
