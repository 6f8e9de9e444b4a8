//! What permits promise.

use stateright::Property;

use super::model::PermitsModel;
use super::setting::PERMITS;
use super::state::{PermitsPhase, PermitsState};
use crate::properties::ORDERED_TOKENS;

/// The bound on the holders.
pub const AT_MOST_PERMITS: &str = "no more clients hold than there are permits";
/// A resource refuses only those whose slot has passed to another.
pub const VALID_CLAIMS_ACCEPTED: &str = "the claim of a valid holder is accepted";
/// No slot is forgotten.
pub const NO_IDLE_SLOT: &str = "no slot is free and offered to nobody while a client waits for one";
/// An offer is not wasted on a client that has one.
pub const ONE_OFFER_EACH: &str = "no client is offered two slots";

pub(super) fn all() -> Vec<Property<PermitsModel>> {
    vec![
        Property::<PermitsModel>::always(AT_MOST_PERMITS, |_, state| {
            state.clients.iter().filter(|client| matches!(client.phase, PermitsPhase::Holding { .. })).count()
                <= PERMITS
        }),
        Property::<PermitsModel>::always(ORDERED_TOKENS, |_, state| !state.unordered_token),
        Property::<PermitsModel>::always(VALID_CLAIMS_ACCEPTED, |_, state| !state.valid_claim_refused),
        Property::<PermitsModel>::always(NO_IDLE_SLOT, |_, state| !has_idle_slot(state)),
        Property::<PermitsModel>::always(ONE_OFFER_EACH, |_, state| {
            let offers = |client| state.offered.iter().filter(|offered| **offered == Some(client)).count();
            (0..state.clients.len()).all(|client| offers(client) <= 1)
        }),
    ]
}

/// Whether a slot is free that somebody waits for. While a client makes an attempt, it may be about to take it.
fn has_idle_slot(state: &PermitsState) -> bool {
    let is_trying = state.clients.iter().any(|client| matches!(client.phase, PermitsPhase::Trying(_)));
    let waits = |(index, client): (usize, _)| state.has_nothing_to_do(index, client);
    let is_idle = |slot: usize| state.is_free(slot) && state.offered[slot].is_none();
    !is_trying && state.clients.iter().enumerate().any(waits) && (0..PERMITS).any(is_idle)
}
