//! Carries requests out: each asks the ledger, and then or with it the waiting room.

use std::time::Duration;

use super::ledger::{Obstacle, Wanted};
use super::session::Session;
use super::waiting::{Caller, QueueView, Turn};
use crate::node::{NodeError, Operation, QueuePosition, Reply, Request};

impl Session {
    /// Carries a request out, when those before it about the same owner are done. When its future was polled once, it has its place in
    /// the order of the session, or behind them.
    pub(super) async fn execute(&self, request: &Request) -> Result<Reply, NodeError> {
        let Some(owner) = request.operation.owner() else { return self.carry_out(request).await };
        let (place, before) = self.known().order.enter(owner);
        if let Some(before) = before {
            before.cancelled().await;
        }
        let reply = self.carry_out(request).await;
        self.known().order.leave(owner, &place);
        reply
    }

    /// A reader is one more that writes: one that holds a lock excludes the others, and a downgrade is a renewal.
    async fn carry_out(&self, request: &Request) -> Result<Reply, NodeError> {
        let leaves = match request.operation {
            Operation::LeaveQueue => true,
            Operation::Release { position, .. } => position == QueuePosition::Leave,
            _ => false,
        };
        if leaves {
            // Also if it cannot be sent: the place is deleted when there is a connection again.
            self.known().places.leave(request.keys.queue());
        }
        if let Operation::Release { owner, .. } = request.operation {
            // Also if it cannot be sent, or the epoch is another one: whoever releases a lock wants it no more.
            self.mark_released(&request.keys, owner);
        }
        self.check_connected()?;
        self.admission(request.epoch)?;
        let Request { keys, epoch, waiter, .. } = request;
        match request.operation {
            Operation::Acquire { owner, ttl, hint, tokens, since, .. } => {
                let caller = Caller { keys, waiter: *waiter, since };
                self.acquire(&Wanted { keys, epoch: *epoch, owner, ttl, hint, tokens }, &caller).await
            }
            Operation::Confirm { owner, token } => self.confirm(keys, *epoch, owner, token).await,
            Operation::Extend { owner, ttl } | Operation::Downgrade { owner, ttl } => {
                self.extend(keys, *epoch, owner, ttl).await
            }
            // A node that is alone in its set is not behind a majority: what it lost, nobody has.
            Operation::Replace { owner, ttl, .. } => self.extend(keys, *epoch, owner, ttl).await,
            Operation::Release { owner, position } => {
                let released = self.release(keys, *epoch, owner);
                let left = self.delete_left();
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
    async fn acquire(&self, wanted: &Wanted<'_>, caller: &Caller<'_>) -> Result<Reply, NodeError> {
        let (keys, paths) = (caller.keys, self.paths(caller.keys.keyspace()));
        let queue = paths.queue(keys);
        let held = |remaining, position| Ok(Reply::Held { remaining, stranger: false, position });
        // A caller that waits already has no chance without a look at the queue.
        let is_known = self.known().places.has(keys.queue());
        let mut view = if is_known { self.view_queue(&paths, caller).await? } else { QueueView::empty() };
        // The queue may have begun meanwhile: twice in a row is rare.
        for _ in 0..3 {
            match view.turn {
                Turn::Now => {}
                Turn::In(pause) => return held(Some(pause), view.position),
                Turn::Held => return held(None, view.position),
            }
            let obstacle = match self.take(&paths, wanted, &view.parts(&queue)).await? {
                Ok(token) => {
                    self.took(&queue, keys, &view);
                    return Ok(Reply::Granted { token });
                }
                Err(obstacle) => obstacle,
            };
            match obstacle {
                Obstacle::Owner => return held(Some(Duration::ZERO), self.wait(&paths, caller).await?),
                Obstacle::Holder => {
                    self.known().places.seen_held(keys.lock_key());
                    return held(None, self.wait(&paths, caller).await?);
                }
                Obstacle::Waiting => {
                    self.known().places.forget(keys.queue());
                    view = self.view_queue(&paths, caller).await?;
                }
            }
        }
        held(Some(Duration::ZERO), view.position)
    }

    /// A lock was granted so late that nobody waits for it any more: the request was sent when the connection was there again.
    pub(super) fn give_back(&self, request: &Request) {
        if let Some(owner) = request.operation.owner() {
            self.mark_released(&request.keys, owner);
        }
    }
}
