//! A part of the ledger: the gap after an eviction, in which nobody has the lock. Must be right: however late the eviction was carried out,
//! it lasts for [`EVICTION_GAP`].

use std::time::Duration;

use tokio::time::sleep;
use zookeeper_client::{Client, MultiWriteError};

use super::paths::Paths;
use super::session::Session;
use crate::node::{EVICTION_GAP, LockKeys};
use crate::random::Random;

/// How long to wait before the end of a gap is sent again that was lost with its connection.
const AFTER_ERROR: Duration = Duration::from_millis(200);

/// This session has the lock, and gives it back when the gap is over.
///
/// An eviction whose answer is not awaited any more may still be carried out, at any time. So a gap that is dropped before it is over is passed
/// in the background, and the session stays open until then.
pub(super) struct Gap<'a> {
    session: &'a Session,
    /// The znode of an owner that no attempt, and no other eviction, has.
    pub(super) owner: String,
    pub(super) lock: String,
    is_over: bool,
}

impl<'a> Gap<'a> {
    pub(super) fn new(session: &'a Session, paths: &Paths, keys: &LockKeys) -> Self {
        let owner = paths.owner(keys, Random::from_system().owner());
        Self { session, owner, lock: paths.lock(keys), is_over: false }
    }

    /// The eviction was not carried out.
    pub(super) fn never_began(&mut self) {
        self.is_over = true;
    }

    /// The eviction was just answered: waits until the gap is over, and ends it.
    pub(super) async fn pass(&mut self) {
        self.is_over = pass(&self.session.client, &self.owner, &self.lock).await;
    }
}

impl Drop for Gap<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let (client, owner, lock) = (self.session.client.clone(), self.owner.clone(), self.lock.clone());
        self.session.keep_open(async move {
            while !client.state().is_terminated() {
                // Sent behind the eviction. When this is answered, that was carried out, if it ever is.
                if client.sync("/").await.is_ok() && pass(&client, &owner, &lock).await {
                    return;
                }
                sleep(AFTER_ERROR).await;
            }
        });
    }
}

/// Gives the lock back, after a gap that has begun. False if the connection was lost, and the lock may not have been given back.
async fn pass(client: &Client, owner: &str, lock: &str) -> bool {
    sleep(EVICTION_GAP).await;
    let mut writer = client.new_multi_writer();
    if writer.add_delete(owner, Some(0)).and_then(|()| writer.add_delete(lock, None)).is_err() {
        return true;
    }
    let ended = writer.commit().await;
    // If a part of it does not hold, the gap never began, or has ended.
    matches!(ended, Ok(_) | Err(MultiWriteError::OperationFailed { .. }))
}
