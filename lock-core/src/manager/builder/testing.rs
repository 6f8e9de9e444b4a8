//! The seam of `lock_axum::testing`, and all of it: with the feature `testing`, and not public API.

use super::LockManagerBuilder;

impl LockManagerBuilder {
    /// Holders of this manager stand still from when they have a lock: its leases are neither renewed nor lost, and stay valid until they are
    /// released, whatever the nodes say. That is a process that is paused after each look at the clock.
    #[doc(hidden)]
    pub fn notices_nothing(mut self) -> Self {
        self.defaults.notices_nothing = true;
        self
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{LockManager, MemoryNode};

    #[tokio::test(start_paused = true)]
    async fn a_holder_that_notices_nothing_goes_on_beside_the_next() {
        let nodes: Vec<MemoryNode> = (0..3).map(|_| MemoryNode::new()).collect();
        let manager = || LockManager::builder().nodes(nodes.clone()).ttl(Duration::from_secs(1));
        let (frozen, other) =
            (manager().notices_nothing().connect().await.unwrap(), manager().connect().await.unwrap());
        let old = frozen.lock("stock:42").max_hold(Duration::from_secs(2)).acquire().await.unwrap();
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(old.is_valid(), "neither renewed nor lost");
        let new = other.lock("stock:42").try_acquire().await.unwrap();
        assert!(new.is_valid() && new.token() > old.token());
        assert!(!old.release().await.unwrap(), "the nodes know better");
        assert!(new.is_valid());
    }

    #[tokio::test(start_paused = true)]
    async fn the_max_hold_of_a_set_ends_none_of_its_locks_either() {
        let locks = LockManager::builder().nodes([MemoryNode::new()]).notices_nothing().connect().await.unwrap();
        let set = locks.lock_all(["stock:42", "user:7"]).max_hold(Duration::from_secs(2)).acquire().await.unwrap();
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(set.leases().is_valid());
    }
}
