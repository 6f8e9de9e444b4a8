use std::fmt;

/// A mutant of the membership protocol: one rule is broken, and a property must be violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MembershipMutant {
    /// A client counts the votes of nodes that have installed different rosters.
    VotesNotBoundToRoster,
    /// A client counts the vote of a node that has its roster, but no seat in it.
    NoOwnSeatNeeded,
    /// A node that forgot gets the id that its address has in the roster.
    AddressAsIdentity,
    /// A client takes a roster for chosen when one node accepted it.
    ChosenByMinority,
    /// A node accepts a proposal although it promised a higher one.
    PromiseForgotten,
    /// The client alone draws the id of a node, so a message that is repeated writes it again.
    IdDrawnByProposer,
    /// A node that joins keeps its fences.
    FloorNotApplied,
    /// The floor is the fence of one node.
    FloorFromMinority,
    /// Fences are read before the node has installed the roster.
    FloorReadBeforeInstall,
    /// The floor is read only from the others of the next roster.
    FloorFromOthersOfNext,
    /// A quarantine has no length.
    NoQuarantine,
    /// A node that restarted with its record keeps its id, because it says that it is durable.
    ExemptionForDurable,
    /// A node that does not observe a quarantine says that it is over.
    AbsenceTakenForOver,
    /// A client that knew the set takes blank nodes for a new one.
    FirstStartByOneThatKnew,
    /// A majority of the list is enough to form a set.
    FormedByMajority,
    /// The quarantine is lowered together with `max_ttl`.
    QuarantineLoweredWithMaxTtl,
    /// One clock is enough to end a quarantine.
    OneClockEndsQuarantine,
    /// A round asks a seat over every address that leads to its member.
    SeatAskedTwice,
    /// A client that left a set counts votes of the next one at once.
    LeftSetNotWaitedFor,
    /// A client does not see that another set was formed over its own, nor that the members of that one may be elsewhere.
    SuccessorIgnored,
    /// A client does not see that the log of a node ends earlier than it did.
    LogPositionIgnored,
}

/// Leases and what they are worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locks {
    /// Keys live for this many ticks, as do leases.
    Timed {
        /// The time to live.
        ttl: u8,
    },
    /// Keys may expire at any step, and quarantines have no length: tokens are in order all the same.
    Timeless,
}

/// How much of a change a client does in one step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pace {
    /// One message.
    Message,
    /// The choice of a roster. Installs, joins and the rest are one message each.
    Choice,
    /// All that can be done now.
    Everything,
}

/// The bounds of a model of the membership.
#[derive(Clone, Debug)]
pub struct MembershipSetting {
    /// The name that the report prints.
    pub name: &'static str,
    /// The mutant to explore instead of the protocol.
    pub mutant: Option<MembershipMutant>,
    /// The nodes in the list of each client.
    pub lists: &'static [&'static [usize]],
    /// Two nodes that have the same name, in different lists.
    pub same_name: Option<(usize, usize)>,
    /// Whether the set was formed by a client with the first list. Otherwise all nodes are blank.
    pub formed: bool,
    /// A client that then formed another set over it, when the nodes that are not in its list had forgotten.
    pub successor: Option<usize>,
    /// Which clients have not read any node at the beginning.
    pub ignorant: &'static [usize],
    /// Whether a client reads all nodes of its list in one step.
    pub reads_all: bool,
    /// How much of a change is one step.
    pub pace: Pace,
    /// Clients that read all nodes of their lists after every step.
    pub fresh: &'static [usize],
    /// Clients that take no part in changes.
    pub passive: &'static [usize],
    /// Which client makes each attempt.
    pub attempts: &'static [usize],
    /// How keys and leases end.
    pub locks: Locks,
    /// How many times the holder of a lease begins to renew it.
    pub renewals: u8,
    /// The last tick.
    pub last_tick: u8,
    /// How many times a node loses everything.
    pub forgets: u8,
    /// How many times a node restarts without its keys and fences, but with its record.
    pub restarts: u8,
    /// How many times a node is started with an earlier copy of its files. Nodes have a log then.
    pub restores: u8,
    /// How many clocks go wrong.
    pub jumps: u8,
    /// How many writes are executed late, repeatedly or never.
    pub late_writes: u8,
    /// How many replies to reads arrive late.
    pub late_reads: u8,
    /// Whether an attempt also asks nodes that its client finds while it gathers votes.
    pub joins_late: bool,
    /// How many times all addresses lead to another set, and back.
    pub detours: u8,
    /// The highest round of a proposal.
    pub max_round: u64,
    /// The highest generation.
    pub max_generation: u64,
    /// The nodes that may fail.
    pub faulty: &'static [usize],
    /// A client that asks for a lower `max_ttl`, and later for a lower quarantine.
    pub lowering: Option<usize>,
    /// Whether every state is checked for a deadlock.
    pub deadlocks: bool,
}

impl MembershipSetting {
    /// A formed set of three masters and clients with these lists, without faults or locks.
    #[must_use]
    pub const fn new(name: &'static str, lists: &'static [&'static [usize]]) -> Self {
        Self {
            name,
            mutant: None,
            lists,
            same_name: None,
            formed: true,
            successor: None,
            ignorant: &[],
            reads_all: false,
            pace: Pace::Message,
            fresh: &[],
            passive: &[],
            attempts: &[],
            locks: Locks::Timeless,
            renewals: 0,
            last_tick: 0,
            forgets: 0,
            restarts: 0,
            restores: 0,
            jumps: 0,
            late_writes: 0,
            late_reads: 0,
            joins_late: false,
            detours: 0,
            max_round: 2,
            max_generation: 2,
            faulty: &[],
            lowering: None,
            deadlocks: false,
        }
    }

    /// The same setting for a mutant.
    #[must_use]
    pub const fn with_mutant(self, mutant: MembershipMutant) -> Self {
        Self { mutant: Some(mutant), ..self }
    }

    pub(super) fn is(&self, mutant: MembershipMutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// How many nodes there are.
    pub(super) fn nodes(&self) -> usize {
        self.lists.iter().copied().flatten().max().map_or(0, |last| last + 1)
    }

    pub(super) fn name_of(&self, node: usize) -> String {
        match self.same_name {
            Some((one, other)) if other == node => one.to_string(),
            _ => node.to_string(),
        }
    }

    /// The longest time to live that clients ask for, in ticks.
    pub(super) fn asked_ttl(&self) -> u8 {
        if self.lowering.is_some() { 1 } else { self.ttl() }
    }

    pub(super) fn ttl(&self) -> u8 {
        match self.locks {
            Locks::Timed { ttl } => ttl,
            Locks::Timeless => 1,
        }
    }

    pub(super) fn is_timed(&self) -> bool {
        matches!(self.locks, Locks::Timed { .. })
    }
}

impl fmt::Display for MembershipSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, lists, attempts, forgets, restarts, jumps, late_writes, late_reads, last_tick, .. } = self;
        write!(f, "membership, {name}: lists {lists:?}, {} attempts", attempts.len())?;
        match self.locks {
            Locks::Timed { ttl } => write!(f, ", ttl {ttl} of {last_tick} ticks, {} renewals", self.renewals)?,
            Locks::Timeless => {}
        }
        write!(f, "; forgets {forgets}, restarts {restarts}, restores {}, ", self.restores)?;
        write!(f, "wrong clocks {jumps}, late writes {late_writes}, ")?;
        write!(f, "late reads {late_reads}; generations to {}, rounds to {}", self.max_generation, self.max_round)?;
        if let Some(mutant) = self.mutant {
            write!(f, "; mutant {mutant:?}")?;
        }
        Ok(())
    }
}
