//! What a user of a server lacks permission for, and is told once.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::node::NodeError;

/// The warnings of a node, whatever connection it has.
pub(super) struct Warnings {
    node: String,
    /// Whether it was logged that the server calls nobody for this user.
    calls_nobody: AtomicBool,
    /// Whether it was logged that the server does not say when it loses its data.
    tells_no_loss: AtomicBool,
}

impl Warnings {
    pub(super) fn new(node: String) -> Self {
        Self { node, calls_nobody: AtomicBool::default(), tells_no_loss: AtomicBool::default() }
    }

    /// Notes why the server calls nobody for this user, if it does not.
    pub(super) fn note_mute(&self, error: Option<&NodeError>) {
        let was_known = self.calls_nobody.swap(error.is_some(), Ordering::Relaxed);
        if let (Some(error), false) = (error, was_known) {
            log_event!(warn: "lock.node_calls_nobody", node = self.node, %error,
                "a node wakes nobody when this process releases a lock, because the user may not PUBLISH; those who wait poll it");
        }
    }

    /// Warns once if the server does not say when it loses its data.
    pub(super) fn note_tells_loss(&self, tells_loss: &Result<(), NodeError>) {
        if let Err(error) = tells_loss
            && !self.tells_no_loss.swap(true, Ordering::Relaxed)
        {
            log_event!(warn: "lock.node_does_not_tell_losses", node = %self.node, %error,
                "the server does not say when it loses its data (CLIENT TRACKING); only inspections notice that");
        }
    }
}
