//! What a release does about nodes that did not acknowledge it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Instant, sleep, sleep_until};

use super::SentRelease;
use crate::cluster::Cluster;
use crate::error::NodeError;
use crate::node::{Operation, QueuePosition};

/// The pause before a node that replied with an error is asked again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

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
