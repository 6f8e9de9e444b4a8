use std::fmt;

use super::node::{ReservationsNode, ReservationsRequest};
use crate::nodes::Nodes;
use crate::state::NODES;

/// The largest number of processes.
pub(super) const PROCESSES: usize = 4;

/// A small number.
pub(super) fn to_u8(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

/// A state of the model of the reservations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReservationsState {
    /// The nodes.
    pub nodes: [ReservationsNode; NODES],
    /// The processes.
    pub processes: [ReservationsProcess; PROCESSES],
    /// How many times a process began to wait.
    pub waits: u8,
    /// The faults so far.
    pub faults: Faults,
    /// For how many ticks the lock has been free while one waits whose position is on a majority.
    pub idle: u8,
}

/// How many faults there were of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// Processes that were killed.
    pub kills: u8,
    /// Times that a process was frozen.
    pub freezes: u8,
    /// Connections that were cut.
    pub cuts: u8,
    /// Wake-ups that were lost.
    pub lost_wakeups: u8,
    /// Requests to leave that were lost.
    pub lost_leaves: u8,
}

/// A process, which has one waiter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReservationsProcess {
    /// What it is doing.
    pub phase: ReservationsPhase,
    /// Whether it has something to do since before the present holder acquired the lock.
    pub is_late: bool,
    /// Whether it is frozen.
    pub frozen: bool,
    /// What its attempts say about when it began to wait.
    pub since: u8,
    /// When it began to wait.
    pub began: u8,
    /// The nodes that can wake it.
    pub hears: Nodes,
    /// Those that could when its last attempt began. The others are told that it polls.
    pub waking: Nodes,
    /// The nodes that it believes to have its position.
    pub positions: Nodes,
    /// Its requests under way to each node.
    pub requests: [Vec<ReservationsRequest>; NODES],
    /// The wake-up under way from each node: how many come before it.
    pub wakeups: [Option<u8>; NODES],
    /// The nodes that it has a claim on: it entered their queues, and no fault has undone that.
    pub placed: Nodes,
    /// How many times the lock was acquired by others that came later, since a majority has its position.
    pub passed: u8,
}

/// What a process is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReservationsPhase {
    /// It does not want the lock.
    #[default]
    Idle,
    /// It makes an attempt.
    Acquiring(ReservationsAttempt),
    /// It waits for the next attempt.
    Waiting {
        /// In how many ticks it tries again at the latest.
        timer: u8,
        /// The nodes whose reservation it was told of.
        reserved: Nodes,
    },
    /// It holds the lock. With the nodes that did not grant.
    Holding {
        /// The nodes that said that another holds it.
        held: Nodes,
    },
    /// It was killed.
    Dead,
}

/// An attempt in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReservationsAttempt {
    /// Whether it is made by one that waits.
    pub waits: bool,
    /// The nodes that granted.
    pub granted: Nodes,
    /// The nodes that did not.
    pub held: Nodes,
    /// For how many ticks they said that it is held.
    pub remaining: [u8; NODES],
    /// Whether it is the first behind a stranger.
    pub behind_stranger: bool,
    /// The nodes that woke it since it began.
    pub reserved: Nodes,
    /// In how many ticks its reservation begins, as nodes said since it began.
    pub next_in: Option<u8>,
    /// Of an attempt to read: those that were in line when it began, one bit for each.
    pub behind: u8,
}

impl ReservationsState {
    /// Whether a node reserves the key for a process.
    pub(super) fn is_reserved_for(&self, index: usize) -> bool {
        self.nodes.iter().any(|node| node.queue.reservation().is_some_and(|id| usize::from(id) == index))
    }

    /// Whether a process that begins to wait finds others before it, or nobody.
    pub(super) fn is_orderly(&self, index: usize) -> bool {
        let is_held = |process: &ReservationsProcess| matches!(process.phase, ReservationsPhase::Holding { .. });
        let is_alone = |(other, process): (usize, &ReservationsProcess)| other == index || !process.is_busy();
        self.processes.iter().any(|process| is_held(process) || process.is_in_line())
            || self.processes.iter().enumerate().all(is_alone)
    }
}

impl ReservationsState {
    /// Those that are in line, one bit for each.
    pub(super) fn in_line(&self) -> u8 {
        let processes = self.processes.iter().enumerate();
        processes.fold(0, |set, (index, process)| set | u8::from(process.is_in_line()) << index)
    }
}

impl ReservationsProcess {
    /// Whether it waits for the lock, and is able to take it.
    pub(super) fn is_waiting(&self) -> bool {
        let waits = match self.phase {
            ReservationsPhase::Waiting { .. } => true,
            ReservationsPhase::Acquiring(attempt) => attempt.waits,
            _ => false,
        };
        waits && !self.frozen
    }

    /// Whether something has to happen before time passes.
    pub(super) fn is_busy(&self) -> bool {
        let is_ready = matches!(self.phase, ReservationsPhase::Waiting { timer: 0, .. }) && !self.frozen;
        let is_woken = self.wakeups.iter().any(Option::is_some) && !self.frozen;
        is_ready || is_woken || self.requests.iter().any(|requests| !requests.is_empty())
    }

    /// Whether it waits, and a majority has its position.
    pub(super) fn is_in_line(&self) -> bool {
        self.is_waiting() && self.placed.are_majority()
    }
}

impl fmt::Display for ReservationsState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, node) in self.nodes.iter().enumerate() {
            write!(f, "node {index}")?;
            if let Some(key) = node.key {
                write!(f, " held by {}", key.owner)?;
                key.left.map_or(Ok(()), |left| write!(f, " for {left}"))?;
            }
            write!(f, " {:?}{}; ", node.queue, if node.half { " half" } else { "" })?;
        }
        for (index, process) in self.processes.iter().enumerate() {
            write!(f, "{index}: {:?}{}", process.phase, if process.frozen { " frozen" } else { "" })?;
            write!(f, ", since {}, passed {}, {:?}; ", process.since, process.passed, process.requests)?;
        }
        write!(f, "free for {}", self.idle)
    }
}
