//! A part of the ledger: evictions and tombstones. Must be right: an owner that was evicted never has the lock again.

use futures_util::future::join_all;
use tokio::time::{sleep, timeout};
use zookeeper_client::{CreateMode, Error};

use super::classify::node_error;
use super::fences::Fence;
use super::inspect::READ_AT_ONCE;
use super::leases::Ended;
use super::look::{LOOK_TIMEOUT, data};
use super::paths::Paths;
use super::session::{Session, number};
use super::transaction::{Failed, Part};
use crate::node::limits::MAX_EVICTED;
use crate::node::{EVICTION_GAP, Evict, Eviction, Holder, NodeError};
use crate::random::OwnerId;

/// How often an eviction is sent again that found something changed since it looked.
const MAX_TRIES: usize = 16;

/// What an eviction found.
struct Seen {
    /// The version of the lock's znode, with its holder.
    lock: Option<(Holder, i32)>,
    fence: Fence,
    /// The fence, or the floor if that is higher.
    highest: u64,
    /// The version of each owner's znode: 0 if the owner has the lock, 1 for a tombstone.
    owners: Vec<(OwnerId, Option<i32>)>,
}

/// A lock that nobody may have for a moment: this session has it.
struct Gap {
    /// The version of the znode of the lock while it is the evicted holder's.
    version: i32,
    owner: String,
    lock: String,
}

impl Session {
    /// Evicts holders from a lock, in one transaction, if everything is still as it was read.
    ///
    /// The tombstone of an owner is its znode, with another version: a late attempt of the owner cannot create it, and neither a
    /// renewal nor a release takes it for a lock that is held.
    ///
    /// If somebody had the lock, nobody has it for [`EVICTION_GAP`]: this session holds it under an owner id that no attempt has, and replies
    /// when it has released it.
    pub(super) async fn evict(&self, evict: &Evict) -> Result<Eviction, NodeError> {
        timeout(LOOK_TIMEOUT, self.evict_now(evict)).await.unwrap_or(Err(NodeError::TimedOut))
    }

    async fn evict_now(&self, evict: &Evict) -> Result<Eviction, NodeError> {
        self.check_connected()?;
        self.admission(evict.epoch)?;
        let paths = self.paths(evict.keys.keyspace());
        let now = self.forget_tombstones(&paths).await?;
        for _ in 0..MAX_TRIES {
            let seen = self.see(&paths, evict).await?;
            let (nobody, is_ours) = (Holder::Owner(OwnerId::NOBODY), |holder| evict.holders.contains(holder));
            if seen.lock.as_ref().is_some_and(|(holder, _)| *holder != nobody && !is_ours(holder)) {
                return Ok(Eviction::Superseded);
            }
            if seen.highest >= evict.token {
                return Ok(Eviction::Refused { fence: seen.highest });
            }
            let barred_for = u64::try_from(evict.barred_for.as_millis()).unwrap_or(u64::MAX);
            let held = seen.lock.as_ref().filter(|(holder, _)| *holder != nobody).map(|(_, version)| *version);
            // The token is that of this eviction alone, and no attempt has such a small id.
            let owner = paths.owner(&evict.keys, OwnerId::from_bits(evict.token.into()));
            let gap = held.map(|version| Gap { version, owner, lock: paths.lock(&evict.keys) });
            if let Some(Gap { owner, lock, .. }) = &gap {
                // If this is dropped, the session ends it like a lock whose time is over.
                let (leases, ttl) = (&mut self.known().leases, LOOK_TIMEOUT + EVICTION_GAP);
                _ = leases.begins(owner, lock, ttl) && leases.begun(owner, ttl);
            }
            let buried = self.bury(&paths, evict, &seen, gap.as_ref(), now.saturating_add(barred_for)).await;
            self.pass(gap.as_ref(), &buried).await;
            match buried {
                Ok(()) => return Ok(Eviction::Evicted { deleted: held.is_some() }),
                Err(Failed::Part(0, Error::NoNode)) => {
                    self.forget_admission(evict.epoch);
                    return Err(NodeError::Unadmitted);
                }
                // Something changed since it was read.
                Err(Failed::Part(_, Error::BadVersion | Error::NoNode | Error::NodeExists)) => {}
                Err(failed) => return Err(failed.into()),
            }
        }
        Err(NodeError::Overloaded)
    }

    /// Waits until the gap is over, if it began.
    async fn pass(&self, gap: Option<&Gap>, buried: &Result<(), Failed>) {
        let Some(Gap { owner, lock, .. }) = gap else { return };
        match buried {
            Ok(()) => {
                sleep(EVICTION_GAP).await;
                self.end(Ended { owner: owner.clone(), lock: lock.clone() }).await;
            }
            Err(Failed::Part(..)) => self.known().leases.gone(owner),
            // It is not known whether it began.
            Err(Failed::Whole(_)) => {}
        }
    }

    async fn see(&self, paths: &Paths, evict: &Evict) -> Result<Seen, NodeError> {
        let keys = &evict.keys;
        let lock = self.read(&paths.lock(keys)).await?.map(|(value, version)| (Holder::from_value(&value), version));
        let fence = self.read_fence(paths, keys.fence()).await?;
        let floor = self.read_admission(paths, evict.epoch).await?.floor;
        let mut owners = Vec::new();
        for owner in evict.holders.iter().filter_map(Holder::owner) {
            let found = self.read(&paths.owner(keys, owner)).await?;
            owners.push((owner, found.map(|(_, version)| version)));
        }
        Ok(Seen { lock, fence, highest: fence.value.max(floor), owners })
    }

    /// Deletes the lock, keeps everybody out for the gap, leaves tombstones, and raises the fence.
    async fn bury(
        &self,
        paths: &Paths,
        evict: &Evict,
        seen: &Seen,
        gap: Option<&Gap>,
        until: u64,
    ) -> Result<(), Failed> {
        let keys = &evict.keys;
        let (epoch, fence) = (paths.epoch(evict.epoch), paths.fence(keys.fence()));
        let (token, until, nobody) = (evict.token.to_string(), until.to_string(), OwnerId::NOBODY.to_string());
        let buried: Vec<_> = seen.owners.iter().filter(|(_, version)| *version != Some(1)).collect();
        let graves: Vec<_> =
            buried.iter().map(|(owner, _)| (paths.owner(keys, *owner), paths.evicted(keys, *owner))).collect();
        let mut parts = vec![Part::Check(&epoch, None)];
        for ((_, version), (owner, evicted)) in buried.iter().zip(&graves) {
            parts.extend(version.map(|_| Part::Delete(owner, *version)));
            parts.push(Part::Create(owner, b"", CreateMode::Persistent));
            parts.push(Part::Set(owner, b"evicted", Some(0)));
            parts.push(Part::Create(evicted, until.as_bytes(), CreateMode::Persistent));
        }
        if let Some(Gap { version, owner, lock }) = gap {
            parts.push(Part::Delete(lock, Some(*version)));
            parts.push(Part::Create(owner, b"", CreateMode::Ephemeral));
            parts.push(Part::Create(lock, nobody.as_bytes(), CreateMode::Ephemeral));
        }
        // Whoever took the lock since it was read has raised the fence.
        parts.extend(seen.fence.raise(&fence, &token));
        self.known().fences.forget(keys.fence());
        self.commit(&parts).await.map(drop)
    }

    /// Deletes the tombstones whose time is over. Returns the leader's time, in milliseconds.
    async fn forget_tombstones(&self, paths: &Paths) -> Result<u64, NodeError> {
        let now = self.leader_millis(paths).await?;
        let entries = self.client.list_children(&paths.all_evicted()).await.map_err(|error| node_error(&error))?;
        let barred = self.barred_until(paths, &entries).await?;
        let (left, over): (Vec<_>, Vec<_>) = barred.into_iter().partition(|(_, until)| *until > now);
        let deleted = over.iter().map(|(entry, _)| {
            let (tombstone, entry) = (paths.tombstone(entry), paths.evicted_entry(entry));
            self.commit(&[Part::Delete(&tombstone, Some(1)), Part::Delete(&entry, None)])
        });
        // Where one is gone, another client was faster.
        join_all(deleted).await;
        if left.len() >= MAX_EVICTED {
            return Err(NodeError::Rejected { code: "ERR".into(), detail: "too many owners were evicted".into() });
        }
        Ok(now)
    }

    /// The leader's time, in milliseconds.
    pub(super) async fn leader_millis(&self, paths: &Paths) -> Result<u64, NodeError> {
        let clock = self.client.set_data(&paths.clock(), b"", None).await.map_err(|error| node_error(&error))?;
        Ok(u64::try_from(clock.mtime).unwrap_or_default())
    }

    /// Until when owners are barred, in the leader's time, for those of these entries that are there.
    pub(super) async fn barred_until(
        &self,
        paths: &Paths,
        entries: &[String],
    ) -> Result<Vec<(String, u64)>, NodeError> {
        let mut barred = Vec::with_capacity(entries.len());
        for some in entries.chunks(READ_AT_ONCE) {
            let mut reader = self.client.new_multi_reader();
            let added = some.iter().try_for_each(|entry| reader.add_get_data(&paths.evicted_entry(entry)));
            added.map_err(|error| node_error(&error))?;
            let read = reader.commit().await.map_err(|error| node_error(&error))?;
            for (entry, result) in some.iter().zip(&read) {
                if let Some(until) = data(result)? {
                    barred.push((entry.clone(), number(until)?));
                }
            }
        }
        Ok(barred)
    }
}
