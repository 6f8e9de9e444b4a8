use std::sync::Arc;

use lock_core::node::{
    Establish, Inspection, Keyspace, NodeError, NodeFuture, Operation, ReplySender, Request, WaiterId, Wakeup,
};
use lock_core::{LockNode, RedisNode};

use super::world::World;

/// A node whose requests are counted: a run in which nothing is extended or replaced would prove nothing about that.
pub(super) struct CountingNode {
    node: RedisNode,
    world: World,
}

impl CountingNode {
    pub(super) fn new(node: RedisNode, world: World) -> Self {
        Self { node, world }
    }
}

impl LockNode for CountingNode {
    fn name(&self) -> &str {
        self.node.name()
    }

    fn inspect(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Inspection, NodeError>> {
        self.node.inspect(keyspace)
    }

    fn establish(&self, keyspace: &Arc<Keyspace>, record: Establish) -> NodeFuture<Result<bool, NodeError>> {
        let (established, world) = (self.node.establish(keyspace, record), self.world.clone());
        Box::pin(async move {
            let established = established.await;
            if established == Ok(true) {
                world.count_request("establish");
            }
            established
        })
    }

    fn submit(&self, request: Request, reply_to: ReplySender) {
        self.world.count_request(match request.operation {
            Operation::Acquire { .. } => "acquire",
            Operation::Confirm { .. } => "confirm",
            Operation::Extend { .. } => "extend",
            Operation::Replace { .. } => "replace",
            Operation::Release { .. } => "release",
            Operation::LeaveQueue => "leave the queue",
        });
        self.node.submit(request, reply_to);
    }

    fn wakeups(&self, keyspace: &Arc<Keyspace>, waiter: WaiterId) -> NodeFuture<Result<Vec<Wakeup>, NodeError>> {
        self.node.wakeups(keyspace, waiter)
    }

    fn disconnected(&self) -> NodeFuture<()> {
        self.node.disconnected()
    }
}
