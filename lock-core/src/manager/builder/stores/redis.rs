use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisResult};

use crate::manager::builder::named_node::NamedNode;
use crate::manager::builder::{ConfigError, LockManagerBuilder};
use crate::manager::string_list::StringList;
use crate::node::{LockNode, Network, RedisNode};

/// Redis and Valkey servers as masters.
impl LockManagerBuilder {
    /// Adds Redis or Valkey servers by URL: `redis://[user:password@]host[:port][/database]`, or
    /// `unix:///path[?user=..&pass=..&db=..]`. A URL with other parameters is refused: they would have no effect.
    ///
    /// `urls` is any [`IntoIterator`] of strings. They must be independent masters, not replicas of each other, with `maxmemory-policy noeviction`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::LockManager;
    /// let locks = LockManager::builder()
    ///     .redis(["redis://10.0.0.1", "redis://app:secret@10.0.0.2:6380/1", "unix:///run/redis.sock"])
    ///     .connect_lazy()?;
    /// # Ok::<(), lock_core::ConfigError>(())
    /// ```
    pub fn redis(mut self, urls: impl StringList) -> Self {
        let nodes = urls.into_iter().map(|url| Ok(named(RedisNode::from_url(url.as_ref())?)));
        self.nodes.extend(nodes);
        self
    }

    /// Adds a set of Redis or Valkey servers, with a shard of the locks: for more locks than the servers of one set carry, such as one
    /// `redis-server` for each processor of three machines. `urls` are those of an odd number of independent servers, as in [`redis`](Self::redis).
    ///
    /// Called once for each shard, and so 2, 4, 8, 16, 32 or 64 times. The locks are divided among the sets as among
    /// [`shards`](Self::shards), which is left out then; no masters are named in another way. **The number of sets and their order cannot be
    /// changed**: each records its place, and a client that has it at another one, or counts others, is refused with
    /// [`Refusal::OtherSet`](crate::masters::Refusal::OtherSet). A client knows of no servers but those that it names: one that names
    /// some of the sets only must never find these without their records.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::LockManager;
    /// let locks = LockManager::builder()
    ///     .set(["redis://10.0.0.1:6379", "redis://10.0.0.2:6379", "redis://10.0.0.3:6379"])
    ///     .set(["redis://10.0.0.1:6380", "redis://10.0.0.2:6380", "redis://10.0.0.3:6380"])
    ///     .connect_lazy()?;
    /// assert_eq!(locks.shards(), 2);
    /// # Ok::<(), lock_core::ConfigError>(())
    /// ```
    pub fn set(mut self, urls: impl StringList) -> Self {
        let nodes = urls.into_iter().map(|url| Ok(named(RedisNode::from_url(url.as_ref())?)));
        self.sets.push(nodes.collect());
        self
    }

    /// Adds one Redis server that `factory` connects to, named `name` in errors and logs. The factory is called at every
    /// connection and reconnection, and must return a new, unshared connection each time, made in RESP3 with the configuration that it
    /// is given: see [`RedisNode::from_factory`], which has an example.
    pub fn redis_factory<F, Fut>(mut self, name: impl Into<String>, factory: F) -> Self
    where
        F: Fn(AsyncConnectionConfig) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = RedisResult<MultiplexedConnection>> + Send + 'static,
    {
        self.nodes.push(Ok(named(RedisNode::from_factory(name, factory))));
        self
    }

    /// Adds one master that Redis Sentinel watches over under this name: a single node, whichever server is the master.
    ///
    /// At every connect, all sentinels are asked. The node uses the address that a majority of them names, or all that answer, if its
    /// server says that it is a master. A promoted replica counts as a node that forgot, however much it received: it grants nothing
    /// until every lock has ended that its predecessor granted. So a failover costs the longest `max_ttl` of all clients; a small
    /// [`max_ttl`](Self::max_ttl) shortens it. Attempts meanwhile wait inside `wait`, or get
    /// [`LockError::NoQuorum`](crate::LockError::NoQuorum). [`assume_durable`](Self::assume_durable) has no effect here.
    ///
    /// In a **split brain**, two holders are possible: while a master that is cut off from the sentinels still has clients of its own,
    /// a replica of it takes its place for all others. [`replicated`](Self::replicated) narrows that. Three independent
    /// masters have no such gap, and no pause; three masters with Sentinel each can be one set, too.
    ///
    /// A sentinel is written `host[:port]`, with the port 26379 by default, or as a URL, `redis://user:password@host:port`. The
    /// master is written as its name, or as a URL with the name instead of the host: `redis://user:password@mymaster/0`. With
    /// the feature `tls`, `rediss://` works for both; the certificate has to be valid for the address that the sentinels
    /// name. The user needs `+role` on the master, besides what [`RedisNode`](crate::RedisNode#permissions) lists, and `+sentinel` on
    /// the sentinels.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::LockManager;
    ///
    /// let sentinels = ["10.0.0.1:26379", "10.0.0.2:26379", "10.0.0.3:26379"];
    /// let locks = LockManager::builder().sentinel(sentinels, "redis://app:secret@mymaster").connect_lazy()?;
    /// # Ok::<(), lock_core::ConfigError>(())
    /// ```
    pub fn sentinel(mut self, sentinels: impl StringList, master: impl AsRef<str>) -> Self {
        let node = RedisNode::from_sentinel(sentinels, master.as_ref());
        self.nodes.push(node.map(named).map_err(ConfigError::from));
        self
    }

    /// Adds Redis Clusters, each as **one** master: each string names servers of one cluster, `redis://[user:password@]host[:port][,host…]`,
    /// which are asked where the locks are. Name one cluster, or three whose majority decides.
    ///
    /// The keys of each [shard](Self::shards) are in one slot, by a hash tag in front (`{shop:#0}stock:42`), and the server that has
    /// the slot is a master like any other. With [`shards`](Self::shards), the locks are spread over the servers of the cluster.
    ///
    /// A **failover**, or a slot that **moves** to another server, is a master that forgot: these shards grant nothing for the longest
    /// [`max_ttl`](Self::max_ttl) of all clients, and the others go on. A small `max_ttl` shortens it. With three clusters, the other two go
    /// on meanwhile. [`assume_durable`](Self::assume_durable) has no effect here.
    ///
    /// In a **split brain**, two holders are possible with a single cluster: a master that is cut off goes on granting locks to those
    /// who still reach it until it notices that it is without the others (`cluster-node-timeout`), and one of its replicas may have taken its
    /// place. [`replicated`](Self::replicated) narrows that; three clusters do not have the gap.
    ///
    /// The user needs `+cluster|slots` and `+spublish +ssubscribe`, besides what [`RedisNode`](crate::RedisNode#permissions) lists, with the
    /// keys and channels of the tags (`~{shop:#* &{shop:#*`). Waiters are woken by sharded channels, from Redis 7.0 on; before that, they
    /// poll. With the feature `tls`, `rediss://` works: the certificate has to be valid for the addresses that the cluster names.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use lock_core::LockManager;
    ///
    /// let locks = LockManager::builder()
    ///     .redis_cluster(["redis://app:secret@10.0.0.1,10.0.0.2,10.0.0.3"]) // some servers of one cluster
    ///     .shards(16)
    ///     .prefix("shop:")
    ///     .max_ttl(Duration::from_secs(10)) // and so the time without the locks of a shard that moves
    ///     .connect_lazy()?;
    /// # Ok::<(), lock_core::ConfigError>(())
    /// ```
    pub fn redis_cluster(self, clusters: impl StringList) -> Self {
        self.redis_cluster_over(clusters, None)
    }

    /// As [`redis_cluster`](Self::redis_cluster), over another network than TCP. For simulations.
    #[doc(hidden)]
    pub fn redis_cluster_over(mut self, clusters: impl StringList, network: Option<&Network>) -> Self {
        let node = |seeds: &str| Ok(named(RedisNode::from_cluster(seeds, network)?));
        self.nodes.extend(clusters.into_iter().map(|seeds| node(seeds.as_ref())));
        self
    }

    /// Lets a vote of a master count only when this many of its replicas have acknowledged it (`WAIT`), within this time. One that
    /// they have not is no vote, and what was set for it is released. Applies to all masters that are named with
    /// [`redis`](Self::redis), [`redis_cluster`](Self::redis_cluster), [`redis_factory`](Self::redis_factory) and
    /// [`sentinel`](Self::sentinel).
    ///
    /// Nothing has to be replicated for a restart, or for a failover from a master that is gone: the successor grants nothing before
    /// every lock has ended that it may not know of. This is for a **split brain**: a master that is cut off from its replicas, one
    /// of which takes its place, goes on granting locks to those who still reach it. With as many acknowledgements as it has
    /// replicas, it grants and renews nothing more once it is cut off. With fewer, it goes on as long as it keeps that many. So this
    /// narrows the loss of exclusion, and does not end it: an acknowledgement says that a replica has the write in memory, not that
    /// this replica is the one that takes over, and a replica that is added later counts like any other.
    ///
    /// It costs a round trip to the replicas for every vote, and a replica that is down keeps its master from voting, unless
    /// there are more of them. The user needs `+wait`. The default of [`node_timeout`](Self::node_timeout) grows by this time.
    ///
    /// From 1 to 16 replicas, and from 1 ms to 250 ms. Defaults to none.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use lock_core::LockManager;
    ///
    /// let locks = LockManager::builder()
    ///     .sentinel(["10.0.0.1:26379", "10.0.0.2:26379", "10.0.0.3:26379"], "mymaster")
    ///     .replicated(1, Duration::from_millis(50))
    ///     .connect_lazy()?;
    /// # Ok::<(), lock_core::ConfigError>(())
    /// ```
    pub fn replicated(mut self, replicas: u32, timeout: Duration) -> Self {
        self.replication = Some((replicas, timeout));
        self
    }

    /// Sets whether Redis servers are used although their `maxmemory-policy` is one of `volatile-*`, as some hosts force it.
    ///
    /// Such a server **deletes locks when it runs out of memory**, and there may be two holders at once then. Tokens still grow: all that
    /// they rest on is in the record of the server, which does not expire and so is never deleted.
    /// [Claim](https://docs.rs/lock-axum/latest/lock_axum/fence/) them where it matters. The next renewal of a holder notices that too many
    /// servers have deleted its lock, and ends it. Each server is warned of in the log, once (`lock.node_may_evict`). Policies that may delete the
    /// record, `allkeys-*`, are refused all the same.
    ///
    /// Have the server used for nothing but locks, and watch its memory: what matters is that it is never full.
    ///
    /// Defaults to `false`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::LockManager;
    /// let locks = LockManager::builder()
    ///     .redis(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
    ///     .tolerate_eviction(true) // the host has volatile-lru
    ///     .connect_lazy()?;
    /// # Ok::<(), lock_core::ConfigError>(())
    /// ```
    pub fn tolerate_eviction(mut self, tolerate_eviction: bool) -> Self {
        self.tolerate_eviction = tolerate_eviction;
        self
    }
}

fn named(mut node: RedisNode) -> NamedNode {
    let (name, is_cluster) = (node.name().to_owned(), node.is_in_cluster());
    let finish = move |with: &LockManagerBuilder| {
        #[cfg(feature = "tls")]
        if let Some(config) = &with.tls {
            node = node.tls(Arc::clone(config))?;
        }
        if let Some(provider) = &with.credentials {
            node = node.with_credentials(provider.clone())?;
        }
        if let Some((replicas, timeout)) = with.replication {
            node = node.replicated(replicas, timeout)?;
        }
        Ok(Arc::new(node.tolerate_eviction(with.tolerate_eviction)) as Arc<dyn LockNode>)
    };
    NamedNode { name, is_cluster, finish: Box::new(finish) }
}
