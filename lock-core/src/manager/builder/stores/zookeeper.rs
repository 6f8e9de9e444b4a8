use std::time::Duration;

use crate::manager::builder::named_node::NamedNode;
use crate::manager::builder::{ConfigError, LockManagerBuilder};
use crate::node::ZooKeeperNode;

/// The default of `max_ttl` with ZooKeeper: what servers with default settings allow, whose longest session is 40 s.
const ZOOKEEPER_MAX_TTL: Duration = Duration::from_secs(30);

/// A ZooKeeper ensemble as the master.
impl LockManagerBuilder {
    /// Sets a ZooKeeper ensemble as the only master: `[user:password@]host[:port][,host[:port]…][/path]`. All its servers are one node,
    /// so there must be no other.
    ///
    /// A lock lives in a session of the process, which has to be longer than [`max_ttl`](Self::max_ttl); that defaults to 30 s here.
    /// See [`ZooKeeperNode`] for what is different from Redis, and for settings of the node.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::LockManager;
    ///
    /// let locks = LockManager::builder().zookeeper("zk-1:2181,zk-2:2181,zk-3:2181/locks").connect_lazy()?;
    /// # Ok::<(), lock_core::ConfigError>(())
    /// ```
    pub fn zookeeper(mut self, address: impl AsRef<str>) -> Self {
        let node = ZooKeeperNode::from_address(address.as_ref());
        self.nodes.push(node.map(NamedNode::other).map_err(ConfigError::from));
        self.max_ttl.get_or_insert(ZOOKEEPER_MAX_TTL);
        self
    }
}
