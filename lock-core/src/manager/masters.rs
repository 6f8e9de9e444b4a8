use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;

use super::LockManager;
use crate::cluster::Cluster;
use crate::limits::OutOfRange;
use crate::masters::health::{self, Health};
use crate::masters::{self, Members, NotReady};

/// What operators ask of the masters, and of the set.
impl LockManager {
    /// Asks each node for its state now, and then to grant and renew a lock that nobody else can ask for.
    /// Takes up to two seconds if one does not answer. With [shards](crate::LockManagerBuilder::shards), each node is asked for each of
    /// them. After a [shutdown](Self::shutdown), nothing is asked, and no node is reachable.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let health = locks.health().await;
    /// assert!(health.quorum && health.nodes.iter().all(|node| node.admitted));
    /// # }
    /// ```
    pub async fn health(&self) -> Health {
        let clusters = self.clusters();
        let health = self.0.background.home.run(|| health::check_all(clusters.clone())).await;
        health.unwrap_or_else(|| health::after_shutdown(&clusters))
    }

    /// Whether locks can be acquired, by asking each node as [`health`](Self::health) does, but only until a majority would grant a
    /// lock: a minority that is hung delays nothing. Takes up to three seconds if no majority answers.
    ///
    /// With [shards](crate::LockManagerBuilder::shards), one that works is enough: an instance that is taken out of service because of one
    /// shard would serve none of the others either. [`health`](Self::health) tells them apart.
    ///
    /// # Errors
    ///
    /// [`NotReady`] if the manager is closed, or too few nodes would grant a lock, with the reason of each.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let locks = lock_core::LockManager::in_memory();
    /// assert_eq!(locks.ready().await, Ok(()));
    /// locks.close();
    /// assert_eq!(locks.ready().await.unwrap_err().to_string(), "the lock manager is closed");
    /// # }
    /// ```
    pub async fn ready(&self) -> Result<(), NotReady> {
        if self.0.background.closing.is_cancelled() {
            return Err(NotReady::Closed);
        }
        let ready = self.0.background.home.run(|| masters::ready(self.clusters()));
        ready.await.unwrap_or(Err(NotReady::Closed))
    }

    /// Who the members of the set are, by asking each node now; `None` if no set was formed, none is known, or the manager was
    /// shut down. Takes up to two seconds if a node does not answer. With [shards](crate::LockManagerBuilder::shards), each is a set of
    /// its own, and this is the first: see [`members_of_shard`](Self::members_of_shard).
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use lock_core::LockManager;
    /// use lock_core::masters::SeatState;
    ///
    /// let locks = LockManager::in_memory();
    /// let members = locks.members().await.unwrap();
    /// assert_eq!(members.generation, 1);
    /// assert!(members.seats.iter().all(|seat| seat.state == SeatState::Votes));
    /// # }
    /// ```
    pub async fn members(&self) -> Option<Members> {
        self.members_of_shard(0).await
    }

    /// The [`members`](Self::members) of one of the [shards](crate::LockManagerBuilder::shards), which are counted from 0. `None` also if
    /// there is no such shard.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::ConnectError> {
    /// use lock_core::{LockManager, MemoryNode};
    ///
    /// let locks = LockManager::builder().nodes([MemoryNode::new()]).shards(4).connect().await?;
    /// for shard in 0..locks.shards() {
    ///     println!("{:?}", locks.members_of_shard(shard).await);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn members_of_shard(&self, shard: u32) -> Option<Members> {
        let cluster = &self.0.shards.get(usize::try_from(shard).ok()?)?.engine.cluster;
        self.0.background.home.run(|| masters::members(Arc::clone(cluster))).await.flatten()
    }

    /// Into how many [shards](crate::LockManagerBuilder::shards) the locks are divided.
    #[must_use]
    pub fn shards(&self) -> u32 {
        u32::try_from(self.0.shards.len()).unwrap_or(u32::MAX)
    }

    /// Lowers the longest time to live of the set, and with it the time for which a master that joins grants nothing. This takes as long
    /// as a lock that was granted before may live.
    ///
    /// Every manager with a longer `max_ttl` raises it again, so those have to be gone. This also returns if it was raised
    /// meanwhile: [`members`](Self::members) says what `max_ttl` is. If this manager is shut down, it returns at once; then ask another.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if it is below the `max_ttl` of this manager, or above one day.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, what is done stays done, and nothing further is asked for. Call it again: it begins with the wait if that is
    /// all that is left.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use lock_core::{LockManager, MemoryNode};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let nodes = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
    /// # LockManager::builder().nodes(nodes.clone()).connect().await?;
    /// let locks = LockManager::builder().nodes(nodes).max_ttl(Duration::from_secs(20)).connect().await?;
    /// locks.lower_max_ttl(Duration::from_secs(20)).await?;
    /// assert_eq!(locks.members().await.unwrap().max_ttl, Duration::from_secs(20));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lower_max_ttl(&self, max_ttl: Duration) -> Result<(), OutOfRange> {
        self.0.background.home.start();
        let stopped = self.0.background.stopped();
        let lower = |cluster| masters::lower_max_ttl(cluster, self.0.max_ttl, max_ttl);
        let of_shards = self.clusters().into_iter().map(lower);
        tokio::select! {
            biased;
            lowered = try_join_all(of_shards) => lowered.map(drop),
            () = stopped.cancelled() => Ok(()),
        }
    }

    /// Of all shards.
    fn clusters(&self) -> Vec<Arc<Cluster>> {
        self.0.shards.iter().map(|shard| Arc::clone(&shard.engine.cluster)).collect()
    }
}
