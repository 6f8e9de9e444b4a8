use std::future::ready;
use std::sync::Arc;

use futures_util::StreamExt as _;
use lock_core::node::{
    FenceReading, Keyspace, NodeError, NodeFuture, NodeRecord, Operation, RecordWrite, ReplySender, Request, WaiterId,
    Wakeups,
};
use lock_core::{LockNode, RedisNode};

use super::history::Event;
use super::world::World;

/// A node whose requests and wake-ups are counted: a run in which nothing is extended or replaced would prove nothing about that.
pub(super) struct CountingNode {
    node: RedisNode,
    world: World,
    client: usize,
}

impl CountingNode {
    pub(super) fn new(node: RedisNode, world: World, client: usize) -> Self {
        Self { node, world, client }
    }
}

impl LockNode for CountingNode {
    lock_core::forward_to_node!(self => self.node; name inspect disconnected disconnect look evict);

    fn write_record(
        &self,
        keyspace: &Arc<Keyspace>,
        write: RecordWrite,
    ) -> NodeFuture<Result<Option<NodeRecord>, NodeError>> {
        let (client, server, kind) = (self.client, self.node.name().to_owned(), kind(&write));
        let (written, world) = (self.node.write_record(keyspace, write), self.world.clone());
        Box::pin(async move {
            let written = written.await;
            if let Ok(Some(record)) = &written {
                world.count(kind);
                let generation = record.roster.as_ref().map_or(0, |roster| roster.generation);
                world.record(Event::RecordWritten { client, server, kind, generation });
            }
            written
        })
    }

    fn read_fences(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Option<FenceReading>, NodeError>> {
        self.world.count("read the fences");
        self.node.read_fences(keyspace)
    }

    fn submit(&self, request: Request, reply_to: ReplySender) {
        self.world.count(match request.operation {
            Operation::Acquire { .. } if request.polls => "acquire, polling",
            Operation::Acquire { .. } => "acquire",
            Operation::Confirm { .. } => "confirm",
            Operation::Extend { .. } => "extend",
            Operation::Replace { .. } => "replace",
            Operation::Downgrade { .. } => "downgrade",
            Operation::Release { .. } => "release",
            Operation::LeaveQueue => "leave the queue",
        });
        self.node.submit(request, reply_to);
    }

    fn wakeups(&self, keyspace: &Arc<Keyspace>, waiter: WaiterId) -> NodeFuture<Result<Wakeups, NodeError>> {
        let (listening, world, client) = (self.node.wakeups(keyspace, waiter), self.world.clone(), self.client);
        Box::pin(async move {
            let heard = listening.await?.filter(move |_| {
                let is_lost = world.is_deaf(client);
                world.count(if is_lost { "wake-up lost" } else { "wake-up taken" });
                ready(!is_lost)
            });
            Ok(Box::pin(heard) as Wakeups)
        })
    }
}

/// What a write of a node's record is for.
fn kind(RecordWrite { record, new_member, begin, floor, .. }: &RecordWrite) -> &'static str {
    if *new_member {
        "give an id"
    } else if floor.is_some() {
        "join"
    } else if !begin.is_empty() {
        "observe a quarantine"
    } else if record.promised.is_some() {
        if record.accepted.is_some() { "accept" } else { "promise" }
    } else if record.epoch.is_some() {
        "install or admit"
    } else {
        "install"
    }
}
