//! A part of the ledger: evictions, tombstones, and the gap after an eviction, in which nobody has the lock. Must be right: an owner that was
//! evicted never has the lock again; and however late the eviction was carried out, the gap lasts for [`EVICTION_GAP`].

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::sleep;
use zookeeper_client::{Client, CreateMode, Error, MultiWriteError};

use super::classify::node_error;
use super::parts::{Fence, Part};
use super::paths::{Paths, entry, evicted_from};
use super::session::{Session, number};
use super::transaction::Failed;
use crate::node::limits::{MAX_EVICTED, too_many_evicted};
use crate::node::{EVICTION_GAP, Evict, Eviction, Holder, LockKeys, NodeError};
use crate::random::{OwnerId, Random};

/// How often an eviction is sent again that found something changed since it looked.
const MAX_TRIES: usize = 16;
/// How long to wait before the end of a gap is sent again that was lost with its connection.
const AFTER_ERROR: Duration = Duration::from_millis(200);

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

impl Session {
    /// Evicts holders from a lock, in one transaction, if everything is still as it was read.
    ///
    /// The tombstone of an owner is its znode, with another version: a late attempt of the owner cannot create it, and neither a
    /// renewal nor a release takes it for a lock that is held.
    ///
    /// If somebody had the lock, nobody has it until its [`Gap`] is over, which this awaits.
    pub(super) async fn evict_holders(&self, evict: &Evict) -> Result<Eviction, NodeError> {
        self.check_connected()?;
        self.admission(evict.epoch)?;
        let paths = self.paths(evict.keys.keyspace());
        let now = self.forget_tombstones(&paths, &evict.keys).await?;
        for _ in 0..MAX_TRIES {
            let seen = self.see(&paths, evict).await?;
            let (nobody, is_ours) = (Holder::Owner(OwnerId::NOBODY), |holder| evict.holders.contains(holder));
            if seen.lock.as_ref().is_some_and(|(holder, _)| *holder != nobody && !is_ours(holder)) {
                return Ok(Eviction::Superseded);
            }
            // The caller draws a larger one. To raise the fence to a token that was given would give it twice.
            if seen.highest >= evict.token {
                return Ok(Eviction::Refused { fence: seen.highest });
            }
            let barred_for = u64::try_from(evict.barred_for.as_millis()).unwrap_or(u64::MAX);
            let held = seen.lock.as_ref().filter(|(holder, _)| *holder != nobody).map(|(_, version)| *version);
            let mut gap = held.map(|_| Gap::new(self, &paths, &evict.keys));
            let until = now.saturating_add(barred_for);
            let buried = self.bury(&paths, evict, &seen, held.zip(gap.as_ref()), until).await;
            match (&buried, &mut gap) {
                (Ok(()), Some(gap)) => gap.is_over = pass(&self.client, &gap.owner, &gap.lock).await,
                // It may have begun, and is passed when this is dropped.
                (Err(Failed::Whole(_)), _) | (_, None) => {}
                (Err(_), Some(gap)) => gap.is_over = true,
            }
            match buried {
                Ok(()) => return Ok(Eviction::Evicted { deleted: held.is_some() }),
                // Something changed since it was read.
                Err(Failed::Part(_, Error::BadVersion | Error::NoNode | Error::NodeExists)) => {}
                Err(failed) => return Err(failed.into()),
            }
        }
        Err(NodeError::Overloaded)
    }

    /// The fence is read first: an owner that takes the lock after that has raised it, and the transaction fails.
    async fn see(&self, paths: &Paths, evict: &Evict) -> Result<Seen, NodeError> {
        let keys = &evict.keys;
        let fence = self.read_fence(paths, keys.fence()).await?;
        let lock = self.read(&paths.lock(keys)).await?.map(|(value, stat)| (Holder::from_value(&value), stat.version));
        let floor = self.read_admission(paths, evict.epoch).await?.floor;
        let mut owners = Vec::new();
        for owner in evict.holders.iter().filter_map(Holder::owner) {
            let found = self.read(&paths.owner(keys, owner)).await?;
            owners.push((owner, found.map(|(_, stat)| stat.version)));
        }
        Ok(Seen { lock, fence, highest: fence.value.max(floor), owners })
    }

    /// Deletes the lock, keeps everybody out for the gap, leaves tombstones, and raises the fence. A gap has the version that the znode
    /// of the lock has while it is the evicted holder's; then this session holds the lock, as an owner of its own.
    async fn bury(
        &self,
        paths: &Paths,
        evict: &Evict,
        seen: &Seen,
        gap: Option<(i32, &Gap<'_>)>,
        until: u64,
    ) -> Result<(), Failed> {
        let keys = &evict.keys;
        let (fence, token, nobody) = (paths.fence(keys.fence()), evict.token.to_string(), OwnerId::NOBODY.to_string());
        let until = until.to_string();
        let buried = seen.owners.iter().filter(|(_, version)| *version != Some(1)).map(|(owner, version)| {
            let entry = entry(keys, *owner);
            (*version, paths.tombstone(&entry), paths.evicted(&entry))
        });
        let buried: Vec<_> = buried.collect();
        let mut parts = Vec::new();
        // Created and set once: a znode of an owner has the version 0, and a tombstone another one. So no request of the owner
        // matches it.
        for (version, owner, evicted) in &buried {
            parts.extend(version.map(|_| Part::Delete(owner, *version)));
            parts.push(Part::Create(owner, b"", CreateMode::Persistent));
            parts.push(Part::Set(owner, b"evicted", Some(0)));
            parts.push(Part::Create(evicted, until.as_bytes(), CreateMode::Persistent));
        }
        if let Some((version, gap)) = gap {
            parts.push(Part::Delete(&gap.lock, Some(version)));
            parts.push(Part::Create(&gap.owner, b"", CreateMode::Ephemeral));
            parts.push(Part::Create(&gap.lock, nobody.as_bytes(), CreateMode::Ephemeral));
        }
        // If the lock was taken since it was seen, this fails.
        parts.extend(seen.fence.raise(&fence, &token));
        self.known().fences.remove(&keys.fence());
        self.commit_in(paths, evict.epoch, None, &parts).await.map(drop)
    }

    /// Deletes the tombstones whose time is over, of all locks. Returns the leader's time, in milliseconds; an error if the lock has too many
    /// others.
    async fn forget_tombstones(&self, paths: &Paths, keys: &LockKeys) -> Result<u64, NodeError> {
        let now = self.leader_millis(paths).await?;
        let entries = self.client.list_children(&paths.in_set("evicted")).await.map_err(|error| node_error(&error))?;
        let barred = self.barred_until(paths, &entries).await?;
        let (left, over): (Vec<_>, Vec<_>) = barred.into_iter().partition(|(_, until)| *until > now);
        let deleted = over.iter().map(|(entry, _)| {
            self.commit(&[Part::Delete(&paths.tombstone(entry), Some(1)), Part::Delete(&paths.evicted(entry), None)])
        });
        // Where one is gone, another client was faster.
        join_all(deleted).await;
        if left.iter().filter(|(entry, _)| evicted_from(entry, keys).is_some()).count() >= MAX_EVICTED {
            return Err(too_many_evicted());
        }
        Ok(now)
    }

    /// The leader's time, in milliseconds.
    pub(super) async fn leader_millis(&self, paths: &Paths) -> Result<u64, NodeError> {
        let clock =
            self.client.set_data(&paths.in_set("clock"), b"", None).await.map_err(|error| node_error(&error))?;
        Ok(u64::try_from(clock.mtime).unwrap_or_default())
    }

    /// Until when owners are barred, in the leader's time. Entries that are gone are left out.
    pub(super) async fn barred_until(
        &self,
        paths: &Paths,
        entries: &[String],
    ) -> Result<Vec<(String, u64)>, NodeError> {
        let znodes: Vec<String> = entries.iter().map(|entry| paths.evicted(entry)).collect();
        let read = entries.iter().zip(self.read_values(&znodes).await?);
        read.filter_map(|(entry, until)| Some(number(&until?).map(|until| (entry.clone(), until)))).collect()
    }
}

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
