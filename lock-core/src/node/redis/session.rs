//! A connection that is ready for requests, and what is asked over it outside their order.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, Pipeline, Value};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::unconstrained;

use super::classify::{connect_error, is_no_script, node_error};
use super::connect::Connected;
use super::declared::DeclaresAll;
use super::pushes::Pushes;
use super::query::{query, read};
use super::replication::Replication;
use super::script::{LEDGER, ScriptRef};
use super::warnings::Warnings;
use super::worker::Worker;
use crate::node::NodeError;
use crate::node::submission::Submissions;
use crate::task::Task;

/// A connection that carries requests, and what the server says unasked. The shards of a node that lead to the same server share it, each
/// by a link of its own, unless the node is `replicated`.
pub(super) struct Session {
    pub(super) connection: MultiplexedConnection,
    /// Room for what is sent beside the requests: with more of that than the connection's buffer takes, a request that waits for room there
    /// would be overtaken by a later one.
    pub(super) beside: Semaphore,
    pub(super) pushes: Pushes,
    /// Whether the server says over this connection when it loses its data.
    pub(super) tells_loss: bool,
    pub(super) declares_all: DeclaresAll,
    pub(super) terms: Terms,
    pub(super) submissions: Submissions,
    pub(super) worker: Task,
}

/// How many commands are awaited beside the requests. Together they are far fewer than the fifty for which a connection has room at least.
const MAX_BESIDE: usize = 16;

/// What the sessions of a node have in common.
#[derive(Clone)]
pub(super) struct Terms {
    pub(super) replication: Option<Replication>,
    pub(super) tolerates_eviction: bool,
    /// Shared by all shards: what is the matter is told once.
    pub(super) warnings: Arc<Warnings>,
}

impl Session {
    /// Starts to use a connection, over which `pushes` arrive, and prepares it.
    pub(super) async fn open(connected: Connected, pushes: Pushes, terms: &Terms) -> Result<Arc<Self>, NodeError> {
        let Connected { connection, driver } = connected;
        let (submissions, inbox) = Submissions::channel();
        let declares_all = DeclaresAll::default();
        let worker =
            Worker::new(connection.clone(), driver, inbox, pushes.clone(), terms.replication, declares_all.clone());
        // Unconstrained: the worker lets other tasks run before it writes what they submit, and again when it waits for the socket or spins.
        let worker = Task::spawn_on(&Handle::current(), unconstrained(worker.run()));
        let tells_loss = prepare(&connection, pushes.must_arrive()).await?;
        terms.warnings.note_tells_loss(&tells_loss);
        Ok(Arc::new(Self {
            connection,
            beside: Semaphore::new(MAX_BESIDE),
            pushes,
            tells_loss: tells_loss.is_ok(),
            declares_all,
            terms: terms.clone(),
            submissions,
            worker,
        }))
    }

    /// Sends one command, and reads its answer, unless the server lost its data before it gave it.
    pub(super) async fn ask<T: FromRedisValue>(&self, command: Cmd) -> Result<T, NodeError> {
        let _room = self.beside.acquire().await;
        let answer = self.connection.clone().send_packed_command(&command).await;
        self.pushes.checked(answer.map_err(|error| connect_error(&error)).and_then(read))
    }

    /// Runs a script by its hash; if the server does not have it, by its source. The command learns whether it has to declare all of its
    /// keys. The answer is no error, and one that the server gave before it lost its data, if it did.
    pub(super) async fn run(&self, command: impl Fn(ScriptRef, bool) -> Cmd) -> Result<Value, NodeError> {
        let _room = self.beside.acquire().await;
        let (mut connection, mut reply) = (self.connection.clone(), Value::Nil);
        for script in [ScriptRef::Hash, ScriptRef::Source] {
            let command = command(script, self.declares_all.load(Ordering::Relaxed));
            reply = connection.send_packed_command(&command).await.map_err(|error| node_error(&error))?;
            if !is_no_script(&reply) {
                break;
            }
        }
        self.pushes.checked(read(reply))
    }
}

/// Loads the script, so that requests can refer to it by its hash; and if messages arrive over the connection, has the server say over
/// it when it loses its data. Returns whether it does.
///
/// A server tells every connection that tracks keys when all of them are deleted, by a full synchronization from another master or by
/// `FLUSHALL`: before it replies to anything else. This connection tracks none (`OPTIN`), so that is all that it is told.
async fn prepare(
    connection: &MultiplexedConnection,
    messages: Result<(), NodeError>,
) -> Result<Result<(), NodeError>, NodeError> {
    let mut pipeline = Pipeline::new();
    if messages.is_ok() {
        pipeline.cmd("CLIENT").arg("TRACKING").arg("ON").arg("OPTIN");
    }
    pipeline.cmd("SCRIPT").arg("LOAD").arg(LEDGER.source());
    let mut answers = query(connection, &pipeline).await?.into_iter();
    let mut answer = || read::<String>(answers.next().unwrap_or(Value::Nil)).map(drop);
    let tells_loss = messages.and_then(|()| answer());
    // One that does not take the script in advance gets its source with the first request that it does not know by its hash.
    _ = answer();
    Ok(tells_loss)
}
