use std::time::Duration;

use tokio::time::timeout;
use zookeeper_client::{Error, MultiReadResult};

use super::classify::node_error;
use super::paths::{Paths, evicted_from};
use super::session::{Session, number};
use super::transaction::{Failed, Part};
use crate::node::{Holder, LockState, Look, NodeError};

/// How long a look, or an eviction, may take. They follow no other requests.
pub(super) const LOOK_TIMEOUT: Duration = Duration::from_secs(2);
/// How many znodes are read of a lock.
const READ: usize = 3;

impl Session {
    /// Reads what the node has of some locks.
    ///
    /// A transaction that changes nothing goes before: a server that lags would show what was.
    pub(super) async fn look(&self, look: &Look) -> Result<Vec<LockState>, NodeError> {
        let reading = timeout(LOOK_TIMEOUT, self.read_states(look));
        reading.await.unwrap_or(Err(NodeError::TimedOut))
    }

    async fn read_states(&self, look: &Look) -> Result<Vec<LockState>, NodeError> {
        let Some(first) = look.keys.first() else { return Ok(Vec::new()) };
        self.check_connected()?;
        let paths = self.paths(first.keyspace());
        if let Some(epoch) = look.epoch {
            let admission = self.admission(epoch)?;
            match self.commit(&[Part::Check(&paths.epoch(epoch), Some(admission.version))]).await {
                Ok(_) => {}
                Err(Failed::Part(_, Error::BadVersion)) => _ = self.read_admission(&paths, epoch).await?,
                Err(Failed::Part(_, Error::NoNode)) => {
                    self.forget_admission(epoch);
                    return Err(NodeError::Unadmitted);
                }
                Err(failed) => return Err(failed.into()),
            }
        }
        let floor = self.known().admission.map_or(0, |admission| admission.floor);
        let synced = self.client.sync(paths.set());
        let mut reader = self.client.new_multi_reader();
        let mut add = || {
            reader.add_get_children(&paths.all_evicted())?;
            look.keys.iter().try_for_each(|keys| {
                reader.add_get_data(&paths.lock(keys))?;
                reader.add_get_data(&paths.fence(keys.fence()))?;
                reader.add_get_children(&paths.queue(keys))
            })
        };
        add().map_err(|error| node_error(&error))?;
        let read = reader.commit();
        synced.await.map_err(|error| node_error(&error))?;
        let results = read.await.map_err(|error| node_error(&error))?;
        let Some((evicted, results)) = results.split_first() else { return Err(too_few(results.len())) };
        if results.len() != look.keys.len() * READ {
            return Err(too_few(results.len()));
        }
        let of_these = |entry: &&String| look.keys.iter().any(|keys| evicted_from(entry, keys).is_some());
        let entries: Vec<String> = children(evicted)?.iter().filter(of_these).cloned().collect();
        let entries = self.still_barred(&paths, entries).await?;
        let state = |(keys, read): (_, &[MultiReadResult])| {
            let [lock, fence, queue] = read else { return Err(too_few(read.len())) };
            Ok(LockState {
                holder: data(lock)?.map(Holder::from_value),
                // As long as its session, of which nothing is known but that it lives now.
                remaining: None,
                fence: data(fence)?.map_or(Ok(0), number)?.max(floor),
                waiters: u32::try_from(children(queue)?.len()).unwrap_or(u32::MAX),
                readers: Vec::new(),
                evicted: entries.iter().filter_map(|entry| evicted_from(entry, keys)).collect(),
            })
        };
        look.keys.iter().zip(results.chunks(READ)).map(state).collect()
    }

    /// Those of these entries of which the tombstone is not over yet.
    async fn still_barred(&self, paths: &Paths, entries: Vec<String>) -> Result<Vec<String>, NodeError> {
        if entries.is_empty() {
            return Ok(entries);
        }
        let now = self.leader_millis(paths).await?;
        let barred = self.barred_until(paths, &entries).await?.into_iter();
        Ok(barred.filter(|(_, until)| *until > now).map(|(entry, _)| entry).collect())
    }
}

/// The value of a znode; `None` if there is none.
pub(super) fn data(result: &MultiReadResult) -> Result<Option<&[u8]>, NodeError> {
    match result {
        MultiReadResult::Data { data, .. } => Ok(Some(data)),
        other => missing(other).map(|()| None),
    }
}

/// The children of a znode; none if there is no such.
fn children(result: &MultiReadResult) -> Result<&[String], NodeError> {
    match result {
        MultiReadResult::Children { children } => Ok(children),
        other => missing(other).map(|()| &[][..]),
    }
}

fn missing(result: &MultiReadResult) -> Result<(), NodeError> {
    match result {
        MultiReadResult::Error { err: Error::NoNode } => Ok(()),
        MultiReadResult::Error { err } => Err(node_error(err)),
        other => Err(NodeError::Protocol { reply: format!("{other:?}") }),
    }
}

fn too_few(results: usize) -> NodeError {
    NodeError::Protocol { reply: format!("{results} results of a read") }
}
