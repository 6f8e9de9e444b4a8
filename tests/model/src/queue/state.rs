use std::fmt;

use super::master::{Master, Place};
use crate::decider::Decider;
use crate::nodes::Nodes;
use crate::state::{NODES, Proposal};

/// The most processes that a setting can have.
pub(super) const PROCESSES: usize = 3;
/// The most attempts of a process.
pub(super) const TRIES: usize = 2;

/// Everything that decides how a run can go on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct World {
    /// The nodes.
    pub nodes: [Master; NODES],
    /// The processes.
    pub processes: [Process; PROCESSES],
    /// How many messages were executed when their attempt was over.
    pub late: u8,
    /// How many places in queues were lost.
    pub lost: u8,
    /// A token that is not larger than one granted before the attempt began.
    pub disorder: bool,
    /// The lock, and no majority of nodes had granted.
    pub minority: bool,
    /// A message changed the key of another attempt.
    pub trespass: bool,
    /// A node granted what it would not have without a queue.
    pub wider: bool,
}

/// A process that waits for the lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Process {
    /// What it is doing.
    pub standing: Standing,
    /// What its attempts sent.
    pub tries: [Try; TRIES],
    /// How many attempts it began.
    pub tried: usize,
    /// The token that it was granted, for good.
    pub token: Option<u8>,
    /// The nodes whose call it heard since its last attempt began.
    pub heard: Nodes,
}

/// What a process is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Standing {
    /// It waits, or has not begun, which is the same but for its place in the queues.
    #[default]
    Waiting,
    /// It makes an attempt.
    Asking(Box<Asking>),
    /// It has the lock.
    Holding,
    /// It let go, gave up, or died.
    Gone,
}

/// An attempt under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Asking {
    /// What decides.
    pub decider: Decider,
    /// The largest token of the acquisitions that had completed when it began.
    pub floor: u8,
    /// The nodes that granted and answered.
    pub granted: Nodes,
    /// The nodes of which something may be heard yet.
    pub open: Nodes,
    /// The present round of confirmation, and of whom nothing was heard in it.
    pub round: (u8, Nodes),
}

/// What was sent in an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Try {
    /// Where its acquire is on its way.
    pub acquires: Nodes,
    /// Its confirms.
    pub confirms: [Proposal; 2],
    /// Its release, which may come at any time from then on, and again.
    pub ended: Option<Place>,
}

impl Process {
    /// Whether it is making this attempt, or holds the lock by it.
    pub(super) fn is_in(&self, attempt: usize) -> bool {
        attempt + 1 == self.tried && matches!(self.standing, Standing::Asking(_) | Standing::Holding)
    }

    pub(super) fn asking(&mut self) -> Option<&mut Asking> {
        match &mut self.standing {
            Standing::Asking(asking) => Some(asking),
            _ => None,
        }
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, node) in self.nodes.iter().enumerate() {
            write!(f, "node {number} F={}", node.lock.fence)?;
            if let Some(key) = node.lock.key {
                write!(f, " L={}.{}", key.owner / TRIES, key.owner % TRIES)?;
            }
            if let Some(turn) = node.turn {
                write!(f, " turn of {turn}")?;
            }
            let waiting = (0..PROCESSES).filter(|process| node.queue & 1 << process != 0);
            write!(f, " queue {:?}; ", waiting.collect::<Vec<_>>())?;
        }
        for (number, process) in self.processes.iter().enumerate() {
            let standing = match &process.standing {
                Standing::Waiting => "waits",
                Standing::Asking(_) => "asks",
                Standing::Holding => "HOLDS",
                Standing::Gone => "is gone",
            };
            write!(f, "process {number} {standing} after {}, token {:?}; ", process.tried, process.token)?;
        }
        Ok(())
    }
}
