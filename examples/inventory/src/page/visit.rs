use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use axum::http::StatusCode;
use lock_axum::Lease;

use super::board::Board;
use crate::shop::ShopError;

/// One request for units, from its arrival at an instance to its answer.
#[derive(Debug)]
pub(crate) struct Visit {
    board: Arc<Board>,
    instance: usize,
    resource: String,
    arrived: Instant,
    waiting: AtomicBool,
}

impl Visit {
    pub(crate) fn new(board: Arc<Board>, instance: usize, resource: String) -> Self {
        board.waits(&resource);
        Self { board, instance, resource, arrived: Instant::now(), waiting: AtomicBool::new(true) }
    }

    /// The lock was acquired.
    pub(crate) fn granted(&self, lease: Lease) -> Hold {
        self.stop_waiting();
        let (board, token) = (Arc::clone(&self.board), lease.token().get());
        let id = board.granted(self.instance, lease, self.arrived);
        Hold { board, id, instance: self.instance, fence: Some((self.resource.clone(), token)) }
    }

    /// The purchase begins without a lock.
    pub(crate) fn unlocked(&self) -> Hold {
        self.stop_waiting();
        let board = Arc::clone(&self.board);
        let id = board.entered_unlocked(self.instance);
        Hold { board, id, instance: self.instance, fence: None }
    }

    /// Counts what became of the purchase.
    pub(crate) fn sold<T>(&self, outcome: &Result<T, ShopError>) {
        match outcome {
            Ok(_) => self.board.count(|counts| &mut counts.sold),
            Err(ShopError::SoldOut) => self.board.count(|counts| &mut counts.sold_out),
            Err(_) => {}
        }
    }

    /// Counts the answer to a request that did not get the lock.
    pub(crate) fn answered(&self, status: StatusCode) {
        if !self.stop_waiting() {
            return;
        }
        match status {
            StatusCode::SERVICE_UNAVAILABLE => self.board.unavailable(),
            StatusCode::CONFLICT => self.board.count(|counts| &mut counts.busy),
            _ => {}
        }
    }

    fn stop_waiting(&self) -> bool {
        let waited = self.waiting.swap(false, Ordering::Relaxed);
        if waited {
            self.board.waits_no_longer(&self.resource);
        }
        waited
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.stop_waiting();
    }
}

/// A purchase with the lock, or without one. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Hold {
    board: Arc<Board>,
    id: u64,
    instance: usize,
    /// Resource and token, with a lock.
    fence: Option<(String, u64)>,
}

impl Hold {
    /// Notes whether the fence refused the purchase.
    pub(crate) fn fenced<T>(&self, outcome: &Result<T, ShopError>) {
        if let (Err(ShopError::StaleToken(_)), Some((resource, token))) = (outcome, &self.fence) {
            self.board.refused(self.instance, resource, *token);
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.board.ended(self.id);
    }
}
