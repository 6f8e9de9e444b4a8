use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use super::NodeError;
use crate::task::Task;

/// A connection, or a session, over which a node reaches its server.
pub(super) trait Link: Clone {
    /// What is said to whom it was lost for.
    const LOST: &str;

    /// Cancelled when it is known to be lost.
    fn gone(&self) -> &CancellationToken;

    /// Moves what travels over it.
    fn worker(&self) -> &Task;

    /// Gives it up. What was not written by now never is. The servers of a session end that when they are told, or have not heard of it
    /// for its timeout.
    fn close(&self) {
        self.gone().cancel();
        self.worker().end();
    }
}

/// The link that a node has at present: at most one.
pub(super) struct PresentLink<L> {
    link: Mutex<Option<L>>,
    /// Held while a link is opened, so that there are never two.
    opening: tokio::sync::Mutex<()>,
}

impl<L> Default for PresentLink<L> {
    fn default() -> Self {
        Self { link: Mutex::new(None), opening: tokio::sync::Mutex::default() }
    }
}

impl<L: Link> PresentLink<L> {
    /// The present link if it is not lost, otherwise a new one.
    pub(super) async fn get_or_open(&self, open: impl Future<Output = Result<L, NodeError>>) -> Result<L, NodeError> {
        let _opening = self.opening.lock().await;
        if let Ok(link) = self.inspected() {
            return Ok(link);
        }
        let link = open.await?;
        *self.link() = Some(link.clone());
        Ok(link)
    }

    /// The link of the inspection that led here: behind a new one there may be another server.
    pub(super) fn inspected(&self) -> Result<L, NodeError> {
        let present = self.link().clone().filter(|link| !link.gone().is_cancelled());
        present.ok_or_else(|| NodeError::Unreachable { reason: L::LOST.into() })
    }

    /// Reads the link, lost or not. Other requests wait meanwhile, so nothing may be submitted or answered here.
    pub(super) fn read<T>(&self, read: impl FnOnce(&L) -> Result<T, NodeError>) -> Result<T, NodeError> {
        match &*self.link() {
            Some(link) => read(link),
            None => Err(NodeError::Unreachable { reason: "not connected".into() }),
        }
    }

    /// Gives the link up.
    pub(super) fn close(&self) {
        // Taken out first: to end its worker drops requests, and the mutex must not be held meanwhile.
        let link = self.link().take();
        if let Some(link) = link {
            link.close();
        }
    }

    fn link(&self) -> MutexGuard<'_, Option<L>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
