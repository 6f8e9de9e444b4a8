use stateright::{Model, Property};

use super::setting::PairingSetting;
use super::state::PairingState;
use super::step::{MAX_ROUNDS, PairingAction};

/// No slot waits for a timer.
pub const NO_SLOT_WAITS_FOR_A_TIMER: &str =
    "no slot is free on a majority while somebody waits, and all wait for a timer, if nobody has died";
/// A slot that is free is taken.
pub const TAKEN_AFTER_TIMERS: &str = "a slot that is free on a majority is taken before all timers have fired twice";
/// A slot is a lock.
pub const ONE_HOLDER_OF_A_SLOT: &str = "no two hold one slot";

/// The model of the pairing of slots and waiters.
#[derive(Clone, Debug)]
pub struct PairingModel {
    setting: PairingSetting,
}

impl PairingModel {
    /// The model with this setting.
    #[must_use]
    pub const fn new(setting: PairingSetting) -> Self {
        Self { setting }
    }
}

impl Model for PairingModel {
    type State = PairingState;
    type Action = PairingAction;

    fn init_states(&self) -> Vec<PairingState> {
        let [missing, stuck] = self.setting.start.exceptions();
        vec![PairingState::begin(missing, stuck, self.setting.keeps).representative()]
    }

    fn actions(&self, state: &PairingState, actions: &mut Vec<PairingAction>) {
        state.steps(self.setting.dies, actions);
    }

    fn next_state(&self, before: &PairingState, action: PairingAction) -> Option<PairingState> {
        Some(before.after(action).representative())
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always(NO_SLOT_WAITS_FOR_A_TIMER, |_, state| state.somebody_died() || !state.is_idle()),
            Property::<Self>::always(TAKEN_AFTER_TIMERS, |_, state| state.rounds < MAX_ROUNDS || !state.is_idle()),
            Property::<Self>::always(ONE_HOLDER_OF_A_SLOT, |_, state| !state.shared),
        ]
    }
}
