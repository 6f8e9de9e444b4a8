use futures_util::future::join_all;
use zookeeper_client::{CreateMode, Error, MultiReadResult};

use super::classify::{inspection_error, node_error};
use super::paths::{Paths, memory_id};
use super::record::{Stored, decode, encode};
use super::session::{Admission, Session, number};
use super::transaction::{Failed, Part};
use crate::node::{FenceReading, FoundRecord, Inspection, Keyspace, NodeError, NodeRecord, RecordWrite};
use crate::random::{Epoch, Random};

/// How many znodes are read at once.
pub(super) const READ_AT_ONCE: usize = 512;

impl Session {
    /// Inspects the node, and creates what is missing.
    pub(super) async fn inspect(&self, keyspace: &Keyspace, before: Option<&str>) -> Result<Inspection, NodeError> {
        let paths = self.paths(keyspace);
        let refused = |error: Error| inspection_error(&error, &self.root);
        let inspection = match self.look_at_set(&paths).await {
            Err(Error::NoNode) => {
                self.create_set(&paths).await.map_err(refused)?;
                self.look_at_set(&paths).await
            }
            inspection => inspection,
        };
        let (clock_micros, run_id, record) = inspection.map_err(refused)?;
        let found = record.map_or(Ok(FoundRecord::None), |value| decode(&value).map(|stored| stored.found))?;
        let epoch = found.get().filter(|record| record.run_id == run_id).and_then(|record| record.epoch);
        self.admit(&paths, epoch, before != Some(&run_id)).await?;
        // Nothing here says whether the members write to their disks before they acknowledge (forceSync).
        Ok(Inspection { run_id, log_position: None, durable: false, clock_micros, record: found })
    }

    /// The leader's time, the id of the memory, and the record.
    ///
    /// The first of the three is a write. So the answers to the others have everything that was acknowledged before.
    async fn look_at_set(&self, paths: &Paths) -> Result<(u64, String, Option<Vec<u8>>), Error> {
        let clock = self.client.set_data(&paths.clock(), b"", None);
        let names = self.client.list_children(paths.set());
        let record = self.client.get_data(&paths.record());
        let clock = clock.await?;
        let names = names.await?;
        let record = match record.await {
            Ok((value, _)) => Some(value),
            Err(Error::NoNode) => None,
            Err(error) => return Err(error),
        };
        // Created with the clock.
        let memory = names.iter().find_map(|name| memory_id(name)).ok_or(Error::NoNode)?;
        Ok((micros(clock.mtime), memory.to_owned(), record))
    }

    /// Creates the directories, and the memory with its id. Of several clients that do so, one succeeds.
    async fn create_set(&self, paths: &Paths) -> Result<(), Error> {
        let directory = CreateMode::Persistent.with_acls(self.acls());
        self.client.mkdir(paths.set(), &directory).await?;
        for path in paths.directories() {
            match self.client.create(&path, b"", &directory).await {
                Ok(_) | Err(Error::NodeExists) => {}
                Err(error) => return Err(error),
            }
        }
        let random = Random::from_system();
        let memory = paths.memory(&format!("{:016x}{:016x}", random.number(), random.number()));
        let create = |path| Part::Create(path, b"", CreateMode::Persistent);
        match self.commit(&[create(&paths.clock()), create(&memory)]).await {
            Ok(_) | Err(Failed::Part(_, Error::NodeExists)) => Ok(()),
            Err(Failed::Part(_, error) | Failed::Whole(error)) => Err(error),
        }
    }

    /// Remembers the epoch of the record. What was known of the fences of another memory is forgotten.
    async fn admit(&self, paths: &Paths, epoch: Option<Epoch>, is_other_memory: bool) -> Result<(), NodeError> {
        let admission = match epoch {
            Some(epoch) => match self.read(&paths.epoch(epoch)).await? {
                Some((value, version)) => Some(Admission { epoch, version, floor: number(&value)? }),
                // Another client is just writing the record: what is asked for in this epoch is not admitted.
                None => None,
            },
            None => None,
        };
        let mut known = self.known();
        if is_other_memory {
            known.fences.clear();
        }
        known.admission = admission;
        Ok(())
    }

    /// Writes the record, the znode of its epoch, and the floor, in one transaction, if everything is still as it was read.
    pub(super) async fn write_record(
        &self,
        keyspace: &Keyspace,
        write: &RecordWrite,
    ) -> Result<Option<NodeRecord>, NodeError> {
        let paths = self.paths(keyspace);
        let (clock, path) = (self.client.set_data(&paths.clock(), b"", None), paths.record());
        let (micros, present) = match clock.await {
            Ok(stat) => (micros(stat.mtime), self.read(&path).await?),
            Err(Error::NoNode) => return Ok(None),
            Err(error) => return Err(node_error(&error)),
        };
        let version = present.as_ref().map(|(_, version)| *version);
        let Stored { found, floor } =
            present.map_or(Ok(Stored { found: FoundRecord::None, floor: 0 }), |(value, _)| decode(&value))?;
        let Some(record) = write.apply(found.get(), micros) else { return Ok(None) };

        let (new_floor, former) =
            (floor.max(write.floor.unwrap_or_default()), found.get().and_then(|present| present.epoch));
        let memory = paths.memory(&record.run_id);
        let (value, floor_value) = (encode(&record, write, new_floor), new_floor.to_string());
        let [former_epoch, new_epoch] = [former, record.epoch].map(|epoch| epoch.map(|epoch| paths.epoch(epoch)));
        let mut parts = vec![
            Part::Check(&memory, None),
            match version {
                Some(_) => Part::Set(&path, value.as_bytes(), version),
                None => Part::Create(&path, value.as_bytes(), CreateMode::Persistent),
            },
        ];
        match (&former_epoch, &new_epoch) {
            (Some(former), Some(new)) if former == new => {
                if new_floor > floor {
                    parts.push(Part::Set(new, floor_value.as_bytes(), None));
                }
            }
            (former, new) => {
                parts.extend(former.as_deref().map(|path| Part::Delete(path, None)));
                parts.extend(
                    new.as_deref().map(|path| Part::Create(path, floor_value.as_bytes(), CreateMode::Persistent)),
                );
            }
        }
        match self.commit(&parts).await {
            Ok(_) => {}
            Err(Failed::Part(0 | 1, Error::NoNode | Error::NodeExists | Error::BadVersion)) => return Ok(None),
            Err(failed) => return Err(failed.into()),
        }
        self.admit(&paths, record.epoch, false).await?;
        Ok(Some(record))
    }

    /// The highest fence. What is raised while they are read, may be missing.
    pub(super) async fn read_fences(
        &self,
        keyspace: &Keyspace,
        run_id: &str,
    ) -> Result<Option<FenceReading>, NodeError> {
        let paths = self.paths(keyspace);
        let Some((value, _)) = self.read(&paths.record()).await? else { return Ok(None) };
        let Stored { found, floor } = decode(&value)?;
        let Some(record) = found.get().filter(|record| record.run_id == run_id) else { return Ok(None) };
        let names = self.client.list_children(&paths.fences()).await.map_err(|error| node_error(&error))?;
        let fences: Vec<String> = names.iter().map(|name| format!("{}/{name}", paths.fences())).collect();
        let reads = fences.chunks(READ_AT_ONCE).map(|some| {
            let mut reader = self.client.new_multi_reader();
            let added: Result<(), Error> = some.iter().try_for_each(|path| reader.add_get_data(path));
            let read = reader.commit();
            async move {
                added?;
                read.await
            }
        });
        let mut highest = floor;
        for read in join_all(reads).await {
            for result in read.map_err(|error| node_error(&error))? {
                if let MultiReadResult::Data { data, .. } = result {
                    highest = highest.max(number(&data)?);
                }
            }
        }
        Ok(Some(FenceReading { member: record.member, highest }))
    }
}

/// A time of the leader, in microseconds.
fn micros(millis: i64) -> u64 {
    u64::try_from(millis).unwrap_or_default().saturating_mul(1000)
}
