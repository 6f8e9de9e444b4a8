use std::fmt;
use std::ops::RangeInclusive;

use super::state::{CLIENTS, NODES};

/// The rules, or one of the nearest that are wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// As they are shipped.
    Shipped,
    /// The token is the largest of the grants, without a confirmation.
    LargestGrant,
    /// A node confirms without a look at whose key it is.
    ConfirmWithoutOwner,
    /// A node confirms what is its own number already, whoever holds the key: it told that number to someone.
    ConfirmOwnGrant,
    /// All attempts use one owner id.
    OneOwner,
    /// A node that forgot votes at once.
    NoQuarantine,
    /// A node that forgot votes at once, and no attempt knows the clock.
    NoQuarantineNoClock,
    /// A node that forgot sits out, but no attempt knows the clock.
    NoClock,
    /// A client sends acquires to nodes in quarantine, where they may arrive after it.
    AsksInQuarantine,
    /// An extend puts the key back where it is missing, and the renewal counts it.
    CountsReplaced,
    /// A release deletes whatever key is there.
    ReleaseForAnyone,
    /// An extend makes whatever key is there live longer.
    ExtendForAnyone,
    /// Keys do not expire.
    KeysWithoutEnd,
    /// A node counts a block of tokens as one.
    BlockOfOne,
    /// A lock that shares the fence writes its own number there, even over a larger one.
    NeighboursCountApart,
}

/// What a model is of: how many attempts, and what can go wrong.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// The rules.
    pub rules: Rules,
    /// How many attempts are made.
    pub attempts: usize,
    /// The fencing numbers with which the nodes begin.
    pub fences: [u8; NODES],
    /// How many tokens each of them asks for.
    pub tokens: [u8; CLIENTS],
    /// The clocks that an attempt may know, where there is no time.
    pub hints: &'static [u8],
    /// Without time, no run is followed in which a node's number becomes larger than this.
    pub highest: u8,
    /// Without time, keys end at any step, and nothing is said of validity.
    pub time: Option<Time>,
    /// How many times a node forgets; never while another is in quarantine.
    pub forgets: u8,
    /// How many times another lock, which has the same fence, moves that of a node on.
    pub neighbours: u8,
    /// How many rounds of renewal a holder may begin.
    pub renewals: u8,
    /// Whether a message may be executed more than once.
    pub doubled: bool,
    /// Whether an attempt hears that a lock is held. It can but fail for it, which it may at any time.
    pub held_is_told: bool,
    /// Whether a client may pause between looking at the time and sending, to one node and to the next.
    pub hesitant: bool,
}

/// Time that passes in ticks, for nodes and clients alike. What differs by less than a tick (the drift, the margin of the
/// quarantine) is nothing here.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    /// How long keys live.
    pub ttl: u8,
    /// How far the clock that an attempt believes may be behind.
    pub lag: u8,
    /// How long a node that forgot does not grant.
    pub quarantine: u8,
    /// The last tick.
    pub horizon: u8,
}

/// How far the clock goes on in a tick. Numbers stay below the next tick's: nodes grant one lock less often than their clocks, which
/// count microseconds, go on.
pub const CLOCK_A_TICK: u8 = 2;

impl Setting {
    /// Attempts without time: keys end at any step.
    #[must_use]
    pub const fn attempts(attempts: usize, fences: [u8; NODES], highest: u8) -> Self {
        Self {
            name: "attempts",
            about: "messages late, lost, doubled, in any order; keys end at any step",
            rules: Rules::Shipped,
            attempts,
            fences,
            tokens: [1; CLIENTS],
            hints: &[0],
            highest,
            time: None,
            forgets: 0,
            neighbours: 0,
            renewals: 0,
            doubled: true,
            held_is_told: true,
            hesitant: false,
        }
    }

    /// Attempts in time, while nodes forget.
    #[must_use]
    pub const fn forgetting(attempts: usize, forgets: u8, time: Time) -> Self {
        Self {
            name: "forgetting",
            about: "nodes lose all they know, one at a time, and sit out; clients pause for any time",
            forgets,
            time: Some(time),
            doubled: false,
            held_is_told: false,
            ..Self::attempts(attempts, [0; NODES], 0)
        }
    }

    /// Attempts in time, while other locks that have the same fence move it on.
    #[must_use]
    pub const fn sharing(attempts: usize, forgets: u8, neighbours: u8, time: Time) -> Self {
        Self {
            name: "sharing",
            about: "other locks count on the same fences; clients pause for any time",
            neighbours,
            ..Self::forgetting(attempts, forgets, time)
        }
    }

    /// Attempts in time, of which those that are granted are renewed.
    #[must_use]
    pub const fn renewal(attempts: usize, forgets: u8, renewals: u8, time: Time) -> Self {
        Self {
            name: "renewal",
            about: "leases are renewed and put back, while nodes forget and clients pause for any time",
            renewals,
            ..Self::forgetting(attempts, forgets, time)
        }
    }

    /// The same under other rules.
    #[must_use]
    pub const fn under(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// How long keys live, in ticks.
    #[must_use]
    pub fn ttl(&self) -> u8 {
        self.time.map_or(0, |time| time.ttl)
    }

    /// The cluster clock at a tick.
    #[must_use]
    pub fn clock(&self, tick: u8) -> u8 {
        match self.rules {
            Rules::NoClock | Rules::NoQuarantineNoClock => 0,
            _ => tick * CLOCK_A_TICK,
        }
    }

    /// Whether all attempts ask for as many tokens.
    pub(super) fn asks_for_blocks_alike(&self) -> bool {
        self.tokens[..self.attempts].iter().all(|tokens| *tokens == self.tokens[0])
    }

    /// To which numbers another lock may move a fence of this number at a tick: by a grant of its own, a confirm or a replace.
    pub(super) fn moved_on_to(&self, fence: u8, now: u8) -> RangeInclusive<u8> {
        let lowest = if self.rules == Rules::NeighboursCountApart { 0 } else { fence + 1 };
        lowest..=self.ceiling(now)
    }

    /// The largest number that is followed.
    #[must_use]
    pub fn ceiling(&self, now: u8) -> u8 {
        match self.time {
            Some(_) => (now + 1) * CLOCK_A_TICK - 1,
            None => self.highest,
        }
    }
}

impl Setting {
    /// Three attempts, and two while other locks count on the same fences.
    #[must_use]
    pub fn long_attempts() -> Vec<Self> {
        let three = Self { held_is_told: false, doubled: false, ..Self::attempts(3, [0; NODES], 2) };
        let blocks = Self { tokens: [2, 1, 1], doubled: false, ..Self::attempts(2, [0, 1, 2], 4) };
        let shared = Self { neighbours: 1, held_is_told: false, ..blocks.clone() };
        let shared = Self { fences: [0; NODES], highest: 3, ..shared };
        let in_time = Self::sharing(2, 0, 2, Time { ttl: 2, lag: 0, quarantine: 2, horizon: 3 });
        vec![Self::attempts(2, [0, 1, 2], 3), blocks, three, shared, in_time]
    }

    /// Two attempts, while nodes forget.
    #[must_use]
    pub fn long_forgetting() -> Vec<Self> {
        let lagging = Self::forgetting(2, 1, Time { ttl: 2, lag: 1, quarantine: 3, horizon: 5 });
        let shared = Self::sharing(2, 1, 1, Time { ttl: 2, lag: 0, quarantine: 2, horizon: 3 });
        vec![Self { hesitant: true, ..lagging }, shared]
    }

    /// Leases that are renewed, while nodes forget.
    #[must_use]
    pub fn long_renewal() -> Vec<Self> {
        vec![Self::renewal(2, 1, 1, Time { ttl: 2, lag: 0, quarantine: 2, horizon: 3 })]
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, attempts, fences, highest, forgets, neighbours, renewals, .. } = self;
        write!(f, "{name}: {attempts} attempts")?;
        match self.time {
            None => write!(f, ", keys end at any step, F from {fences:?} to {highest}")?,
            Some(Time { ttl, lag, quarantine, horizon }) => {
                write!(f, ", ttl {ttl} of {horizon} ticks, clock {lag} behind")?;
                if *forgets > 0 {
                    write!(f, ", {forgets} forgets, quarantine {quarantine}")?;
                }
            }
        }
        if !self.asks_for_blocks_alike() {
            write!(f, ", tokens {:?}", &self.tokens[..*attempts])?;
        }
        if *neighbours > 0 {
            write!(f, ", {neighbours} moves by a lock with the same fence")?;
        }
        if self.hesitant {
            write!(f, ", pauses before sending")?;
        }
        if *renewals > 0 {
            write!(f, ", {renewals} renewals each")?;
        }
        if !self.doubled {
            write!(f, ", no message executed twice")?;
        }
        if !self.held_is_told {
            write!(f, ", HELD not told from silence")?;
        }
        Ok(())
    }
}
