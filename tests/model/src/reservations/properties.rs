//! What waiters are promised.

use stateright::Property;

use super::model::ReservationsModel;
use super::node::{ReservationsNode, STRANGER};
use super::state::{ReservationsPhase, ReservationsProcess, ReservationsState, to_u8};
use crate::nodes::Nodes;
use crate::properties::MUTUAL_EXCLUSION;

/// Bounded overtaking.
pub const BOUNDED_OVERTAKING: &str = "nobody in line is passed more often than the bound by those that came later";
/// Agreement.
pub const ONE_ORDER: &str = "the queues of all nodes have one order";
/// A free lock is taken.
pub const TAKEN_IN_TIME: &str = "a free lock with someone in line is taken in time";

/// A reservation ends when a waiter takes the lock.
pub const FREE_KEYS_RESERVED: &str = "a node reserves no key that a process holds";

pub(super) fn all() -> Vec<Property<ReservationsModel>> {
    vec![
        Property::<ReservationsModel>::always(BOUNDED_OVERTAKING, |model, state| {
            state.processes.iter().all(|process| process.passed <= model.setting.max_passed)
        }),
        Property::<ReservationsModel>::always(ONE_ORDER, |_, state| has_one_order(state)),
        Property::<ReservationsModel>::always(TAKEN_IN_TIME, |model, state| state.idle <= model.setting.max_idle),
        Property::<ReservationsModel>::always(FREE_KEYS_RESERVED, |_, state| {
            let is_held = |node: &ReservationsNode| node.key.is_some_and(|key| key.owner != STRANGER);
            state.nodes.iter().all(|node| !is_held(node) || node.queue.reservation().is_none())
        }),
        Property::<ReservationsModel>::always(MUTUAL_EXCLUSION, |_, state| {
            state.processes.iter().filter(|process| matches!(process.phase, ReservationsPhase::Holding { .. })).count()
                <= 1
        }),
    ]
}

/// Whether any two waiters, and any two nodes that both have entered, agree on which of them comes first.
fn has_one_order(state: &ReservationsState) -> bool {
    let places = |one: usize, other: usize| {
        let mut orders = state.nodes.iter().enumerate().filter_map(move |(at, node)| {
            let is_placed = |id: usize| state.processes[id].placed.contains(at);
            let (one, other) = (node.queue.place(to_u8(one))?, node.queue.place(to_u8(other))?);
            (is_placed(one) && is_placed(other)).then_some(one < other)
        });
        orders.next().is_none_or(|first| orders.all(|order| order == first))
    };
    let processes = state.processes.len();
    (0..processes).all(|one| (one + 1..processes).all(|other| places(one, other)))
}

/// A process has acquired the lock: it has passed all that are in line and came before it.
pub(super) fn acquired(state: &mut ReservationsState, index: usize, max: u8) {
    let winner = state.processes[index].began;
    for (other, process) in state.processes.iter_mut().enumerate() {
        let came_before = winner == 0 || (process.began, other) < (winner, index);
        process.is_late = other != index && process.is_busy();
        if other != index && process.is_in_line() && came_before {
            process.passed = (process.passed + 1).min(max + 1);
        }
    }
    let process = &mut state.processes[index];
    (process.placed, process.passed) = (Nodes::default(), 0);
    state.idle = 0;
}

/// A tick passes: counts it if the lock is free, and someone is in line.
pub(super) fn count_idle(state: &mut ReservationsState, max: u8) {
    let is_held = state.processes.iter().any(|process| matches!(process.phase, ReservationsPhase::Holding { .. }));
    let free = state.nodes.iter().filter(|node| node.key.is_none()).count();
    let is_wanted = state.processes.iter().any(ReservationsProcess::is_in_line);
    let is_idle = !is_held && free > state.nodes.len() / 2 && is_wanted;
    state.idle = if is_idle { (state.idle + 1).min(max + 1) } else { 0 };
}
