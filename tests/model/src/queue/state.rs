use std::fmt;

use super::node::{QueueNode, QueuePosition};
use crate::decider::Decider;
use crate::nodes::Nodes;
use crate::state::{NODES, Proposal};

/// The largest number of processes that a setting can have.
pub(super) const PROCESSES: usize = 3;
/// The largest number of attempts of a process.
pub(super) const ATTEMPTS: usize = 2;

/// A state of the model with a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct QueueState {
    /// The nodes.
    pub nodes: [QueueNode; NODES],
    /// The processes.
    pub processes: [Process; PROCESSES],
    /// How many requests were executed after their attempt had ended.
    pub late_requests: u8,
    /// How many positions in queues were lost.
    pub lost_positions: u8,
    /// A token is not larger than one that was granted before its attempt began.
    pub unordered_token: bool,
    /// A process took the lock without a majority.
    pub token_without_majority: bool,
    /// A request changed the key of another attempt.
    pub foreign_key_changed: bool,
    /// A node granted what it would not have granted without a queue.
    pub breaks_refinement: bool,
}

/// A process that waits for the lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Process {
    /// What the process is doing.
    pub phase: ProcessPhase,
    /// What its attempts sent.
    pub sent: [SentRequests; ATTEMPTS],
    /// How many attempts it has begun.
    pub attempts_begun: usize,
    /// The token that it was granted. It stays after the release.
    pub token: Option<u8>,
    /// The nodes whose wake-up it received since its last attempt began.
    pub wakeups_from: Nodes,
}

/// What a process is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum ProcessPhase {
    /// It waits, or has not begun, which differs only in its positions in the queues.
    #[default]
    Waiting,
    /// It makes an attempt.
    Acquiring(Box<Attempt>),
    /// It holds the lock.
    Holding,
    /// It released, gave up or died.
    Gone,
}

/// An attempt in progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    /// What decides.
    pub decider: Decider,
    /// The largest token that had been granted when it began.
    pub floor: u8,
    /// The nodes whose grant was delivered.
    pub granted: Nodes,
    /// The nodes whose reply to the acquire may still arrive.
    pub awaited: Nodes,
    /// The current round of confirmation, and the nodes whose reply in it may still arrive.
    pub round: (u8, Nodes),
}

/// What was sent in an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SentRequests {
    /// The nodes on which its acquire has not been executed.
    pub acquires: Nodes,
    /// Its confirms.
    pub confirms: [Proposal; 2],
    /// What its release does to the position, once it is sent. It may be executed at any time, and repeatedly.
    pub release: Option<QueuePosition>,
}

impl Process {
    /// Whether it is making this attempt, or holds the lock because of it.
    pub(super) fn is_in(&self, attempt: usize) -> bool {
        attempt + 1 == self.attempts_begun && matches!(self.phase, ProcessPhase::Acquiring(_) | ProcessPhase::Holding)
    }

    pub(super) fn attempt(&mut self) -> Option<&mut Attempt> {
        match &mut self.phase {
            ProcessPhase::Acquiring(attempt) => Some(attempt),
            _ => None,
        }
    }
}

impl fmt::Display for QueueState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, node) in self.nodes.iter().enumerate() {
            write!(f, "node {index} F={}", node.lock.fence)?;
            if let Some(key) = node.lock.key {
                write!(f, " L={}.{}", key.owner / ATTEMPTS, key.owner % ATTEMPTS)?;
            }
            write!(f, " {:?}; ", node.queue)?;
        }
        for (index, process) in self.processes.iter().enumerate() {
            let phase = match &process.phase {
                ProcessPhase::Waiting => "waits",
                ProcessPhase::Acquiring(_) => "acquires",
                ProcessPhase::Holding => "HOLDS",
                ProcessPhase::Gone => "is gone",
            };
            write!(f, "process {index} {phase} after {}, token {:?}; ", process.attempts_begun, process.token)?;
        }
        Ok(())
    }
}
