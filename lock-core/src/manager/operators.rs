use std::sync::Arc;
use std::time::Duration;

use super::LockManager;
use super::shards::Shard;
use crate::error::LockError;
use crate::inspection::{self, ForceRelease, ForcedRelease, LockReport, Waiting};
use crate::node::LockKeys;
use crate::resource::Resource;

/// What operators ask of a lock, and do to it.
impl LockManager {
    /// Asks every node now, including those that do not vote, about the lock on a resource: who holds it, for how much longer, and how
    /// many wait. Changes nothing. Takes up to two seconds if a node does not answer.
    ///
    /// Holders are named by [tags](crate::inspection::HolderTag). The nodes do not know which process has a tag.
    ///
    /// Ask for [permits](Self::permits) one by one, by the names of their slots: `export{0}`, `export{1}`. They share a queue, so each
    /// reports how many wait for any of them. The lock on `export` itself is a separate lock.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidResource`], and [`LockError::ShuttingDown`] if the manager was shut down. Nodes that do not reply are in the
    /// report.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::inspection::LockVerdict;
    ///
    /// # let locks = lock_core::LockManager::in_memory();
    /// let guard = locks.lock("stock:42").acquire().await?;
    /// let report = locks.inspect("stock:42").await?;
    /// assert_eq!(report.verdict(), LockVerdict::Held);
    /// assert!(report.nodes.iter().all(|node| node.fence >= Some(guard.token().get())));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn inspect(&self, resource: impl AsRef<str>) -> Result<LockReport, LockError> {
        let (resource, keys) = self.keys_of(resource.as_ref())?;
        let cluster = &self.0.shard_of(&resource).engine.cluster;
        let report = self
            .0
            .background
            .home
            .run(|| inspection::inspect(Arc::clone(cluster), keys.clone(), resource.clone()))
            .await;
        report.ok_or(LockError::ShuttingDown { resource, waited: Duration::ZERO })
    }

    /// Takes the lock on a resource from its holder, and lets the next caller have it. For operators, if a holder does not release it: a
    /// process that hangs, or a key of another program that does not expire.
    ///
    /// The former holder cannot renew, nor have the lock again under the same grant. **It is not stopped at once**: it notices with its
    /// next renewal, a third of its `ttl` after the last one, and may work until then beside the next holder. If it does not renew,
    /// or was renewed up to the end of `max_hold`, it notices at the end of its validity. To shut it out at once, claim [`ForcedRelease::token`] at the resource:
    /// every write that carries a token of the former holder is refused from then on. A holder in this very manager is notified at
    /// once.
    ///
    /// For 125 ms, the masters grant the lock to nobody. Until then, further callers in the former holder's process may still get it without
    /// asking the masters: readers that join the holder, or waiters to which the lock is handed over. This returns when the 125 ms are
    /// over, so that the lock can be acquired.
    ///
    /// The holder of a [permit](Self::permits) is evicted by the name of its slot, such as `export{2}`.
    ///
    /// It evicts whoever holds the lock when the nodes are first asked: one holder, or all [readers](Self::read). A successor that acquires
    /// the lock meanwhile keeps it. If nobody holds it, a token is issued all the same.
    ///
    /// # Errors
    ///
    /// - [`LockError::NoQuorum`] if fewer than a majority of the nodes replied. The holder may have lost its key on the others. Call
    ///   it again.
    /// - [`LockError::Contended`] if somebody else acquired the lock meanwhile: the former holder has lost it. If readers
    ///   held it, they still do.
    /// - [`LockError::TooManyReaders`] if 1024 readers or more hold it.
    /// - [`LockError::NotALock`] if the key of the lock is something else.
    /// - [`LockError::InvalidResource`], and [`LockError::ShuttingDown`] if the manager was shut down.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the forced release goes on in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let stuck = locks.lock("stock:42").acquire().await?;
    /// let forced = locks.force_release("stock:42").await?;
    /// assert!(stuck.token() < forced.token);
    ///
    /// let next = locks.lock("stock:42").try_acquire().await?;
    /// assert!(forced.token < next.token());
    /// assert!(!stuck.is_valid());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn force_release(&self, resource: impl AsRef<str>) -> Result<ForcedRelease, LockError> {
        let (resource, keys) = self.keys_of(resource.as_ref())?;
        let (engine, leases, max_ttl) = (&self.0.shard_of(&resource).engine, &self.0.leases, self.0.max_ttl);
        let seen = Arc::default();
        let forced = self.0.background.home.run(|| {
            let (engine, leases, seen) = (Arc::clone(engine), Arc::clone(leases), Arc::clone(&seen));
            ForceRelease { engine, leases, keys: keys.clone(), resource: resource.clone(), max_ttl, seen }.run()
        });
        let forced = forced.await;
        forced.unwrap_or(Err(LockError::ShuttingDown { resource, waited: Duration::ZERO }))
    }

    /// The name of a resource or of a slot, if it is valid, and the keys of its lock.
    fn keys_of(&self, resource: &str) -> Result<(String, LockKeys), LockError> {
        let parsed = Resource::parse_with_slot(resource);
        let parsed = parsed.map_err(|reason| LockError::InvalidResource { resource: resource.to_owned(), reason })?;
        Ok((resource.to_owned(), self.0.shard_of(resource).engine.cluster.keyspace.keys(&parsed)))
    }

    /// The resources that callers of this manager wait for, in no order. Callers that make a single attempt do not wait.
    ///
    /// It costs nothing until it is called; it then looks at the queue of every lock that is held or waited for.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let guard = locks.lock("stock:42").template("stock:{sku}").acquire().await?;
    /// assert!(locks.waiting().is_empty());
    ///
    /// let mut second = std::pin::pin!(locks.lock("stock:42").acquire());
    /// assert!(futures_util::poll!(second.as_mut()).is_pending());
    /// let waiting = locks.waiting();
    /// assert_eq!((waiting[0].resource.as_str(), waiting[0].callers), ("stock:42", 1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn waiting(&self) -> Vec<Waiting> {
        let of_shard = |shard: &Shard| inspection::waiting(&shard.turns, &shard.engine.cluster.keyspace);
        self.0.shards.iter().flat_map(of_shard).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn beginning_again_on_another_runtime_evicts_no_successor() {
        let locks = LockManager::in_memory();
        let former = locks.lock("r").acquire().await.unwrap();
        let (inner, seen) = (&locks.0, Arc::default());
        let resource = crate::resource::Resource::parse("r").unwrap();
        let force_release = || ForceRelease {
            engine: Arc::clone(&inner.shards[0].engine),
            leases: Arc::clone(&inner.leases),
            keys: inner.shards[0].engine.cluster.keyspace.keys(&resource),
            resource: "r".to_owned(),
            max_ttl: inner.max_ttl,
            seen: Arc::clone(&seen),
        };
        force_release().run().await.unwrap();
        assert!(!former.is_valid());
        let successor = locks.lock("r").acquire().await.unwrap();
        let again = force_release().run().await;
        assert!(matches!(again, Err(LockError::Contended { .. })), "{again:?}");
        assert!(successor.release().await.unwrap(), "it still has the lock");
    }
}
