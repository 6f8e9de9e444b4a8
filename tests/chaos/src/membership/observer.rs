//! A client that takes no locks and tells which masters vote.

use std::sync::Mutex;

use lock_core::LockManager;

use super::super::masters::builder;
use super::super::store::Store;
use super::super::{Broken, NODE_TIMEOUT, Plan};

/// A manager with the newest list of masters.
pub(super) struct Observer {
    manager: Mutex<LockManager>,
    no_quarantine: bool,
}

impl Observer {
    pub(super) fn new(plan: &Plan, masters: &[String]) -> Self {
        let no_quarantine = plan.broken == Some(Broken::NoQuarantine);
        Self {
            manager: Mutex::new(builder(Store::Redis, masters, no_quarantine).connect_lazy().unwrap()),
            no_quarantine,
        }
    }

    /// Goes on with another list, as one more client that was deployed again.
    pub(super) async fn deploy(&self, masters: &[String]) {
        let new = builder(Store::Redis, masters, self.no_quarantine).connect_lazy().unwrap();
        let old = std::mem::replace(&mut *self.manager.lock().unwrap(), new);
        old.shutdown(NODE_TIMEOUT).await;
    }

    /// Which masters vote, by their places in the list.
    pub(super) async fn votes(&self) -> Vec<bool> {
        let manager = self.manager.lock().unwrap().clone();
        manager.health().await.nodes.iter().map(|node| node.admitted).collect()
    }
}
