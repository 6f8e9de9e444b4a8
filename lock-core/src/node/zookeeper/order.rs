//! A part of the ledger: the order of requests about one owner. Must be right: a release that overtook its acquire would leave the lock
//! behind.

use std::collections::HashMap;

use tokio_util::sync::CancellationToken;

use crate::random::OwnerId;

/// The last request about each owner that is under way. The next one about the same owner begins when that one is done.
///
/// What is sent over a session is carried out in that order. But a request may have to be sent again, with the present value of a fence,
/// and a release that was sent meanwhile would come before it.
#[derive(Default)]
pub(super) struct Order {
    last: HashMap<OwnerId, Place>,
    count: u64,
}

/// The place of one request.
#[derive(Clone)]
pub(super) struct Place {
    number: u64,
    done: CancellationToken,
}

impl Order {
    /// A request about an owner comes. Returns its place, and what it has to wait for.
    pub(super) fn enter(&mut self, owner: OwnerId) -> (Place, Option<CancellationToken>) {
        self.count += 1;
        let place = Place { number: self.count, done: CancellationToken::new() };
        let before = self.last.insert(owner, place.clone());
        (place, before.map(|before| before.done))
    }

    /// A request is done.
    pub(super) fn leave(&mut self, owner: OwnerId, place: &Place) {
        place.done.cancel();
        if self.last.get(&owner).is_some_and(|last| last.number == place.number) {
            self.last.remove(&owner);
        }
    }
}
