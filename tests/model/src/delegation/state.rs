use std::fmt;
use std::time::Duration;

use lock_core::quorum::{KeyVote, Tally, Verdict};

use crate::nodes::Nodes;
use crate::state::{Key, NODES};

/// The owner ids.
pub(super) const HOLDER: usize = 0;
pub(super) const RIVAL: usize = 1;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DelegationState {
    pub(super) now: u8,
    pub(super) keys: [Option<Key>; NODES],
    pub(super) holder: Holder,
    pub(super) adopter: Adopter,
    pub(super) rival: Rival,
}

/// The holder, or the local caller to whom it handed its lock over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Holder {
    /// The first tick in which its lease is not valid.
    pub(super) until: u8,
    pub(super) delegation: Delegation,
    pub(super) handed_over: bool,
    pub(super) ended: bool,
    /// The nodes to which a release was sent.
    pub(super) releases: Nodes,
    pub(super) renewals: u8,
    pub(super) renewal: Option<Renewal>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Delegation {
    #[default]
    None,
    Unfinished,
    Finished,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Renewal {
    pub(super) sent: u8,
    /// The nodes that are still to extend the key.
    pub(super) open: Nodes,
    /// The nodes that did.
    pub(super) kept: Nodes,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Adopter {
    /// The first tick in which its lease is not valid, while it works.
    pub(super) until: Option<u8>,
    pub(super) answered: bool,
    pub(super) looks: u8,
    pub(super) look: Option<Look>,
}

/// A look at the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Look {
    pub(super) sent: u8,
    pub(super) votes: [Option<KeyVote>; NODES],
}

impl Look {
    /// What the shipped tally makes of the votes, and for how long the lock is proven.
    pub(super) fn verdict(&self) -> Option<(Verdict, Duration)> {
        let mut tally = Tally::new(NODES);
        let mut votes = self.votes.iter().enumerate().filter_map(|(node, vote)| Some((node, (*vote)?)));
        let verdict = votes.find_map(|(node, vote)| tally.vote(node, vote))?;
        Some((verdict, tally.held_for()))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Rival {
    /// When it began; 0 if it has not.
    pub(super) began: u8,
    pub(super) open: Nodes,
    pub(super) granted: Nodes,
}

impl DelegationState {
    pub(super) fn holder_is_valid(&self) -> bool {
        !self.holder.ended && self.now < self.holder.until
    }

    pub(super) fn adopter_is_valid(&self) -> bool {
        self.adopter.until.is_some_and(|until| self.now < until)
    }

    pub(super) fn rival_is_valid(&self, ttl: u8) -> bool {
        self.rival.granted.are_majority() && self.now < self.rival.began + ttl
    }

    /// The key on a node, unless it has expired.
    pub(super) fn key(&self, node: usize) -> Option<Key> {
        self.keys[node].filter(|key| self.now < key.expires)
    }

    /// Removes what has expired, and names the nodes in order: states that differ in nothing else are the same.
    pub(super) fn normalized(mut self, ttl: u8) -> Self {
        self.keys = [0, 1, 2].map(|node| self.key(node));
        if self.adopter.until.is_some() && !self.adopter_is_valid() {
            self.adopter.until = Some(0);
        }
        if self.rival.began > 0 && self.rival.began + ttl <= self.now {
            self.rival.open = Nodes::default();
        }
        let mut order = [0, 1, 2];
        order.sort_by_key(|node| self.of_node(*node));
        self.keys = order.map(|node| self.keys[node]);
        let sets = [&mut self.holder.releases, &mut self.rival.open, &mut self.rival.granted];
        let renewal = self.holder.renewal.as_mut();
        let of_renewal = renewal.map(|Renewal { open, kept, .. }| [open, kept]).into_iter().flatten();
        sets.into_iter().chain(of_renewal).for_each(|nodes| *nodes = nodes.renamed(order));
        if let Some(look) = &mut self.adopter.look {
            look.votes = order.map(|node| look.votes[node]);
        }
        self
    }

    /// All that a state says of a node.
    fn of_node(&self, node: usize) -> impl Ord + use<> {
        let key = self.keys[node].map(|key| (key.owner, key.expires));
        let renewal =
            self.holder.renewal.map(|Renewal { open, kept, .. }| [open, kept].map(|nodes| nodes.contains(node)));
        let sets = [self.holder.releases, self.rival.open, self.rival.granted].map(|nodes| nodes.contains(node));
        let vote = self.adopter.look.and_then(|look| look.votes[node]).map(|vote| match vote {
            KeyVote::HeldFor(left) => (0, left.as_secs()),
            KeyVote::Gone => (1, 0),
            _ => (2, 0),
        });
        (key, renewal, sets, vote)
    }

    /// Whether no majority has the holder's key any more.
    pub(super) fn is_gone(&self) -> bool {
        let mut held = Nodes::default();
        let has = |node: &usize| self.key(*node).is_some_and(|key| key.owner == HOLDER);
        (0..NODES).filter(has).for_each(|node| held.insert(node));
        !held.are_majority()
    }
}

impl fmt::Display for DelegationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tick {}: {:?}; {:?}; {:?}; {:?}", self.now, self.keys, self.holder, self.adopter, self.rival)
    }
}
