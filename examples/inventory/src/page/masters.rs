//! The state of the masters, and their faults.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use lock_axum::{Health, LockManager, MemoryNode, NodeError, NodeHealth};
use serde::Serialize;

use crate::proof::Masters;

/// Longer than anybody waits.
const HANGS: Duration = Duration::from_secs(24 * 60 * 60);

/// The masters as the page shows them, and as its buttons break them.
#[derive(Debug)]
pub(crate) struct Tiles {
    /// In-memory masters, with what was done to each. Empty if the masters are servers.
    nodes: Vec<MemoryNode>,
    faults: Mutex<Vec<Option<Fault>>>,
    health: Mutex<Option<Health>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Killed,
    Hung,
}

/// What a button does to a master.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Action {
    Kill,
    Hang,
    Empty,
    Revive,
}

#[derive(Debug, Serialize)]
pub(crate) struct TilesView {
    /// Whether there are buttons for faults.
    switches: bool,
    /// Not known before the masters were asked.
    quorum: Option<bool>,
    masters: Vec<Tile>,
}

#[derive(Debug, Serialize)]
struct Tile {
    name: String,
    state: TileState,
    problem: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum TileState {
    Up,
    Down,
    Hung,
    /// It grants nothing before every lock has ended that was granted without it.
    Joining,
    NotMember,
    Refused,
}

impl Tiles {
    pub(crate) fn new(masters: &Masters) -> Self {
        let nodes = match masters {
            Masters::InMemory(nodes) => nodes.clone(),
            Masters::Redis(_) | Masters::Postgres(_) | Masters::ZooKeeper(_) => Vec::new(),
        };
        let faults = Mutex::new(vec![None; nodes.len()]);
        Self { nodes, faults, health: Mutex::new(None) }
    }

    /// Asks the masters how they are. Takes two seconds if one of them hangs.
    pub(crate) async fn ask(&self, locks: &LockManager) {
        let health = locks.health().await;
        *self.health.lock().unwrap_or_else(PoisonError::into_inner) = Some(health);
    }

    /// Breaks or mends the master with this number, which counts from 1. Returns its name, or `None`
    /// if there is no such in-memory master.
    pub(crate) fn act(&self, number: usize, action: Action) -> Option<String> {
        let index = number.checked_sub(1)?;
        let node = self.nodes.get(index)?;
        let mut faults = self.faults();
        match action {
            Action::Kill => {
                node.set_down(true);
                faults[index] = Some(Fault::Killed);
            }
            Action::Hang => {
                node.set_down(false);
                node.set_delay(HANGS);
                faults[index] = Some(Fault::Hung);
            }
            Action::Empty => node.forget(),
            Action::Revive => {
                node.set_delay(Duration::ZERO);
                node.set_down(false);
                faults[index] = None;
            }
        }
        Some(format!("master {number}"))
    }

    pub(crate) fn view(&self) -> TilesView {
        let health = self.health.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let faults = self.faults();
        let (quorum, nodes) = health.map_or((None, Vec::new()), |health| (Some(health.quorum), health.nodes));
        let tile = |(index, node): (usize, NodeHealth)| {
            // A fault is known before the masters have been asked again.
            let state = match faults.get(index).copied().flatten() {
                Some(Fault::Killed) => TileState::Down,
                Some(Fault::Hung) => TileState::Hung,
                None => TileState::of(&node),
            };
            Tile { name: node.name, state, problem: node.problem.map(|problem| problem.to_string()) }
        };
        let masters = nodes.into_iter().enumerate().map(tile).collect();
        TilesView { switches: !self.nodes.is_empty(), quorum, masters }
    }

    fn faults(&self) -> MutexGuard<'_, Vec<Option<Fault>>> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TileState {
    fn of(node: &NodeHealth) -> Self {
        match &node.problem {
            None => Self::Up,
            Some(NodeError::Unreachable { .. } | NodeError::ConnectionLost { .. }) => Self::Down,
            Some(NodeError::TimedOut | NodeError::HeldUp { .. }) => Self::Hung,
            Some(NodeError::Quarantined { .. } | NodeError::Unadmitted) => Self::Joining,
            Some(NodeError::NotMember(_)) => Self::NotMember,
            Some(_) => Self::Refused,
        }
    }
}
