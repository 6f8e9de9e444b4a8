//! What waiters are promised.

use stateright::Property;

use super::model::ReservationsModel;
use super::node::{ReservationsNode, STRANGER};
use super::setting::ReservationsSetting;
use super::state::{ReservationsAttempt, ReservationsPhase, ReservationsProcess, ReservationsState, to_u8};
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
        Property::<ReservationsModel>::always(MUTUAL_EXCLUSION, |model, state| {
            let holds = |index: &usize| matches!(state.processes[*index].phase, ReservationsPhase::Holding { .. });
            let holders = || (0..state.processes.len()).filter(holds);
            holders().count() <= 1 || holders().all(|holder| model.setting.reads(holder))
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

/// A process has acquired the lock: it has passed all that are in line and came before it. Readers pass no other readers, because
/// they hold the lock together, and nobody who was not in line when their attempt began: it may have joined on some nodes before.
pub(super) fn acquired(
    state: &mut ReservationsState,
    index: usize,
    attempt: &ReservationsAttempt,
    setting: &ReservationsSetting,
) {
    let max = setting.max_passed;
    let winner = state.processes[index].began;
    for (other, process) in state.processes.iter_mut().enumerate() {
        let came_before = winner == 0 || (process.began, other) < (winner, index);
        process.is_late = other != index && process.is_busy();
        let may_join = setting.reads(index) && (setting.reads(other) || attempt.behind & 1 << other == 0);
        if other != index && process.is_in_line() && came_before && !may_join {
            process.passed = (process.passed + 1).min(max + 1);
        }
    }
    let process = &mut state.processes[index];
    (process.placed, process.passed) = (Nodes::default(), 0);
    state.idle = 0;
}

/// A tick passes: counts it if the lock is free, and someone is in line; or readers hold it, and one that is in line could join them.
pub(super) fn count_idle(state: &mut ReservationsState, setting: &ReservationsSetting) {
    let is_held = state.processes.iter().any(|process| matches!(process.phase, ReservationsPhase::Holding { .. }));
    let are_majority = |wanted: fn(&ReservationsNode) -> bool| {
        state.nodes.iter().filter(|node| wanted(node)).count() > state.nodes.len() / 2
    };
    let is_wanted = state.processes.iter().any(ReservationsProcess::is_in_line);
    let is_free = !is_held && are_majority(|node| node.key.is_none()) && is_wanted;
    let is_joinable = are_majority(ReservationsNode::is_shared) && could_join(state, setting);
    state.idle = if is_free || is_joinable { (state.idle + 1).min(setting.max_idle + 1) } else { 0 };
}

/// Whether a reader is in line, and no writer waits before it.
fn could_join(state: &ReservationsState, setting: &ReservationsSetting) -> bool {
    let processes = || state.processes.iter().enumerate();
    let came_before = |one: (u8, usize), other: (u8, usize)| one < other;
    let is_barred = |reader: (u8, usize)| {
        let mut writers = processes().filter(|(index, process)| !setting.reads(*index) && process.is_waiting());
        writers.any(|(index, process)| came_before((process.began, index), reader))
    };
    let mut readers = processes().filter(|(index, process)| setting.reads(*index) && process.is_in_line());
    readers.any(|(index, process)| !is_barred((process.began, index)))
}
