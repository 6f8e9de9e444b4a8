//! The connections of a node, which its shards share: one for each server, however many shards are on it, unless it is `replicated`.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use super::link::Session;
use crate::mutex::Mutex;
use crate::node::NodeError;

/// At most one connection for each server that a node has led to.
#[derive(Default)]
pub(super) struct Connections(Mutex<BTreeMap<String, Arc<Present>>>);

/// The connection to a server, if there is one. Held locked while one is opened, so that there are never two.
type Present = tokio::sync::Mutex<Weak<Session>>;

impl Connections {
    /// The present connection to the server of this address if it is not lost, otherwise a new one.
    pub(super) async fn get_or_open(
        &self,
        address: &str,
        open: impl Future<Output = Result<Arc<Session>, NodeError>>,
    ) -> Result<Arc<Session>, NodeError> {
        let present = self.present(address);
        let mut present = present.lock().await;
        if let Some(session) = present.upgrade().filter(|session| !session.gone().is_cancelled()) {
            return Ok(session);
        }
        let session = open.await?;
        *present = Arc::downgrade(&session);
        Ok(session)
    }

    fn present(&self, address: &str) -> Arc<Present> {
        let mut all = self.0.lock();
        // Servers that nothing leads to any more are forgotten.
        all.retain(|other, present| other == address || Arc::strong_count(present) > 1 || is_used(present));
        Arc::clone(all.entry(address.to_owned()).or_default())
    }
}

/// Whether a link has the connection. One that is being opened is about to be used.
fn is_used(present: &Present) -> bool {
    present.try_lock().map_or(true, |session| session.strong_count() > 0)
}
