//! What a server said last, if that is why it executes nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Written by the worker of the connection, and kept when another connection is opened: what is wrong may be wrong there as well.
#[derive(Clone, Default)]
pub(super) struct LastWords(Arc<Mutex<Option<String>>>);

impl LastWords {
    /// Notes why the server did not execute a statement, or ended the connection. `None` if it executed one, or is gone without a word.
    pub(super) fn set(&self, words: Option<String>) {
        *self.words() = words;
    }

    pub(super) fn get(&self) -> Option<String> {
        self.words().clone()
    }

    fn words(&self) -> MutexGuard<'_, Option<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
