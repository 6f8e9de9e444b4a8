//! Warns once of what is the matter with a server or its user.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::node::NodeError;

/// The warnings of a node, whatever connection it has.
#[derive(Default)]
pub(super) struct Warnings {
    node: String,
    /// Whether it was logged that the server calls nobody for this user.
    calls_nobody: AtomicBool,
    /// Whether it was logged that the server does not say when it loses its data.
    tells_no_loss: AtomicBool,
    /// Whether it was logged that the server may delete locks.
    may_evict: AtomicBool,
    /// Whether it was logged that the server wants all keys declared.
    insists: AtomicBool,
}

impl Warnings {
    pub(super) fn new(node: String) -> Self {
        Self { node, ..Self::default() }
    }

    /// Notes why the server calls nobody for this user, if it does not.
    pub(super) fn note_mute(&self, error: Option<&NodeError>) {
        if let (Some(error), false) = (error, self.calls_nobody.swap(error.is_some(), Ordering::Relaxed)) {
            log_event!(warn: "lock.node_calls_nobody", node = self.node, %error,
                "a node wakes nobody when this process releases a lock, because the user may not PUBLISH; those who wait poll it");
        }
    }

    /// Notes by which policy the server may delete locks, if that is tolerated.
    pub(super) fn note_eviction(&self, policy: Option<&str>) {
        if let (Some(policy), false) = (policy, self.may_evict.swap(policy.is_some(), Ordering::Relaxed)) {
            log_event!(warn: "lock.node_may_evict", node = self.node, policy,
                "a node deletes locks when its memory is full, and then there may be two holders at once; tokens still grow");
        }
    }

    /// Notes whether the server insists that scripts declare their keys.
    pub(super) fn note_insists(&self, insists: bool) {
        if insists && !self.insists.swap(insists, Ordering::Relaxed) {
            log_event!(info: "lock.node_wants_declared_keys", node = self.node,
                "a node refuses scripts the use of keys that they did not declare; all are declared from now on, which takes it longer");
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
