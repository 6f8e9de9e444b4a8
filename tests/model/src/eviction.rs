//! The eviction of a holder. One client looks at the nodes and evicts whom it saw, in up to two rounds, while the others acquire and
//! renew. Whom it evicts, and what a round came to, is decided by the shipped quorum code.

use lock_core::node::Eviction as Reply;
use lock_core::quorum::{EvictVerdict, HoldingVote, eviction, to_evict};

use super::action::Action;
use super::client::to_u8;
use super::coverage::CoveragePoint;
use super::model::LockModel;
use super::mutant::Mutant;
use super::state::{CLIENTS, Client, Key, NOBODY, NODES, Node, Phase, SHARED, State};

/// The most rounds of an eviction that are explored.
const MAX_ROUNDS: u8 = 2;
/// For how many ticks the replies of a round are awaited. A tombstone lives for as much longer than a ttl.
const ROUND: u8 = 1;
/// For how many ticks an evicted lock is granted to nobody. The nodes' word is good for other callers of the holder's process in the
/// tick in which it was asked for: for less.
const GAP: u8 = 1;

const EVICTED: Reply = Reply::Evicted { deleted: true };

/// An eviction, and what the nodes replied to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Eviction {
    /// Who holds the lock on each node.
    pub looks: [HoldingVote<usize>; NODES],
    /// The readers that each node has.
    pub readers: [Owners; NODES],
    /// The highest fence that is known.
    pub highest: u8,
    /// The round, or 0 while it looks.
    pub round: u8,
    /// Whom it evicts.
    pub evicted: Owners,
    /// The token of this round.
    pub token: u8,
    /// The tick in which this round began.
    pub sent: u8,
    /// The replies of this round.
    pub votes: [Option<Reply>; NODES],
    /// Whether a majority evicted.
    pub done: bool,
}

impl Default for Eviction {
    fn default() -> Self {
        Self {
            looks: [HoldingVote::NoReply; NODES],
            readers: [Owners::default(); NODES],
            highest: 0,
            round: 0,
            evicted: Owners::default(),
            token: 0,
            sent: 0,
            votes: [None; NODES],
            done: false,
        }
    }
}

/// A set of owners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owners(u8);

impl Owners {
    /// Whether the owner is in the set.
    #[must_use]
    pub fn contains(self, owner: usize) -> bool {
        self.0 & 1 << owner != 0
    }
}

impl Owners {
    fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// The same set with the owners renamed: owner `order[i]` becomes owner `i`.
    pub(super) fn renamed(self, order: [usize; CLIENTS]) -> Self {
        order.iter().enumerate().filter(|(_, old)| self.contains(**old)).map(|(new, _)| new).collect()
    }
}

impl FromIterator<usize> for Owners {
    fn from_iter<T: IntoIterator<Item = usize>>(owners: T) -> Self {
        Self(owners.into_iter().fold(0, |set, owner| set | 1 << owner))
    }
}

impl Node {
    /// Whether an owner cannot have the key any more.
    pub(super) fn bars(&self, owner: usize) -> bool {
        self.barred.contains(owner)
    }

    fn evict(
        &mut self,
        owners: Owners,
        token: u8,
        barred_until: u8,
        gap_ends: Option<u8>,
        mutant: Option<Mutant>,
    ) -> Reply {
        let is_successor = !self.is_held_only_by(owners);
        match mutant {
            Some(Mutant::EvictsWithoutOwnerCheck) => {}
            Some(Mutant::EvictsUnseenReaders) if self.is_shared() => {}
            Some(Mutant::EvictsBesideSuccessor) if is_successor => return EVICTED,
            _ if is_successor => return Reply::Superseded,
            _ => {}
        }
        if self.fence >= token && mutant != Some(Mutant::EvictsAboveFirstOfBlock) {
            return Reply::Refused { fence: self.fence.into() };
        }
        if owners != Owners::default() {
            (self.barred, self.barred_until) = (owners, barred_until);
        }
        if mutant != Some(Mutant::EvictsWithoutFence) {
            self.fence = self.fence.max(token);
        }
        if self.key.is_none_or(|key| key.owner != NOBODY) {
            self.key = self.key.and(gap_ends).map(|expires| Key { owner: NOBODY, expires });
        }
        self.readers = [0; CLIENTS];
        EVICTED
    }

    /// Whether nobody has the lock but these.
    fn is_held_only_by(&self, owners: Owners) -> bool {
        let unnamed = |client: usize| self.has_entry(client) && !owners.contains(client);
        match self.key {
            Some(key) if key.owner == SHARED => !(0..CLIENTS).any(unnamed),
            Some(key) => key.owner == NOBODY || owners.contains(key.owner),
            None => true,
        }
    }
}

impl LockModel {
    pub(super) fn eviction_actions(&self, state: &State, actions: &mut Vec<Action>) {
        let Some(eviction) = &state.eviction else { return };
        for node in 0..NODES {
            if eviction.round == 0 && eviction.looks[node] == HoldingVote::NoReply {
                actions.push(Action::Look { node });
            }
            if eviction.round > 0 && eviction.votes[node].is_none() && state.now <= eviction.sent + ROUND {
                actions.push(Action::Evict { node });
            }
        }
        if self.next_round(eviction).is_some() {
            actions.push(Action::SendEvictions);
        }
    }

    /// Whom the next round evicts, and above which fence; `None` if there is no next round now.
    fn next_round(&self, present: &Eviction) -> Option<(Owners, u8)> {
        let (evicted, above) = match present.round {
            0 => (present.seen_to_evict()?, present.highest),
            MAX_ROUNDS => return None,
            _ => match present.verdict() {
                EvictVerdict::Again { above } => (present.evicted, present.highest.max(to_u8(above))),
                _ => return None,
            },
        };
        (above < self.setting.max_fence).then_some((evicted, above))
    }

    pub(super) fn look(&self, state: &mut State, node: usize) {
        let seen = state.nodes[node];
        let Some(eviction) = &mut state.eviction else { return };
        let holder = seen.key.filter(|key| key.owner != NOBODY);
        eviction.looks[node] = holder.map_or(HoldingVote::Free, |key| HoldingVote::Held(key.owner));
        if seen.is_shared() {
            eviction.readers[node] = (0..CLIENTS).filter(|client| seen.has_entry(*client)).collect();
        }
        eviction.highest = eviction.highest.max(seen.fence);
    }

    pub(super) fn send_evictions(&self, state: &mut State) {
        let Some(eviction) = &mut state.eviction else { return };
        let Some((evicted, above)) = self.next_round(eviction) else { return };
        if eviction.round > 0 {
            self.coverage.mark(CoveragePoint::SecondEviction);
        }
        let others_of_block = match self.setting.mutant {
            Some(Mutant::EvictsAboveFirstOfBlock) => self.setting.tokens[0] - 1,
            _ => 0,
        };
        let token = (above + 1).saturating_sub(others_of_block);
        // What the looks were no longer matters.
        let (highest, round, sent) = (above, eviction.round + 1, state.now);
        **eviction = Eviction { highest, round, evicted, token, sent, ..Eviction::default() };
    }

    pub(super) fn evict(&self, state: &mut State, at: usize) {
        let Some(eviction) = &mut state.eviction else { return };
        let (node, barred_until) = (&mut state.nodes[at], state.now + self.setting.ttl() + ROUND);
        let before = *node;
        let has_gap = self.setting.joins && self.setting.mutant != Some(Mutant::EvictsWithoutGap);
        let gap_ends = has_gap.then_some(state.now + GAP);
        let vote = node.evict(eviction.evicted, eviction.token, barred_until, gap_ends, self.setting.mutant);
        if !self.setting.counts_tokens() {
            node.fence = before.fence;
        }
        eviction.votes[at] = Some(vote);
        let foreign = !before.is_held_only_by(eviction.evicted);
        state.breaches.foreign_key_changed |= foreign && node.key != before.key;
        if vote == Reply::Superseded {
            self.coverage.mark(CoveragePoint::Superseded);
        }
        if !eviction.done && eviction.verdict() == EvictVerdict::Evicted {
            eviction.done = true;
            if eviction.evicted != Owners::default() {
                self.coverage.mark(CoveragePoint::Evicted);
            }
        }
    }
}

impl Eviction {
    /// Whom to evict: of a lock that is read, all readers that were seen on any node.
    fn seen_to_evict(&self) -> Option<Owners> {
        let holders = to_evict(&self.looks)?;
        let writers: Owners = holders.iter().copied().filter(|holder| *holder != SHARED).collect();
        let readers = self.readers.into_iter().filter(|_| holders.contains(&SHARED));
        Some(readers.fold(writers, Owners::and))
    }

    fn verdict(&self) -> EvictVerdict {
        eviction(&self.votes)
    }

    pub(super) fn renamed(&self, order: [usize; NODES]) -> Self {
        let readers = order.map(|node| self.readers[node]);
        Self { looks: order.map(|node| self.looks[node]), readers, votes: order.map(|node| self.votes[node]), ..*self }
    }
}

impl Eviction {
    pub(super) fn with_owners_renamed(mut self, order: [usize; CLIENTS]) -> Self {
        for look in &mut self.looks {
            if let HoldingVote::Held(holder) = look {
                *holder = order.iter().position(|old| old == holder).unwrap_or(*holder);
            }
        }
        self.readers = self.readers.map(|readers| readers.renamed(order));
        self.evicted = self.evicted.renamed(order);
        self
    }
}

impl State {
    /// Whether an owner is being evicted, or was.
    pub(super) fn is_evicted(&self, owner: usize) -> bool {
        self.eviction.as_ref().is_some_and(|eviction| eviction.evicted.contains(owner))
    }

    /// The token of the eviction, once a majority evicted.
    pub(super) fn eviction_token(&self) -> Option<u8> {
        self.eviction.as_ref().filter(|eviction| eviction.done).map(|eviction| eviction.token)
    }
}

fn clients(state: &State) -> impl Iterator<Item = (usize, &Client)> {
    state.clients.iter().enumerate()
}

/// Whether the token of the eviction is that of nobody else.
pub(super) fn has_a_token_of_its_own(model: &LockModel, state: &State) -> bool {
    let Some(forced) = state.eviction_token() else { return true };
    let has = |(client, tokens): (&Client, u8)| {
        client.token.zip(client.last_token(tokens)).is_some_and(|(first, last)| (first..=last).contains(&forced))
    };
    !state.clients.iter().zip(model.setting.tokens).any(has)
}

/// Whether a claim of the eviction's token shuts out every token of the evicted.
pub(super) fn shuts_out_the_evicted(model: &LockModel, state: &State) -> bool {
    let Some(forced) = state.eviction_token() else { return true };
    let is_below = |(index, client): (usize, &Client)| {
        client.last_token(model.setting.tokens[index]).is_none_or(|last| last < forced)
    };
    clients(state).filter(|(index, _)| state.is_evicted(*index)).all(is_below)
}

/// Whether a claim of the eviction's token shuts out nobody else who holds the lock.
pub(super) fn shuts_out_nobody_else(_: &LockModel, state: &State) -> bool {
    let Some(forced) = state.eviction_token() else { return true };
    let holds = |client: &Client| matches!(client.phase, Phase::Holding { .. });
    let mut others = clients(state).filter(|(index, client)| holds(client) && !state.is_evicted(*index));
    others.all(|(_, client)| client.token.is_none_or(|first| first > forced))
}

/// Whether no caller of a process whose holder was evicted can get the lock beside its successor, without asking the nodes: as long as the
/// word is good that the holder has from them, nobody else holds the lock.
pub(super) fn is_joined_by_nobody(model: &LockModel, state: &State) -> bool {
    let holders = || clients(state).filter(|(_, client)| matches!(client.phase, Phase::Holding { .. }));
    let has_good_word = |index: usize, client: &Client| match client.phase {
        Phase::Holding { until, .. } => until == state.now + model.setting.ttl_of(index),
        _ => false,
    };
    let mut evicted = holders().filter(|(index, client)| state.is_evicted(*index) && has_good_word(*index, client));
    let reads = |index: usize| model.setting.reads(index) || state.clients[index].downgraded;
    let may_be_beside = |one: usize, other: usize| state.is_evicted(other) || reads(one) && reads(other);
    evicted.all(|(one, _)| holders().all(|(other, _)| may_be_beside(one, other)))
}
