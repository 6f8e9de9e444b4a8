//! Watches what a manager waits for, and wakes it: a part of the waiting room.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _, select_all};
use futures_util::stream::{StreamExt as _, poll_fn};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use zookeeper_client::{Error, EventType};

use super::session::{Session, if_present};
use super::waiting_places::Watched;
use crate::node::limits::count;
use crate::node::{Slots, Wakeup, Wakeups};

/// How many of those at the head of a queue watch the lock itself. Each of the others watches the one before it, so that a release
/// wakes few. If the first is stopped, the others come after it.
pub(super) const AT_HEAD: usize = 3;
/// How long to wait before watching again after the connection was lost.
const AFTER_ERROR: Duration = Duration::from_millis(200);
/// How many wake-ups are kept that were not heard yet.
const UNHEARD: usize = 256;
/// How often what is not watched, because that many are, is looked at.
const UNWATCHED: Duration = Duration::from_secs(1);

/// The wake-ups of a session: it is one manager's, so there is one waiter.
pub(super) fn listen(session: &Arc<Session>, gone: CancellationToken) -> Wakeups {
    let (sender, mut receiver) = mpsc::channel(UNHEARD);
    session.known().listener = Some(sender);
    Box::pin(poll_fn(move |cx| receiver.poll_recv(cx)).take_until(gone.cancelled_owned()))
}

impl Session {
    /// Watches what a manager waits for, and wakes it, until it leaves the queue, or the session is over. Callers come again after a
    /// while also if they are not woken.
    pub(super) async fn watch(&self, watched: &Watched) {
        let watching = async {
            while self.watch_queue(watched).await.is_err() && !self.client.state().is_terminated() {
                sleep(AFTER_ERROR).await;
            }
        };
        _ = watched.left.run_until_cancelled(watching).await;
    }

    /// Watches until the own znode is gone.
    async fn watch_queue(&self, watched: &Watched) -> Result<(), Error> {
        // The lock that was woken for already, and how many were said to be before this manager.
        let mut woken = None;
        loop {
            // Deleted, if it was empty.
            let mut names = if_present(self.client.list_children(&watched.queue).await)?.unwrap_or_default();
            names.sort_unstable();
            let Ok(ahead) = names.binary_search(&watched.name) else {
                // It let its turn pass. A caller that is woken asks again, and enters again.
                let locks = watched.locks.lock().clone();
                locks.into_keys().for_each(|lock_key| self.wake(lock_key, names.len()));
                return Ok(());
            };
            let mut events: Vec<BoxFuture<'_, Option<String>>> = vec![Box::pin(async {
                watched.changed.notified().await;
                None
            })];
            if let Some(before) = ahead.checked_sub(1) {
                let (is_there, changed) = self.watch_znode(&format!("{}/{}", watched.queue, names[before])).await?;
                if !is_there {
                    continue;
                }
                events.push(Box::pin(changed.map(|_| None)));
            }
            if ahead < AT_HEAD {
                events.extend(self.watch_locks(watched, ahead, woken.as_ref()).await?);
            }
            let (deleted, _, _) = select_all(events).await;
            // At once: to look at the queue again takes two round trips. If another number is before this manager then, it is told so.
            if let Some(lock_key) = &deleted {
                self.known().places.seen_held(lock_key);
                self.wake(lock_key.clone(), ahead);
            }
            woken = deleted.map(|lock_key| (lock_key, ahead));
        }
    }

    /// Watches the locks that the manager waits for, and wakes it for those that are free. Each resolves to its lock when that is deleted.
    async fn watch_locks(
        &self,
        watched: &Watched,
        ahead: usize,
        woken: Option<&(String, usize)>,
    ) -> Result<Vec<BoxFuture<'_, Option<String>>>, Error> {
        let (locks, mut events) = (watched.locks.lock().clone(), Vec::<BoxFuture<'_, _>>::new());
        for (lock_key, path) in locks {
            let (is_held, changed) = self.watch_znode(&path).await?;
            if is_held {
                self.known().places.seen_held(&lock_key);
            } else if woken != Some(&(lock_key.clone(), ahead)) {
                self.wake(lock_key.clone(), ahead);
            }
            events.push(Box::pin(changed.map(|event| (event == Some(EventType::NodeDeleted)).then_some(lock_key))));
        }
        Ok(events)
    }

    /// Whether a znode is there, and what resolves to how that changed; or, if too much is watched already, to `None` after a while.
    async fn watch_znode(
        &self,
        path: &str,
    ) -> Result<(bool, impl Future<Output = Option<EventType>> + Send + use<'_>), Error> {
        let size = u32::try_from(path.len() + size_of::<u32>()).unwrap_or(u32::MAX);
        let room = self.room_to_watch.try_acquire_many(size).ok();
        let (stat, watcher) = match room {
            Some(_) => {
                let (stat, watcher) = self.client.check_and_watch_stat(path).await?;
                (stat, Some(watcher))
            }
            None => (self.client.check_stat(path).await?, None),
        };
        let changed = async move {
            // Kept for as long as the watcher.
            let _room = room;
            match watcher {
                Some(watcher) => Some(watcher.changed().await.event_type),
                None => {
                    sleep(UNWATCHED).await;
                    None
                }
            }
        };
        Ok((stat.is_some(), changed))
    }

    /// Says that a lock is free, and how many are before this manager.
    fn wake(&self, lock_key: String, ahead: usize) {
        let known = self.known();
        if let Some(listener) = &known.listener {
            // If that many were not heard, this one is not missed either: it only saves time.
            _ = listener.try_send(Wakeup { lock_key, before: count(ahead), free: Slots::default() });
        }
    }
}
