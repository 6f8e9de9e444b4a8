use std::fmt;
use std::ops::RangeInclusive;

use super::mutant::Mutant;
use super::state::{CLIENTS, NODES};

/// The bounds of a model: how many attempts there are, and which faults can occur.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The name that the report prints.
    pub name: &'static str,
    /// The mutant to explore instead of the protocol.
    pub mutant: Option<Mutant>,
    /// The number of attempts.
    pub attempts: usize,
    /// The initial fence of each node.
    pub initial_fences: [u8; NODES],
    /// How many of the attempts read: the last ones.
    pub readers: usize,
    /// How many tokens each attempt reserves. With none, fences stand still, and nothing is said of tokens: all nodes grant the same
    /// number, so that no attempt has to confirm one. That only lets attempts hold the lock sooner.
    pub tokens: [u8; CLIENTS],
    /// The largest fence that is explored.
    pub max_fence: u8,
    /// Without time, keys expire at any step and leases have no validity.
    pub time: Option<Time>,
    /// How many times a node loses its data. It never does while another is in quarantine.
    pub forgets: u8,
    /// How many times another lock advances the shared fence of a node.
    pub fence_advances: u8,
    /// How many renewals a holder may begin.
    pub renewals: u8,
    /// Whether a writer that holds the lock may become a reader.
    pub downgrades: bool,
    /// How long the keys of each attempt live, where they differ.
    pub ttls: Option<[u8; CLIENTS]>,
    /// Whether an operator evicts the holder of the lock, once.
    pub evicts: bool,
    /// Whether other callers of a holder's process get the lock by the word that the holder has from the nodes; so a node that evicted
    /// grants the lock to nobody for longer than a word is good.
    pub joins: bool,
    /// Whether a request may be executed more than once.
    pub duplicates: bool,
    /// Whether an attempt receives the reply that the lock is held. It can only fail on it, which is possible at any step.
    pub held_replies: bool,
    /// Whether replies that lead to a decision are delivered at once, or only together with a later one; and requests that would change
    /// nothing are not executed.
    pub prompt: bool,
}

/// Time that passes in ticks, for nodes and clients alike. Differences below a tick (the drift, the margin of the quarantine)
/// are not modeled.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    /// How long keys live.
    pub ttl: u8,
    /// How long a node that lost its data grants nothing.
    pub quarantine: u8,
    /// The last tick.
    pub last_tick: u8,
}

/// The largest fence that is explored in settings with time. Two attempts and another lock get no further in their ticks.
const MAX_FENCE_WITH_TIME: u8 = 4;

impl Setting {
    /// Attempts without time: keys expire at any step.
    #[must_use]
    pub const fn attempts(attempts: usize, initial_fences: [u8; NODES], max_fence: u8) -> Self {
        Self {
            name: "attempts",
            mutant: None,
            attempts,
            initial_fences,
            readers: 0,
            tokens: [1; CLIENTS],
            max_fence,
            time: None,
            forgets: 0,
            fence_advances: 0,
            renewals: 0,
            downgrades: false,
            ttls: None,
            evicts: false,
            joins: false,
            duplicates: true,
            held_replies: true,
            prompt: false,
        }
    }

    /// Attempts with time, while nodes lose their data.
    #[must_use]
    pub const fn forgetting(attempts: usize, forgets: u8, time: Time) -> Self {
        Self {
            name: "forgetting",
            forgets,
            time: Some(time),
            duplicates: false,
            held_replies: false,
            ..Self::attempts(attempts, [0; NODES], MAX_FENCE_WITH_TIME)
        }
    }

    /// Attempts with time, while other locks that share the fence advance it.
    #[must_use]
    pub const fn sharing(attempts: usize, forgets: u8, fence_advances: u8, time: Time) -> Self {
        Self { name: "sharing", fence_advances, ..Self::forgetting(attempts, forgets, time) }
    }

    /// Attempts with time, whose leases are renewed.
    #[must_use]
    pub const fn renewal(attempts: usize, forgets: u8, renewals: u8, time: Time) -> Self {
        Self { name: "renewal", renewals, ..Self::forgetting(attempts, forgets, time) }
    }

    /// Attempts with time, whose leases are renewed, and one of which is evicted.
    #[must_use]
    pub const fn eviction(attempts: usize, renewals: u8, time: Time) -> Self {
        Self { name: "eviction", evicts: true, ..Self::renewal(attempts, 0, renewals, time) }
    }

    /// Attempts with time, some of which read, and whose leases are renewed.
    #[must_use]
    pub const fn reading(attempts: usize, readers: usize, renewals: u8, time: Time) -> Self {
        Self { name: "reading", readers, ..Self::renewal(attempts, 0, renewals, time) }
    }

    /// Writers and readers with time, in as few states as show that none holds the lock beside a writer: fences stand still.
    #[must_use]
    pub const fn shared(writers: usize, readers: usize, time: Time) -> Self {
        let reading = Self::reading(writers + readers, readers, 0, time);
        Self { name: "shared", initial_fences: [1; NODES], tokens: [0; CLIENTS], prompt: true, ..reading }
    }

    /// The tokens of writers and readers: keys and entries expire at any step.
    #[must_use]
    pub const fn shared_tokens(writers: usize, readers: usize, initial_fences: [u8; NODES], max_fence: u8) -> Self {
        let attempts = Self::attempts(writers + readers, initial_fences, max_fence);
        Self { name: "shared tokens", readers, duplicates: false, held_replies: false, prompt: true, ..attempts }
    }

    /// The same setting for a mutant.
    #[must_use]
    pub const fn with_mutant(self, mutant: Mutant) -> Self {
        Self { mutant: Some(mutant), ..self }
    }

    /// How long keys live, in ticks.
    #[must_use]
    pub fn ttl(&self) -> u8 {
        self.time.map_or(0, |time| time.ttl)
    }

    /// Whether the last tick comes before any key expires.
    pub(super) fn no_key_expires(&self) -> bool {
        self.time.is_some_and(|time| time.last_tick <= time.ttl)
    }

    /// Whether an attempt reads.
    pub(super) fn reads(&self, client: usize) -> bool {
        client < self.attempts && client + self.readers >= self.attempts
    }

    /// For how many ticks the keys of an attempt live.
    pub(super) fn ttl_of(&self, client: usize) -> u8 {
        self.ttls.map_or(self.ttl(), |ttls| ttls[client])
    }

    /// Whether fences count up.
    pub(super) fn counts_tokens(&self) -> bool {
        self.tokens != [0; CLIENTS]
    }

    /// The first of the attempts that differ from this one only in their names.
    pub(super) fn first_alike(&self, client: usize) -> usize {
        let role = |client| (client < self.attempts, self.reads(client), self.tokens[client], self.ttl_of(client));
        (0..client).find(|other| role(*other) == role(client)).unwrap_or(client)
    }

    /// Whether all attempts reserve the same number of tokens.
    pub(super) fn has_equal_blocks(&self) -> bool {
        self.tokens[..self.attempts].iter().all(|tokens| *tokens == self.tokens[0])
    }

    /// The values to which another lock may set this fence, by a grant of its own, a confirm or a replace.
    pub(super) fn fences_after(&self, fence: u8) -> RangeInclusive<u8> {
        let lowest = if self.mutant == Some(Mutant::SharedFenceSetBack) { 0 } else { fence + 1 };
        lowest..=self.max_fence
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, attempts, initial_fences, max_fence, forgets, fence_advances, renewals, .. } = self;
        write!(f, "{name}: {attempts} attempts")?;
        match self.time {
            None => write!(f, ", keys expire at any step, fences from {initial_fences:?} to {max_fence}")?,
            Some(Time { ttl, quarantine, last_tick }) => {
                write!(f, ", ttl {ttl} of {last_tick} ticks, fences to {max_fence}")?;
                if *forgets > 0 {
                    write!(f, ", {forgets} data losses, quarantine {quarantine}")?;
                }
            }
        }
        if self.readers > 0 {
            write!(f, ", {} of them read", self.readers)?;
        }
        if !self.counts_tokens() {
            write!(f, ", fences stand still")?;
        }
        if let Some(ttls) = self.ttls {
            write!(f, ", each with a ttl of {:?}", &ttls[..*attempts])?;
        }
        if self.downgrades {
            write!(f, ", downgrades")?;
        }
        if !self.has_equal_blocks() {
            write!(f, ", tokens {:?}", &self.tokens[..*attempts])?;
        }
        if *fence_advances > 0 {
            write!(f, ", {fence_advances} advances of a shared fence")?;
        }
        if *renewals > 0 {
            write!(f, ", {renewals} renewals each")?;
        }
        if self.evicts {
            write!(f, ", one eviction")?;
        }
        if self.joins {
            write!(f, ", others get the lock by the holder's word")?;
        }
        if !self.duplicates {
            write!(f, ", no request executed twice")?;
        }
        if !self.held_replies {
            write!(f, ", no replies that the lock is held")?;
        }
        Ok(())
    }
}
