use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::unconstrained;
use tokio_util::sync::CancellationToken;

use super::address::Address;
use super::cancel::cancel_unanswered;
use super::classify::ends_session;
use super::connect::{CONNECT_TIMEOUT, connect};
use super::evict::evict;
use super::inspect::inspect;
use super::last_words::LastWords;
use super::look::look;
use super::record::{read_fences, write_record};
use super::session::Session;
use super::worker::Worker;
use crate::node::link;
use crate::node::submission::Submissions;
use crate::node::{
    Evict, Eviction, FenceReading, Inspection, Keyspace, LockState, Look, NodeError, NodeRecord, RecordWrite,
};
use crate::task::Task;

/// The life of one connection that carries votes.
pub(super) type Link = link::Link<Session>;

/// Connects, and prepares the session.
pub(super) async fn open(address: &Address, synchronous: bool, last_words: &LastWords) -> Result<Link, NodeError> {
    let connected = connect(address).await?;
    let (session, wire) = connected.prepare(|client, id| Session::prepare(client, id, synchronous)).await?;
    let (session, gone, (submissions, receiver)) =
        (Arc::new(session), CancellationToken::new(), Submissions::channel());
    let worker = Worker::new(Arc::clone(&session), address.name.clone(), gone.clone(), last_words.clone());
    let worker = Task::spawn_on(&Handle::current(), unconstrained(worker.run(wire, receiver)));
    // Not ended with the link: its work begins then, and takes seconds at most.
    Handle::current().spawn(cancel_unanswered(address.clone(), Arc::clone(&session), gone.clone()));
    Ok(Link::new(session, submissions, worker, gone))
}

impl link::Session for Session {
    const LOST: &'static str = "connection lost";
    const INSPECTION_TIMEOUT: Duration = CONNECT_TIMEOUT;

    async fn inspect(&self, keyspace: &Keyspace, _: Option<&str>) -> Result<Inspection, NodeError> {
        inspect(self, keyspace).await
    }

    async fn write_record(&self, keyspace: &Keyspace, write: &RecordWrite) -> Result<Option<NodeRecord>, NodeError> {
        write_record(self, keyspace, write).await
    }

    async fn read_fences(&self, keyspace: &Keyspace, _: &str) -> Result<Option<FenceReading>, NodeError> {
        read_fences(self, keyspace).await
    }

    async fn look(&self, of: &Look) -> Result<Vec<LockState>, NodeError> {
        look(self, of).await
    }

    async fn evict(&self, holders: &Evict) -> Result<Eviction, NodeError> {
        evict(self, holders).await
    }

    fn is_ended_by(&self, error: &NodeError) -> bool {
        ends_session(error) || *error == NodeError::TimedOut
    }
}
