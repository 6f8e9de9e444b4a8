use zookeeper_client::{Error, MultiReadResult};

use super::classify::node_error;
use super::paths::{Paths, evicted_from};
use super::session::{Session, children, data, number};
use super::transaction::Failed;
use crate::node::limits::count;
use crate::node::{EVICTION_GAP, Holder, LockState, Look, NodeError};
use crate::random::{Epoch, OwnerId};

/// How many znodes are read of a lock.
const READ: usize = 3;

impl Session {
    /// Reads what the node has of some locks.
    ///
    /// A transaction that changes nothing goes before: a server that lags would show what was.
    pub(super) async fn read_states(&self, look: &Look) -> Result<Vec<LockState>, NodeError> {
        let Some(first) = look.keys.first() else { return Ok(Vec::new()) };
        self.check_connected()?;
        let paths = self.paths(first.keyspace());
        if let Some(epoch) = look.epoch {
            self.check_epoch(&paths, epoch).await?;
        }
        let floor = self.known().admission.map_or(0, |admission| admission.floor);
        let synced = self.client.sync(paths.set());
        let mut reader = self.client.new_multi_reader();
        let mut add = || {
            reader.add_get_children(&paths.in_set("evicted"))?;
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
        let read = results.split_first().map(|(evicted, states)| (evicted, states.as_chunks::<READ>().0));
        let Some((evicted, states)) = read.filter(|(_, states)| states.len() == look.keys.len()) else {
            return Err(NodeError::Protocol { reply: format!("{} results of a read", results.len()) });
        };
        let of_these = |entry: &&String| look.keys.iter().any(|keys| evicted_from(entry, keys).is_some());
        let entries: Vec<String> = children(evicted)?.iter().filter(of_these).cloned().collect();
        let mut barred = self.barred_until(&paths, &entries).await?;
        if !barred.is_empty() {
            let now = self.leader_millis(&paths).await?;
            barred.retain(|(_, until)| *until > now);
        }
        let nobody = Holder::Owner(OwnerId::NOBODY);
        let state = |(keys, [lock, fence, queue]): (_, &[MultiReadResult; READ])| {
            let holder = data(lock)?.map(Holder::from_value);
            Ok(LockState {
                // As long as its session, of which nothing is known but that it lives now. A gap, as long as it is: when it began is not
                // known either.
                remaining: holder.as_ref().filter(|holder| **holder == nobody).map(|_| EVICTION_GAP),
                holder,
                fence: data(fence)?.map_or(Ok(0), number)?.max(floor),
                waiters: count(children(queue)?.len()),
                readers: Vec::new(),
                evicted: barred.iter().filter_map(|(entry, _)| evicted_from(entry, keys)).collect(),
            })
        };
        look.keys.iter().zip(states).map(state).collect()
    }

    /// The epoch, as the leader has it: what is read behind this is not older.
    async fn check_epoch(&self, paths: &Paths, epoch: Epoch) -> Result<(), NodeError> {
        let admission = self.admission(epoch)?;
        match self.commit_in(paths, epoch, Some(admission.version), &[]).await {
            Ok(_) => Ok(()),
            Err(Failed::Epoch(Error::BadVersion)) => self.read_admission(paths, epoch).await.map(drop),
            Err(failed) => Err(failed.into()),
        }
    }
}
