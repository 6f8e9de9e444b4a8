//! Releases whose runtime was shut down.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::{Footprint, Release, SentRelease};
use crate::engine::Engine;
use crate::node::QueuePosition;

/// The pause before an interrupted release is sent again. Without one, a runtime that is being shut down could interrupt it again and again.
const PAUSE: Duration = Duration::from_millis(100);

/// What is left of a release whose runtime was shut down before every node had acknowledged it. The home of the manager sends it again: the
/// next one, if it was the home that was shut down.
pub(super) struct Interrupted {
    /// Not kept: if nobody else has the engine, there is no next home.
    engine: Weak<Engine>,
    footprint: Footprint,
    expires: Instant,
    tracked: Option<TaskTrackerToken>,
}

impl Interrupted {
    /// Hands what a dropped release has left to do over to the home.
    pub(super) fn leave(release: &mut SentRelease) {
        let &mut SentRelease { ref engine, ref keys, owner, expires, unacknowledged: nodes, .. } = release;
        let (background, now) = (&engine.background, Instant::now());
        if now >= expires || background.finished.is_cancelled() {
            return;
        }
        // The position may belong to a caller that came later.
        let footprint =
            Footprint { keys: keys.clone(), owner, ttl: expires - now, nodes, position: QueuePosition::None };
        let left = Self { engine: Arc::downgrade(engine), footprint, expires, tracked: release.tracked.take() };
        background.unawaited.add_interrupted(now + PAUSE, left, &background.finished);
    }

    pub(super) fn send_again(mut self) {
        self.footprint.ttl = self.expires.saturating_duration_since(Instant::now());
        if let Some(engine) = self.engine.upgrade()
            && !self.footprint.ttl.is_zero()
        {
            drop(Release::send(&engine, &self.footprint, false, self.tracked));
        }
    }
}
