use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zookeeper_client::{CreateMode, Error};

use super::acquire::Wanted;
use super::classify::node_error;
use super::fences::Fence;
use super::paths::{self, Paths};
use super::session::{Session, number};
use crate::node::limits::MAX_WAITERS;
use crate::node::{LockKeys, MAX_RESERVATIONS, NodeError, Position, RESERVATION_TTL};
use crate::random::WaiterId;

/// For how long it is known that a key was seen free.
const SEEN_FREE: Duration = Duration::from_secs(10);

/// What this session waits for, and since when it sees locks free that others wait for.
///
/// A key is offered to those that wait, one after another: who is `k`-th in line may take one that has been free for
/// longer than `k` [`RESERVATION_TTL`]s. So a process that is dead or stopped costs those behind it one of these for each lock, and not
/// its whole session. Only the order rests on it.
#[derive(Default)]
pub(super) struct Waits {
    /// By queue. At most one for each that callers wait in.
    waiting: HashMap<String, Waiting>,
    /// By lock key. Those that were seen long ago are dropped.
    free: HashMap<String, Instant>,
    /// The queues whose watch has to begin.
    unwatched: Vec<Arc<Watched>>,
}

struct Waiting {
    own: String,
    watched: Arc<Watched>,
}

/// What is watched for a queue.
pub(super) struct Watched {
    /// The znode of the queue.
    pub(super) queue: String,
    /// The name of the own znode in it.
    pub(super) name: String,
    /// The znodes of the locks that are waited for, by lock key: several if they are slots.
    pub(super) locks: Mutex<BTreeMap<String, String>>,
    /// Another lock is waited for.
    pub(super) changed: Notify,
    /// Cancelled when nothing is waited for any more.
    pub(super) left: CancellationToken,
}

/// Those that wait for a lock, as a caller that wants it sees them.
pub(super) struct Line {
    /// Whether nobody waits, as far as is known: the transaction finds out.
    pub(super) is_empty: bool,
    /// The caller's own znode in the queue.
    pub(super) own: Option<String>,
    pub(super) position: Option<Position>,
    pub(super) turn: Turn,
    /// The znodes of those before the caller.
    ahead: Vec<String>,
}

/// When it is the caller's turn.
pub(super) enum Turn {
    Now,
    /// If none of those before it takes the lock.
    In(Duration),
    /// Somebody has the lock.
    Held,
}

impl Line {
    pub(super) fn empty() -> Self {
        Self { is_empty: true, own: None, position: None, turn: Turn::Now, ahead: Vec::new() }
    }
}

impl Waits {
    pub(super) fn has(&self, queue: &str) -> bool {
        self.waiting.contains_key(queue)
    }

    /// The watches that have to begin.
    pub(super) fn take_unwatched(&mut self) -> Vec<Arc<Watched>> {
        std::mem::take(&mut self.unwatched)
    }

    pub(super) fn seen_held(&mut self, lock_key: &str) {
        self.free.remove(lock_key);
    }

    /// For how long the key has been seen free.
    pub(super) fn seen_free(&mut self, lock_key: &str) -> Duration {
        let now = Instant::now();
        self.free.retain(|_, since| *since + SEEN_FREE > now);
        self.free.entry(lock_key.to_owned()).or_insert(now).elapsed()
    }

    /// The own znode is not there any more.
    pub(super) fn forget(&mut self, queue: &str) -> Option<String> {
        let waiting = self.waiting.remove(queue)?;
        waiting.watched.left.cancel();
        Some(waiting.own)
    }
}

impl Session {
    /// Looks at the queue, and enters it if the caller waits.
    pub(super) async fn line(&self, paths: &Paths, wanted: &Wanted<'_>) -> Result<Line, NodeError> {
        let (keys, queue, lock) = (wanted.keys, paths.queue(wanted.keys), paths.lock(wanted.keys));
        let own = match wanted.since {
            Some(since) => self.enter(keys, since, wanted.waiter).await?,
            None => None,
        };
        let (names, holder) = (self.client.list_children(&queue), self.client.check_stat(&lock));
        // Somebody else had the lock, and raised the fence.
        let fence = paths.fence(keys.fence());
        let fence = self.client.get_data(&fence);
        let mut names = match names.await {
            Ok(names) => names,
            Err(Error::NoNode) => return Ok(Line::empty()),
            Err(error) => return Err(node_error(&error)),
        };
        let is_held = holder.await.map_err(|error| node_error(&error))?.is_some();
        if let Ok((value, stat)) = fence.await {
            let seen = Fence { value: number(&value)?, version: Some(stat.version) };
            self.known().fences.set(keys.fence(), seen);
        }
        names.sort_unstable();
        let own = own.and_then(|own| {
            let at = names.iter().position(|name| own.ends_with(name.as_str()))?;
            Some((own, at))
        });
        let ahead = own.as_ref().map_or(names.len(), |(_, at)| *at);
        let position = own
            .as_ref()
            .filter(|(_, at)| *at < MAX_WAITERS)
            .map(|(_, at)| Position { ahead: count(*at), behind: count(names.len() - at - 1) });
        if own.is_some() && position.is_none() {
            self.leave(keys);
        }
        let turn = if is_held {
            self.known().waits.seen_held(keys.lock_key());
            Turn::Held
        } else {
            let pause = RESERVATION_TTL * count(ahead).min(MAX_RESERVATIONS);
            match pause.saturating_sub(self.known().waits.seen_free(keys.lock_key())) {
                Duration::ZERO => Turn::Now,
                left => Turn::In(left),
            }
        };
        names.truncate(ahead);
        let ahead = names.into_iter().map(|name| format!("{queue}/{name}")).collect();
        Ok(Line { is_empty: false, own: own.map(|(own, _)| own), position, turn, ahead })
    }

    /// Enters the queue of a lock, unless the manager is in it since that time. Returns its znode.
    ///
    /// `None` if the queue was just deleted, because it was empty. The next attempt creates it again.
    pub(super) async fn enter(
        &self,
        keys: &LockKeys,
        since: NonZeroU64,
        waiter: WaiterId,
    ) -> Result<Option<String>, NodeError> {
        let paths = self.paths(keys.keyspace());
        let (queue, name) = (paths.queue(keys), paths::waiter(since, waiter));
        let own = format!("{queue}/{name}");
        let lock = paths.lock(keys);
        {
            let mut known = self.known();
            if let Some(waiting) = known.waits.waiting.get(keys.queue()).filter(|waiting| waiting.own == own) {
                let mut locks = waiting.watched.locks.lock().unwrap_or_else(PoisonError::into_inner);
                if locks.insert(keys.lock_key().to_owned(), lock).is_none() {
                    waiting.watched.changed.notify_one();
                }
                return Ok(Some(own));
            }
            if let Some(former) = known.waits.forget(keys.queue()) {
                drop(self.client.delete(&former, None));
            }
        }
        let acls = self.acls();
        let (created, entered) = (
            self.client.create(&queue, b"", &CreateMode::Persistent.with_acls(acls)),
            self.client.create(&own, b"", &CreateMode::Ephemeral.with_acls(acls)),
        );
        match created.await {
            Ok(_) | Err(Error::NodeExists) => {}
            Err(error) => return Err(node_error(&error)),
        }
        match entered.await {
            Ok(_) | Err(Error::NodeExists) => {}
            Err(Error::NoNode) => return Ok(None),
            Err(error) => return Err(node_error(&error)),
        }
        let watched = Arc::new(Watched {
            queue,
            name,
            locks: Mutex::new(BTreeMap::from([(keys.lock_key().to_owned(), lock)])),
            changed: Notify::new(),
            left: CancellationToken::new(),
        });
        let mut known = self.known();
        known.waits.unwatched.push(Arc::clone(&watched));
        known.waits.waiting.insert(keys.queue().to_owned(), Waiting { own: own.clone(), watched });
        Ok(Some(own))
    }

    /// Leaves the queue of a lock. What is lost of it, those behind pass over.
    pub(super) fn leave(&self, keys: &LockKeys) {
        let own = self.known().waits.forget(keys.queue());
        if let Some(own) = own {
            drop(self.client.delete(&own, None));
            self.delete_if_empty(&self.paths(keys.keyspace()).queue(keys));
        }
    }

    /// The caller took the lock: it waits no more, and those that let their turn pass lose their place.
    pub(super) fn took(&self, paths: &Paths, wanted: &Wanted<'_>, line: &Line) {
        self.known().waits.seen_held(wanted.keys.lock_key());
        if line.own.is_some() {
            self.known().waits.forget(wanted.keys.queue());
        }
        for path in &line.ahead {
            drop(self.client.delete(path, None));
        }
        if !line.is_empty {
            self.delete_if_empty(&paths.queue(wanted.keys));
        }
    }

    /// Deletes a queue in which nobody is left. Otherwise it stays: one that has children cannot be deleted.
    fn delete_if_empty(&self, queue: &str) {
        drop(self.client.delete(queue, None));
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
