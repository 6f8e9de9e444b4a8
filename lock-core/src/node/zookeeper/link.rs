//! The life of one session, and what it asks outside the order of requests.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use zookeeper_client::{CreateMode, Error, SessionState, Stat};

use super::classify::{inspection_error, node_error};
use super::connect::{Address, CONNECT_TIMEOUT, connect};
use super::heard::Heard;
use super::parts::Part;
use super::paths::{DIRECTORIES, Paths, is_of_a_memory, memory_id};
use super::record::{Stored, decode, encode};
use super::session::{Session, if_present, number};
use super::transaction::Failed;
use super::worker::Worker;
use crate::node::link;
use crate::node::submission::Submissions;
use crate::node::{
    Evict, Eviction, FenceReading, FoundRecord, Inspection, Keyspace, LockState, Look, NodeError, NodeFuture,
    NodeRecord, RecordWrite,
};
use crate::random::{Epoch, Random};
use crate::task::Task;

/// How long a look, or an eviction, may take. They follow no other requests.
pub(super) const LOOK_TIMEOUT: Duration = Duration::from_secs(2);

/// The session outlives its connections: the client opens another one when one is lost.
pub(super) type Link = Arc<link::Link<Session>>;

/// Opens a session.
pub(super) async fn open(address: &Address, max_ttl: Duration, tick: Duration) -> Result<Link, NodeError> {
    let session = Arc::new(connect(address, max_ttl, tick).await?);
    let (gone, (submissions, receiver)) = (CancellationToken::new(), Submissions::channel());
    let worker = Worker::new(Arc::clone(&session), gone.clone()).run(receiver, Heard::interval(tick));
    let worker = Task::spawn_on(&Handle::current(), worker);
    Ok(link::Link::new(session, submissions, worker, gone))
}

impl link::Session for Session {
    const LOST: &'static str = "the session is over";
    const INSPECTION_TIMEOUT: Duration = CONNECT_TIMEOUT;
    /// A transaction does, with what it does. And a release has to be noted in whatever epoch it is sent.
    const CHECKS_EPOCHS: bool = true;

    /// Inspects the node, and creates what is missing.
    async fn inspect(&self, keyspace: &Keyspace, before: Option<&str>) -> Result<Inspection, NodeError> {
        let paths = self.paths(keyspace);
        let refused = |error: Error| inspection_error(&error, &self.root);
        let mut set = self.look_at_set(&paths).await.map_err(refused)?;
        if !set.is_whole() {
            self.create_set(&paths, &set).await.map_err(refused)?;
            set = self.look_at_set(&paths).await.map_err(refused)?;
        }
        let (Some(clock), Some(run_id), true) = (&set.clock, set.memory(), set.is_whole()) else {
            return Err(refused(Error::NoNode));
        };
        let (clock_micros, run_id, record) = (micros(clock.mtime), run_id.to_owned(), set.record);
        let record = record.map_or(Ok(FoundRecord::None), |value| decode(&value).map(|stored| stored.found))?;
        let epoch = record.get().filter(|record| record.run_id == run_id).and_then(|record| record.epoch);
        self.admit(&paths, epoch, before != Some(&run_id)).await?;
        // Nothing here says whether the members write to their disks before they acknowledge (forceSync).
        Ok(Inspection { run_id, log_position: None, durable: false, clock_micros, record })
    }

    /// Writes the record, the znode of its epoch, and the floor, in one transaction, if everything is still as it was read.
    async fn write_record(&self, keyspace: &Keyspace, write: &RecordWrite) -> Result<Option<NodeRecord>, NodeError> {
        let paths = self.paths(keyspace);
        let micros = match self.client.set_data(&paths.in_set("clock"), b"", None).await {
            Ok(stat) => micros(stat.mtime),
            Err(Error::NoNode) => return Ok(None),
            Err(error) => return Err(node_error(&error)),
        };
        let (path, none) = (paths.in_set("record"), Stored { found: FoundRecord::None, floor: 0 });
        let present = self.read(&path).await?;
        let version = present.as_ref().map(|(_, stat)| stat.version);
        let Stored { found, floor } = present.map_or(Ok(none), |(value, _)| decode(&value))?;
        let Some(record) = write.apply(found.get(), micros) else { return Ok(None) };

        let floor = floor.max(write.floor.unwrap_or_default());
        let (memory, value, floor) = (paths.memory(&record.run_id), encode(&record, write, floor), floor.to_string());
        // That of another memory is gone since this one was created.
        let former = found.get().filter(|present| present.run_id == record.run_id).and_then(|present| present.epoch);
        let [former, new] = [former, record.epoch].map(|epoch| epoch.map(|epoch| paths.epoch(epoch)));
        // In the same transaction: what was decided for one memory must not be written to the next one.
        let mut parts = vec![Part::Check(&memory, None)];
        parts.push(match version {
            Some(_) => Part::Set(&path, value.as_bytes(), version),
            None => Part::Create(&path, value.as_bytes(), CreateMode::Persistent),
        });
        // A write changes the version of the epoch. So a grant that was decided by the floor before it fails, and reads the new
        // one.
        if former == new {
            parts.extend(new.as_deref().map(|path| Part::Set(path, floor.as_bytes(), None)));
        } else {
            parts.extend(former.as_deref().map(|path| Part::Delete(path, None)));
            parts.extend(new.as_deref().map(|path| Part::Create(path, floor.as_bytes(), CreateMode::Persistent)));
        }
        match self.commit(&parts).await {
            Ok(_) => {}
            Err(Failed::Part(0 | 1, Error::NoNode | Error::NodeExists | Error::BadVersion)) => return Ok(None),
            Err(failed) => return Err(failed.into()),
        }
        self.admit(&paths, record.epoch, false).await?;
        Ok(Some(record))
    }

    /// What is raised while the fences are read may be missing.
    async fn read_fences(&self, keyspace: &Keyspace, run_id: &str) -> Result<Option<FenceReading>, NodeError> {
        let paths = self.paths(keyspace);
        let Some((value, _)) = self.read(&paths.in_set("record")).await? else { return Ok(None) };
        let Stored { found, floor } = decode(&value)?;
        let Some(record) = found.get().filter(|record| record.run_id == run_id) else { return Ok(None) };
        let fences = paths.in_set("fences");
        let names = self.client.list_children(&fences).await.map_err(|error| node_error(&error))?;
        let fences: Vec<String> = names.iter().map(|name| format!("{fences}/{name}")).collect();
        let values = self.read_values(&fences).await?;
        let highest =
            values.iter().flatten().try_fold(floor, |highest, value| number(value).map(|fence| fence.max(highest)))?;
        Ok(Some(FenceReading { member: record.member, highest }))
    }

    async fn look(&self, look: &Look) -> Result<Vec<LockState>, NodeError> {
        timeout(LOOK_TIMEOUT, self.read_states(look)).await.unwrap_or(Err(NodeError::TimedOut))
    }

    async fn evict(&self, evict: &Evict) -> Result<Eviction, NodeError> {
        timeout(LOOK_TIMEOUT, self.evict_holders(evict)).await.unwrap_or(Err(NodeError::TimedOut))
    }

    /// The client says when the session is over. Until then its locks live, so no error ends it.
    fn is_ended_by(&self, _: &NodeError) -> bool {
        false
    }

    fn disconnected(&self) -> NodeFuture<()> {
        let (mut state, is_connected) = (self.client.state_watcher(), self.check_connected().is_ok());
        Box::pin(async move { while is_connected && state.changed().await == SessionState::SyncConnected {} })
    }
}

/// What there is of a set.
struct FoundSet {
    /// With the leader's time.
    clock: Option<Stat>,
    /// The names of the znodes directly below that of the set.
    names: Vec<String>,
    record: Option<Vec<u8>>,
}

impl FoundSet {
    /// The id of the memory.
    fn memory(&self) -> Option<&str> {
        self.names.iter().find_map(|name| memory_id(name))
    }

    /// The directories that are missing.
    fn missing(&self) -> impl Iterator<Item = &'static str> {
        DIRECTORIES.into_iter().filter(|name| !self.names.iter().any(|found| found == name))
    }

    fn is_whole(&self) -> bool {
        self.clock.is_some() && self.memory().is_some() && self.missing().next().is_none()
    }
}

impl Session {
    /// The first of the three requests is a write. So the answers to the others have everything that was acknowledged before.
    async fn look_at_set(&self, paths: &Paths) -> Result<FoundSet, Error> {
        // A write, because the leader stamps it with its clock. There is no way to ask for that.
        let clock = self.client.set_data(&paths.in_set("clock"), b"", None);
        let names = self.client.list_children(paths.set());
        let record = self.client.get_data(&paths.in_set("record"));
        let clock = if_present(clock.await)?;
        let names = if_present(names.await)?.unwrap_or_default();
        let record = if_present(record.await)?.map(|(value, _)| value);
        Ok(FoundSet { clock, names, record })
    }

    /// Creates what is missing, and another memory: where something is missing, locks may be missing. Nobody is admitted to the former
    /// memory any more.
    ///
    /// Of several clients that do so, one succeeds: each writes the clock, if it is as it was when the client found something missing.
    async fn create_set(&self, paths: &Paths, found: &FoundSet) -> Result<(), Error> {
        self.client.mkdir(paths.set(), &CreateMode::Persistent.with_acls(self.acls)).await?;
        let (clock, memory) = (paths.in_set("clock"), paths.memory(&Random::from_system().uuid()));
        let former: Vec<String> =
            found.names.iter().filter(|name| is_of_a_memory(name)).map(|name| paths.in_set(name)).collect();
        let created: Vec<String> = found.missing().map(|name| paths.in_set(name)).chain([memory]).collect();
        let mut parts = vec![match &found.clock {
            Some(then) => Part::Set(&clock, b"", Some(then.version)),
            None => Part::Create(&clock, b"", CreateMode::Persistent),
        }];
        parts.extend(former.iter().map(|path| Part::Delete(path, None)));
        parts.extend(created.iter().map(|path| Part::Create(path, b"", CreateMode::Persistent)));
        match self.commit(&parts).await {
            // Otherwise something changed since it was read.
            Ok(_) | Err(Failed::Part(_, Error::NodeExists | Error::NoNode | Error::BadVersion)) => Ok(()),
            Err(Failed::Epoch(error) | Failed::Part(_, error) | Failed::Whole(error)) => Err(error),
        }
    }

    /// Remembers the epoch of the record. What was known of the fences of another memory is forgotten.
    async fn admit(&self, paths: &Paths, epoch: Option<Epoch>, is_other_memory: bool) -> Result<(), NodeError> {
        let admission = match epoch {
            // `None` if another client is just writing the record: what is asked for in this epoch is not admitted.
            Some(epoch) => self.find_admission(paths, epoch).await?,
            None => None,
        };
        let mut known = self.known();
        if is_other_memory {
            known.fences.clear();
        }
        known.admission = admission;
        Ok(())
    }
}

/// A time of the leader, in microseconds.
fn micros(millis: i64) -> u64 {
    u64::try_from(millis).unwrap_or_default().saturating_mul(1000)
}
