use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Ended, Engine, NodeSet, Releasing};
use crate::node::{LockKeys, Place};
use crate::random::OwnerId;

/// What an attempt or a held lock may have left on the nodes.
#[derive(Clone, Debug)]
pub(crate) struct Traces {
    pub(crate) keys: LockKeys,
    pub(crate) owner: OwnerId,
    pub(crate) ttl: Duration,
    /// The nodes that may hold the key.
    pub(crate) nodes: NodeSet,
    /// Others, which may have a place in their queues, but not the key. They are told once.
    pub(crate) queued: NodeSet,
    pub(crate) place: Place,
}

/// Traces that are released when this is dropped.
pub(crate) struct Claim {
    engine: Arc<Engine>,
    pub(crate) traces: Traces,
    pub(super) ended: Ended,
    armed: bool,
}

impl Claim {
    pub(crate) fn new(engine: &Arc<Engine>, traces: Traces, ended: Ended) -> Self {
        Self { engine: Arc::clone(engine), traces, ended, armed: true }
    }

    /// The traces, which are the caller's to release from here on.
    pub(crate) fn take(mut self) -> Traces {
        self.armed = false;
        self.traces.clone()
    }

    /// Releases now.
    pub(crate) fn release(mut self) -> Releasing {
        self.armed = false;
        self.engine.release(self.traces.clone(), self.ended)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.armed && !self.traces.nodes.union(self.traces.queued).is_empty() {
            drop(self.engine.release(self.traces.clone(), self.ended));
        }
    }
}

/// A lock that the nodes hold for us, on its way to its holder.
pub(crate) struct Tenure {
    pub(crate) claim: Claim,
    /// The holder's token.
    pub(crate) token: u64,
    /// The tokens that are reserved for those who get the lock after it, without the nodes.
    pub(crate) spare: RangeInclusive<u64>,
    /// The nodes were asked at this time, and hold the key for a time to live from then on at least.
    pub(crate) sent: Instant,
    /// When the nodes granted the lock.
    pub(crate) granted: Instant,
}
