//! How services reach the masters, and a broken way: no quarantine that is begun by it has a length.

use std::sync::Arc;
use std::time::Duration;

use lock_core::node::{
    FenceReading, Inspection, Keyspace, NodeFuture, NodeRecord, RecordWrite, ReplySender, Request, WaiterId, Wakeups,
};
use lock_core::{LockManager, LockManagerBuilder, LockNode, NodeError, RedisNode};

use super::{MAX_TTL, NODE_TIMEOUT, PREFIX};

/// A builder of managers over these masters.
pub(super) fn builder(masters: &[String], no_quarantine: bool) -> LockManagerBuilder {
    let builder = LockManager::builder().prefix(PREFIX).ttl(MAX_TTL).max_ttl(MAX_TTL).node_timeout(NODE_TIMEOUT);
    if no_quarantine {
        builder.nodes(masters.iter().map(|url| NoQuarantine(RedisNode::from_url(url).unwrap())))
    } else {
        builder.redis(masters)
    }
}

/// A node that votes as soon as it has joined.
struct NoQuarantine(RedisNode);

impl LockNode for NoQuarantine {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn inspect(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Inspection, NodeError>> {
        self.0.inspect(keyspace)
    }

    fn write_record(
        &self,
        keyspace: &Arc<Keyspace>,
        mut write: RecordWrite,
    ) -> NodeFuture<Result<Option<NodeRecord>, NodeError>> {
        write.begin.iter_mut().for_each(|(_, length)| *length = Duration::ZERO);
        self.0.write_record(keyspace, write)
    }

    fn read_fences(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Option<FenceReading>, NodeError>> {
        self.0.read_fences(keyspace)
    }

    fn submit(&self, request: Request, reply_to: ReplySender) {
        self.0.submit(request, reply_to);
    }

    fn wakeups(&self, keyspace: &Arc<Keyspace>, waiter: WaiterId) -> NodeFuture<Result<Wakeups, NodeError>> {
        self.0.wakeups(keyspace, waiter)
    }

    fn disconnected(&self) -> NodeFuture<()> {
        self.0.disconnected()
    }

    fn disconnect(&self) {
        self.0.disconnect();
    }
}
