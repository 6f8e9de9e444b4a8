//! What a release does about nodes that did not acknowledge it, also when its runtime is shut down.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::{Footprint, Release, SentRelease};
use crate::cluster::Cluster;
use crate::engine::Engine;
use crate::error::NodeError;
use crate::node::{Operation, QueuePosition};

/// The pause before a node that replied with an error is asked again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// The pause before an interrupted release is sent again. Without one, a runtime that is being shut down could interrupt it again and again.
const INTERRUPTED_PAUSE: Duration = Duration::from_millis(100);

impl SentRelease {
    /// Asks every node again until it has replied or the key has expired.
    pub(super) async fn ask_again(&mut self) {
        // After the node timeout nobody waits for it any more, but a reply that comes now still saves a request.
        self.round.extend_until(self.expires);
        // Without the queue position: by now it may belong to a caller that came later.
        let operation = Operation::Release { owner: self.owner, position: QueuePosition::None };
        let (engine, keys) = (Arc::clone(&self.engine), self.keys.clone());
        let mut retries = FuturesUnordered::new();
        loop {
            for (node, error) in self.failed.drain(..) {
                retries.push(when_reachable(&engine.cluster, keys.lock_key(), node, error, self.expires));
            }
            if retries.is_empty() && self.round.is_done() {
                return;
            }
            tokio::select! {
                biased;
                Some(node) = retries.next() => {
                    if let Some(node) = node {
                        self.round.send_again(node, operation);
                    }
                }
                reply = self.round.next(), if !self.round.is_done() => {
                    if let Some(reply) = reply {
                        self.note(reply);
                    }
                }
            }
        }
    }
}

/// Waits until a node that did not acknowledge a release can be asked again; `None` if its key has expired meanwhile.
async fn when_reachable(
    cluster: &Arc<Cluster>,
    key: &str,
    node: usize,
    error: NodeError,
    expires: Instant,
) -> Option<usize> {
    let again = async {
        sleep(RETRY_PAUSE).await;
        cluster.wait_until_reachable(node).await;
    };
    tokio::select! {
        biased;
        () = again => Some(node),
        () = sleep_until(expires) => {
            let (name, key) = (cluster.name(node), cluster.reporter.shown(key));
            log_event!(debug: "lock.release_given_up", node = name, key, %error,
                "could not deliver a release; the key was left to expire");
            None
        }
    }
}

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
        background.unawaited.add_interrupted(now + INTERRUPTED_PAUSE, left, &background.finished);
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
