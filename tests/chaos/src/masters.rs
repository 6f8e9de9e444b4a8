//! How services reach the masters, and a broken way: no quarantine that is begun by it has a length.

use std::sync::Arc;
use std::time::Duration;

use lock_core::node::{Keyspace, NodeFuture, NodeRecord, RecordWrite};
use lock_core::{LockManager, LockManagerBuilder, LockNode, NodeError, RedisNode};

use super::store::{Store, cluster, zookeeper};
use super::{MAX_TTL, PREFIX};

/// A builder of managers over these masters. Without quarantines, these are Redis servers.
pub(super) fn builder(store: Store, masters: &[String], no_quarantine: bool) -> LockManagerBuilder {
    let builder =
        LockManager::builder().prefix(PREFIX).ttl(MAX_TTL).max_ttl(MAX_TTL).node_timeout(store.node_timeout());
    match store {
        _ if no_quarantine => builder.nodes(masters.iter().map(|url| NoQuarantine(RedisNode::from_url(url).unwrap()))),
        Store::Redis => builder.redis(masters),
        Store::Cluster => cluster::named_in(builder, masters),
        Store::Postgres => builder.postgres(masters),
        Store::Zookeeper => builder.nodes([zookeeper::node(masters)]),
    }
}

/// A node that votes as soon as it has joined.
struct NoQuarantine(RedisNode);

impl LockNode for NoQuarantine {
    lock_core::forward_to_node!(self => self.0; name inspect read_fences submit wakeups disconnected disconnect look evict);

    fn write_record(
        &self,
        keyspace: &Arc<Keyspace>,
        mut write: RecordWrite,
    ) -> NodeFuture<Result<Option<NodeRecord>, NodeError>> {
        write.begin.iter_mut().for_each(|(_, length)| *length = Duration::ZERO);
        self.0.write_record(keyspace, write)
    }
}
