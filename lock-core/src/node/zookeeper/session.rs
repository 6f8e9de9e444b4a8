use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::sync::{Arc, MutexGuard};

use futures_util::future::try_join_all;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::sleep_until;
use zookeeper_client::{Acls, Client, Error, MultiReadResult, SessionState, Stat};

use super::classify::node_error;
use super::heard::Heard;
use super::leases::Leases;
use super::parts::Fence;
use super::paths::Paths;
use super::waiting_places::Places;
use crate::mutex::Mutex;
use crate::node::limits::parse_number;
use crate::node::{Keyspace, NodeError, Wakeup};
use crate::random::{Epoch, OwnerId};

/// How many znodes are read at once.
const READ_AT_ONCE: usize = 512;
/// The most bytes of the paths that a session watches. When its connection is back, the client sends them to the server again; it loses a
/// session for which that takes more than one request, of 128 KiB. Each path counts with what the client adds to it.
const MAX_WATCHED: usize = 64 * 1024;

/// A session with an ensemble, and what is known over it. When it is over, all of that is.
pub(super) struct Session {
    pub(super) client: Client,
    /// Where the client reads and writes.
    runtime: Handle,
    pub(super) acls: Acls<'static>,
    pub(super) root: String,
    /// The bytes of the paths that may be watched still.
    pub(super) room_to_watch: Semaphore,
    known: Mutex<Known>,
}

/// What is known over a session.
pub(super) struct Known {
    pub(super) heard: Heard,
    /// If the record was written for the memory that was inspected.
    pub(super) admission: Option<Admission>,
    /// The fences as this session saw them last. At most as many as there are.
    ///
    /// What is known here may be old. A transaction that raises a fence names the version, so it fails if the fence was raised meanwhile,
    /// and is sent again with the present value.
    pub(super) fences: HashMap<u16, Fence>,
    pub(super) leases: Leases,
    /// Locked while a request about this owner is under way. What is sent over a session is carried out in that order. But a request
    /// may have to be sent again, with the present value of a fence, and a release that was sent meanwhile would come before it.
    pub(super) order: HashMap<OwnerId, Arc<tokio::sync::Mutex<()>>>,
    pub(super) places: Places,
    pub(super) listener: Option<mpsc::Sender<Wakeup>>,
}

/// An epoch, the version of its znode, and the floor of all fences that is its value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Admission {
    pub(super) epoch: Epoch,
    pub(super) version: i32,
    pub(super) floor: u64,
}

impl Session {
    pub(super) fn new(client: Client, acls: Acls<'static>, root: String, heard: Heard) -> Self {
        let known = Known {
            heard,
            admission: None,
            fences: HashMap::new(),
            leases: Leases::default(),
            order: HashMap::new(),
            places: Places::default(),
            listener: None,
        };
        let (runtime, room_to_watch) = (Handle::current(), Semaphore::new(MAX_WATCHED));
        Self { client, runtime, acls, root, room_to_watch, known: Mutex::new(known) }
    }

    /// Keeps the session open while some work of its own lasts, also if nobody else uses it any more.
    ///
    /// On its own runtime, whichever gives it up: where that does not run, nothing closes the session either, and the servers end it when all
    /// its locks are over.
    pub(super) fn keep_open(&self, work: impl Future<Output = ()> + Send + 'static) {
        // If the runtime is shut down meanwhile, it is never dropped: that could still close the session.
        let client = ManuallyDrop::new(self.client.clone());
        self.runtime.spawn(async move {
            work.await;
            drop(ManuallyDrop::into_inner(client));
        });
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    pub(super) fn paths(&self, keyspace: &Keyspace) -> Paths {
        Paths::new(&self.root, keyspace)
    }

    /// Whether requests can be sent. What is sent while there is no connection would be sent later, in the same session.
    pub(super) fn check_connected(&self) -> Result<(), NodeError> {
        match self.client.state() {
            SessionState::SyncConnected => Ok(()),
            state => Err(NodeError::Unreachable { reason: format!("the session is {state}") }),
        }
    }

    /// The epoch, if it is the one in which the node was admitted.
    pub(super) fn admission(&self, epoch: Epoch) -> Result<Admission, NodeError> {
        self.known().admission.filter(|admission| admission.epoch == epoch).ok_or(NodeError::Unadmitted)
    }

    /// Reads the values of znodes as they are now, or later: `None` for those that are not there.
    pub(super) async fn read_values(&self, paths: &[String]) -> Result<Vec<Option<Vec<u8>>>, NodeError> {
        let reads = paths.chunks(READ_AT_ONCE).map(|some| {
            let mut reader = self.client.new_multi_reader();
            let added: Result<(), Error> = some.iter().try_for_each(|path| reader.add_get_data(path));
            let read = reader.commit();
            async move {
                added?;
                read.await
            }
        });
        let results = try_join_all(reads).await.map_err(|error| node_error(&error))?;
        results.iter().flatten().map(|result| Ok(data(result)?.map(<[u8]>::to_vec))).collect()
    }

    /// Reads a znode as it is now, or later: `None` if there is none.
    ///
    /// A server may lag behind. It answers when it has what the leader had when this was sent.
    pub(super) async fn read(&self, path: &str) -> Result<Option<(Vec<u8>, Stat)>, NodeError> {
        // Both are sent before the first is answered: a server answers in order, so this is one round trip.
        let (synced, read) = (self.client.sync(path), self.client.get_data(path));
        synced.await.map_err(|error| node_error(&error))?;
        if_present(read.await).map_err(|error| node_error(&error))
    }

    /// Reads the epoch's znode; `None` if it is gone.
    pub(super) async fn find_admission(&self, paths: &Paths, epoch: Epoch) -> Result<Option<Admission>, NodeError> {
        let Some((value, stat)) = self.read(&paths.epoch(epoch)).await? else { return Ok(None) };
        Ok(Some(Admission { epoch, version: stat.version, floor: number(&value)? }))
    }

    /// Reads the epoch's znode, which was found to have changed.
    pub(super) async fn read_admission(&self, paths: &Paths, epoch: Epoch) -> Result<Admission, NodeError> {
        let Some(admission) = self.find_admission(paths, epoch).await? else {
            self.forget_admission(epoch);
            return Err(NodeError::Unadmitted);
        };
        let mut known = self.known();
        if known.admission.is_some_and(|known| known.epoch == epoch) {
            known.admission = Some(admission);
        }
        Ok(admission)
    }

    /// The znode of the epoch is gone: another client wrote the record, or everything was deleted.
    pub(super) fn forget_admission(&self, epoch: Epoch) {
        let mut known = self.known();
        if known.admission.take_if(|admission| admission.epoch == epoch).is_some() {
            known.fences.clear();
        }
    }

    /// The fence as it was seen last; read if it was not.
    pub(super) async fn fence(&self, paths: &Paths, fence: u16) -> Result<Fence, NodeError> {
        let seen = self.known().fences.get(&fence).copied();
        match seen {
            Some(seen) => Ok(seen),
            None => self.read_fence(paths, fence).await,
        }
    }

    pub(super) async fn read_fence(&self, paths: &Paths, fence: u16) -> Result<Fence, NodeError> {
        if let Some((value, stat)) = self.read(&paths.fence(fence)).await? {
            return self.saw_fence(fence, &value, stat.version);
        }
        self.known().fences.insert(fence, Fence::default());
        Ok(Fence::default())
    }

    /// A server said what the fence is.
    pub(super) fn saw_fence(&self, fence: u16, value: &[u8], version: i32) -> Result<Fence, NodeError> {
        let seen = Fence { value: number(value)?, version: Some(version) };
        self.known().fences.insert(fence, seen);
        Ok(seen)
    }
}

/// The last client that is dropped closes the session, and the servers delete its locks. Nobody extends those any more, but until they are over
/// their holders are right to rely on them: the session may only have been left behind, on a runtime that did not run for a while.
impl Drop for Session {
    fn drop(&mut self) {
        let last_end = self.known().leases.last_end();
        if let Some(last_end) = last_end {
            // In the future: a timer can only be made on a runtime, and this may be dropped elsewhere.
            self.keep_open(async move { sleep_until(last_end).await });
        }
    }
}

/// What a server said of a znode; `None` if there is none.
pub(super) fn if_present<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(present) => Ok(Some(present)),
        Err(Error::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a number that a znode has as its value.
pub(super) fn number(value: &[u8]) -> Result<u64, NodeError> {
    let parsed = std::str::from_utf8(value).ok().and_then(parse_number);
    parsed.ok_or_else(|| NodeError::Protocol { reply: format!("{:?} as a number", String::from_utf8_lossy(value)) })
}

/// The value of a znode; `None` if there is none.
pub(super) fn data(result: &MultiReadResult) -> Result<Option<&[u8]>, NodeError> {
    match result {
        MultiReadResult::Data { data, .. } => Ok(Some(data)),
        other => missing(other).map(|()| None),
    }
}

/// The children of a znode; none if there is no such.
pub(super) fn children(result: &MultiReadResult) -> Result<&[String], NodeError> {
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
