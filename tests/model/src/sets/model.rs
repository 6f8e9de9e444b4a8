use std::collections::HashSet;

use lock_core::quorum::{kept_of_batch, set_order};
use stateright::{Model, Property};

use super::setting::{SetsMutant, SetsSetting};
use super::state::{Caller, Locks, Phase, SetsState};

/// A caller that has its set holds every lock of it.
pub const COMPLETE_SETS: &str = "a set is complete";
/// Freedom from deadlock.
pub const NO_STUCK_SET: &str = "every caller gets its set once no lock is lost";

/// The model of callers that want several locks at once.
pub struct SetsModel {
    setting: SetsSetting,
    /// The locks of each caller, in the order in which it takes them.
    orders: Vec<Vec<u8>>,
}

/// A step of one of the callers.
#[derive(Clone, Debug, PartialEq)]
pub enum SetsAction {
    /// The request of a batch for this lock is executed.
    Ask(usize, u8),
    /// The batch is complete: the caller keeps some of what it got.
    Decide(usize),
    /// The lock that the caller waits for is granted to it.
    Take(usize),
    /// A lock is lost while the caller waits for another: it releases all, and begins again.
    Lose(usize, u8),
    /// The caller is done.
    Release(usize),
}

impl SetsModel {
    /// The model for a setting.
    #[must_use]
    pub fn new(setting: SetsSetting) -> Self {
        let order = |written: &&str| {
            let names: Vec<&str> = written.split_terminator("").skip(1).collect();
            let names = if setting.mutant == Some(SetsMutant::Unsorted) { names } else { set_order(names) };
            names.iter().map(|name| name.as_bytes()[0] - b'a').collect()
        };
        let orders = setting.written.iter().map(order).collect();
        Self { setting, orders }
    }

    /// The steps without faults.
    fn steps(&self, state: &SetsState) -> Vec<SetsAction> {
        let mut steps = Vec::new();
        for (index, Caller { phase, held }) in state.callers.iter().enumerate() {
            let order = &self.orders[index];
            match phase {
                Phase::Asking { from, asked } => {
                    let open = |lock: &u8| !asked.contains(*lock) && !held.contains(*lock);
                    let open: Vec<u8> = order[*from..].iter().copied().filter(open).collect();
                    if open.is_empty() {
                        steps.push(SetsAction::Decide(index));
                    }
                    steps.extend(open.into_iter().map(|lock| SetsAction::Ask(index, lock)));
                }
                Phase::Waiting { at } if state.is_free(order[*at]) => steps.push(SetsAction::Take(index)),
                Phase::Holding => steps.push(SetsAction::Release(index)),
                Phase::Waiting { .. } | Phase::Done => {}
            }
        }
        steps
    }

    fn step(&self, last: &SetsState, action: &SetsAction) -> SetsState {
        let mut state = last.clone();
        match *action {
            SetsAction::Ask(index, lock) => {
                let caller = &mut state.callers[index];
                if last.is_free(lock) {
                    caller.held.insert(lock);
                }
                if let Phase::Asking { asked, .. } = &mut caller.phase {
                    asked.insert(lock);
                }
            }
            SetsAction::Decide(index) => self.decide(index, &mut state.callers[index]),
            SetsAction::Take(index) => {
                let (order, caller) = (&self.orders[index], &mut state.callers[index]);
                if let Phase::Waiting { at } = caller.phase {
                    caller.held.insert(order[at]);
                    caller.phase = Phase::Asking { from: at + 1, asked: Locks::default() };
                }
            }
            SetsAction::Lose(index, _) => {
                state.losses += 1;
                state.callers[index] = Caller::default();
            }
            SetsAction::Release(index) => {
                state.callers[index] = Caller { phase: Phase::Done, held: Locks::default() };
            }
        }
        state
    }

    /// Keeps what comes before the first lock that was not granted, and waits for that one.
    fn decide(&self, index: usize, caller: &mut Caller) {
        let Phase::Asking { from, .. } = caller.phase else { return };
        let order = &self.orders[index];
        let at = from + kept_of_batch(order[from..].iter().map(|lock| caller.held.contains(*lock)));
        if self.setting.mutant != Some(SetsMutant::KeepsBehind) {
            order[at..].iter().for_each(|lock| caller.held.remove(*lock));
        }
        caller.phase = if at == order.len() { Phase::Holding } else { Phase::Waiting { at } };
    }

    /// Whether some run from here without a further loss leads to the end of all callers.
    fn comes_to_an_end(&self, state: &SetsState) -> bool {
        let (mut seen, mut open) = (HashSet::from([state.clone()]), vec![state.clone()]);
        while let Some(state) = open.pop() {
            if state.all_are_done() {
                return true;
            }
            let next = self.steps(&state).into_iter().map(|action| self.step(&state, &action));
            open.extend(next.filter(|next| seen.insert(next.clone())));
        }
        false
    }
}

impl Model for SetsModel {
    type State = SetsState;
    type Action = SetsAction;

    fn init_states(&self) -> Vec<SetsState> {
        vec![SetsState { callers: vec![Caller::default(); self.orders.len()], losses: 0 }]
    }

    fn actions(&self, state: &SetsState, actions: &mut Vec<SetsAction>) {
        actions.extend(self.steps(state));
        if state.losses < self.setting.losses {
            for (index, caller) in state.callers.iter().enumerate() {
                let held = self.orders[index].iter().filter(|lock| caller.held.contains(**lock));
                if matches!(caller.phase, Phase::Waiting { .. }) {
                    actions.extend(held.map(|lock| SetsAction::Lose(index, *lock)));
                }
            }
        }
    }

    fn next_state(&self, state: &SetsState, action: SetsAction) -> Option<SetsState> {
        Some(self.step(state, &action))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always(COMPLETE_SETS, |model, state| {
                let mut callers = state.callers.iter().zip(&model.orders);
                callers.all(|(Caller { phase, held }, order)| {
                    *phase != Phase::Holding || order.iter().all(|lock| held.contains(*lock))
                })
            }),
            Property::<Self>::always(NO_STUCK_SET, Self::comes_to_an_end),
        ]
    }
}
