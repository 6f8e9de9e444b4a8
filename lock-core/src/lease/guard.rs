use std::fmt;
use std::ops::{Deref, RangeInclusive};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Lease;
use crate::engine::{Engine, Releasing, Tenure, Unacknowledged};
use crate::error::{LockError, LossReason};
use crate::held::HeldLeases;
use crate::node::Place;
use crate::options::LockOptions;
use crate::resource::Resource;
use crate::waiting::Seat;

/// A held lock. Releases when it is dropped, in the background; [`release`](Self::release) waits for the answer.
///
/// Inside the scope of the same lock ([`LockRequest::run`](crate::LockRequest::run), a guarded handler) a guard shares the
/// outer lease, and only the outermost releases.
#[must_use = "the lock is released as soon as its guard is dropped"]
pub struct LockGuard {
    lease: Lease,
    /// Whom to release with; `None` in a guard that shares the lease of an outer one, and after the release.
    holder: Option<Holder>,
}

struct Holder {
    engine: Arc<Engine>,
    held: Arc<HeldLeases>,
    /// Tokens that are reserved for those to whom the lock is handed over.
    spare: RangeInclusive<u64>,
    /// When the nodes granted the lock.
    granted: Instant,
}

/// The most holders of one grant, one after the other: the first, and those to whom the lock is handed over. Then the lock is
/// released, and who waits in another process has its turn.
pub(crate) const LONGEST_RUN: u32 = 16;
/// How long after its grant a lock is handed over at most.
const RUN_TIME: Duration = Duration::from_millis(20);

impl LockGuard {
    /// Begins the life of a lease: from here on it is renewed, and released in the end.
    pub(crate) fn begin(
        (engine, held): (&Arc<Engine>, &Arc<HeldLeases>),
        (manager, resource, options): (u64, Resource, LockOptions),
        tenure: Tenure,
        mut seat: Option<Seat>,
    ) -> Self {
        let Tenure { claim, token, spare, sent, granted } = tenure;
        if let Some(seat) = &mut seat {
            seat.holds(claim.traces.nodes, sent + options.ttl);
        }
        let lease = Lease::new(manager, resource, options, (&claim.take(), sent, token), seat);
        held.add(lease.clone(), lease.due());
        let (engine, held) = (Arc::clone(engine), Arc::clone(held));
        Self { lease, holder: Some(Holder { engine, held, spare, granted }) }
    }

    /// A guard inside the scope of `lease`.
    pub(crate) fn sharing(lease: Lease) -> Self {
        Self { lease, holder: None }
    }

    /// The lease, to be handed around.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Releases the lock and tells whether it was still ours: `false` if it had been lost, or no majority of nodes had it any
    /// more. In a guard that shares an outer lease: whether that is valid, and nothing is released.
    ///
    /// # Errors
    ///
    /// [`LockError::NoQuorum`] if too few nodes answered within the node timeout to tell, with those that did not. The release goes
    /// on in the background, and the key ends with its time to live in any case.
    ///
    /// # Cancel safety
    ///
    /// The requests are sent when the future is polled for the first time; dropping it only gives up the answer. One that is kept and
    /// not polled keeps a shutdown waiting.
    pub async fn release(mut self) -> Result<bool, LockError> {
        let was_valid = self.lease.is_valid();
        let Some(releasing) = self.release_now() else { return Ok(was_valid) };
        match releasing.verdict().await {
            Ok(was_ours) => Ok(was_ours && was_valid),
            Err(Unacknowledged { waited, votes }) => {
                Err(LockError::NoQuorum { resource: self.lease.resource().to_owned(), waited, votes })
            }
        }
    }

    /// Ends the lease, and hands the lock over or casts the release. `None` if the nodes have not to be told: the next in line has
    /// the lock, or there is nothing to release, or it was done before.
    fn release_now(&mut self) -> Option<Releasing> {
        let Holder { engine, held, mut spare, granted } = self.holder.take()?;
        held.remove(&self.lease);
        let Some(seat) = self.lease.take_seat() else {
            // One that does not stand in line; or that was lost and gave its seat up, and the next may have a place on the
            // nodes by now.
            return Some(cut_off(&engine, &self.lease, LossReason::Released));
        };
        let token = if can_hand_over(&self.lease, granted) { spare.next() } else { None };
        let (claim, sent) = self.lease.wind_up(&engine, LossReason::Released, Place::Leave);
        let Some(token) = token else {
            // Cast before the seat is passed on: who is next asks behind this release.
            return Some(claim.release());
        };
        let (_seat, tenure) = seat.hand_over(Tenure { claim, token, spare, sent, granted })?;
        Some(tenure.claim.release())
    }
}

/// Whether the lock may be handed on as it is: the grant is young, and the first renewal is not due.
fn can_hand_over(lease: &Lease, granted: Instant) -> bool {
    let now = Instant::now();
    now < granted + RUN_TIME && now < lease.renewal_due() && lease.is_valid()
}

/// Ends a lease and casts its release, behind everything that was sent for it.
pub(crate) fn cut_off(engine: &Arc<Engine>, lease: &Lease, reason: LossReason) -> Releasing {
    lease.wind_up(engine, reason, Place::None).0.release()
}

impl Deref for LockGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        drop(self.release_now());
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LockGuard").field(&self.lease).finish()
    }
}
