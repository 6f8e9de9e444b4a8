//! Carries requests out: each asks the ledger, and then or with it the waiting room.

use std::sync::Arc;
use std::time::Duration;

use super::ledger::{Claim, Obstacle, Wanted};
use super::session::Session;
use super::waiting::{Caller, QueueView};
use crate::node::{NodeError, Operation, QueuePosition, Reply, Request};

impl Session {
    /// Carries a request out, when those before it about the same owner are done. When its future was polled once, it has its place in
    /// the order of the session, or behind them.
    pub(super) async fn execute(&self, request: &Request) -> Result<Reply, NodeError> {
        let Some(owner) = request.operation.owner() else { return self.carry_out(request).await };
        let order = Arc::clone(self.known().order.entry(owner).or_default());
        // A retry inside a request sends a second transaction. Behind a later request of the same owner, that would bring back
        // what it released.
        let first = order.lock_owned().await;
        let reply = self.carry_out(request).await;
        let mut known = self.known();
        drop(first);
        if known.order.get(&owner).is_some_and(|order| Arc::strong_count(order) == 1) {
            known.order.remove(&owner);
        }
        reply
    }

    /// A reader is one more that writes: one that holds a lock excludes the others, and a downgrade is a renewal.
    async fn carry_out(&self, request: &Request) -> Result<Reply, NodeError> {
        let Request { keys, epoch, waiter, operation, .. } = request;
        if matches!(operation, Operation::LeaveQueue | Operation::Release { position: QueuePosition::Leave, .. }) {
            // Also if it cannot be sent: the place is deleted when there is a connection again.
            self.known().places.leave(keys.queue());
        }
        if let Operation::Release { owner, .. } = *operation {
            // Also if it cannot be sent, or the epoch is another one: an owner that releases its lock does not want it any more.
            self.mark_released(keys, owner);
        }
        self.check_connected()?;
        self.admission(*epoch)?;
        let claim = |owner| Claim::new(self.paths(keys.keyspace()), keys, *epoch, owner);
        match *operation {
            Operation::Acquire { owner, ttl, hint, tokens, since, kind } => {
                let caller = Caller { keys, waiter: *waiter, since, kind };
                self.acquire(&claim(owner), &Wanted { ttl, hint, tokens }, &caller).await
            }
            Operation::Confirm { owner, token } => self.confirm(&claim(owner), token).await,
            // Nothing is put back. A node that is alone in its set is not behind a majority: what it lost, nobody has.
            Operation::Extend { owner, ttl }
            | Operation::Downgrade { owner, ttl }
            | Operation::Replace { owner, ttl, .. } => self.extend(&claim(owner), ttl).await,
            Operation::Release { owner, position } => {
                let claim = claim(owner);
                let (released, left) = (self.release(&claim), self.delete_left());
                let released = released.await;
                left.await;
                if let QueuePosition::Keep { since, .. } = position {
                    // A caller without a place comes again.
                    _ = self.enter(keys, since, *waiter).await;
                }
                released
            }
            Operation::LeaveQueue => {
                self.delete_left().await;
                Ok(Reply::QueueLeft)
            }
        }
    }

    /// Takes a lock, if it is free, and nobody waits who is before the caller.
    async fn acquire(&self, claim: &Claim, wanted: &Wanted, caller: &Caller<'_>) -> Result<Reply, NodeError> {
        let (keys, paths) = (caller.keys, &claim.paths);
        let queue = paths.queue(keys);
        let held = |remaining, (position, offer)| Ok(Reply::Held { remaining, stranger: false, position, offer });
        // A caller that waits already has no chance without a look at the queue.
        let is_known = self.known().places.has(keys.queue());
        let mut view = if is_known { self.view_queue(paths, caller).await? } else { QueueView::empty() };
        // The queue may have begun meanwhile: twice in a row is rare.
        for _ in 0..3 {
            if let Err(remaining) = view.turn {
                return held(remaining, (view.position, view.offer));
            }
            match self.take(claim, wanted, &view.parts(&queue)).await? {
                Ok(token) => {
                    self.took(&queue, keys, &view);
                    return Ok(Reply::Granted { token });
                }
                Err(Obstacle::Owner) => return held(Some(Duration::ZERO), self.wait(paths, caller).await?),
                Err(Obstacle::Holder) => {
                    self.known().places.seen_held(keys.lock_key());
                    return held(None, self.wait(paths, caller).await?);
                }
                Err(Obstacle::Waiting) => {
                    self.known().places.forget(keys.queue());
                    view = self.view_queue(paths, caller).await?;
                }
            }
        }
        held(Some(Duration::ZERO), (view.position, view.offer))
    }
}
