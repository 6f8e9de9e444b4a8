//! What permits promise.

use stateright::Property;

use super::model::PermitsModel;
use super::setting::PERMITS;
use super::state::{PermitsPhase, PermitsState};
use crate::properties::ORDERED_TOKENS;
use crate::state::NODES;

/// The bound on the holders.
pub const AT_MOST_PERMITS: &str = "no more clients hold than there are permits";
/// A resource refuses only those whose slot has passed to another.
pub const VALID_CLAIMS_ACCEPTED: &str = "the claim of a valid holder is accepted";
/// No slot is forgotten.
pub const NO_IDLE_SLOT: &str = "no slot is free on a majority while clients wait that a majority lets take none";

pub(super) fn all() -> Vec<Property<PermitsModel>> {
    vec![
        Property::<PermitsModel>::always(AT_MOST_PERMITS, |_, state| {
            state.clients.iter().filter(|client| matches!(client.phase, PermitsPhase::Holding { .. })).count()
                <= PERMITS
        }),
        Property::<PermitsModel>::always(ORDERED_TOKENS, |_, state| !state.unordered_token),
        Property::<PermitsModel>::always(VALID_CLAIMS_ACCEPTED, |_, state| !state.valid_claim_refused),
        Property::<PermitsModel>::always(NO_IDLE_SLOT, |model, state| !has_idle_slot(model, state)),
    ]
}

/// Whether a slot is free that somebody waits for, and nobody is about to take. While a client makes an attempt, or a release is on its way,
/// the nodes will tell those that wait.
fn has_idle_slot(model: &PermitsModel, state: &PermitsState) -> bool {
    let is_quiet = |phase: &PermitsPhase| !matches!(phase, PermitsPhase::Trying(_) | PermitsPhase::Releasing { .. });
    let waiting = || (0..state.clients.len()).filter(|client| state.clients[*client].phase == PermitsPhase::Waiting);
    let is_free = |slot: usize| (0..NODES).filter(|node| state.is_free(*node, slot)).count() > NODES / 2;
    state.clients.iter().all(|client| is_quiet(&client.phase))
        && waiting().next().is_some()
        && (0..PERMITS).any(is_free)
        && waiting().all(|client| model.slots_to_try(state, client).is_empty())
}
