use std::fmt;
use std::future::{Future, pending};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::RedisResult;
use redis::aio::MultiplexedConnection;
use tokio_util::sync::CancellationToken;

use super::address::{Address, InvalidUrl};
use super::connect::{Connected, connect};
use super::pipeline::Handle;
use super::{classify, inspect, wakeups};
use crate::node::{Establish, Inspection, Keyspace, LockNode, NodeError, NodeFuture, ReplySender, Request, Wakeup};
use crate::random::{Epoch, WaiterId};

/// How long connecting may take.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// A response timeout that does not come.
const NEVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Opens a connection; one that can tell that it was lost ends the token.
type Factory = dyn Fn(CancellationToken) -> NodeFuture<RedisResult<Connected>> + Send + Sync;

/// One Redis or Valkey server as a master, from a URL (`redis://`, `unix://`) or from a factory of connections.
///
/// All requests go over one connection, and over a second one the server calls a process that waits. When the first is lost, or
/// nothing moves on it for a second though answers are due, it is given up and a new one is opened at the next inspection; the
/// engine does that on its own, with a randomised backoff.
///
/// For one [`LockManager`](crate::LockManager): two that share it would take each other's admission away, and wait for each
/// other's calls.
///
/// # Rights
///
/// With ACLs, the user needs the keys under the prefix and in braces around it (`~lock:*`, `~{lock:*`) and:
/// `+select +info +time +script|load +evalsha +eval +mget +set +del +pttl +pexpire +hget +hmget +hset +rpush +blpop`
/// (`+select` only for a database other than 0). With `+config|get`, a server that has every write on disk (`appendfsync always`) need not sit
/// out a quarantine after a restart. Without the
/// keys in braces there are locks, but no queues between processes; without `+blpop` nobody is called when it is his turn.
pub struct RedisNode(Arc<Shared>);

pub(super) struct Shared {
    name: String,
    factory: Box<Factory>,
    link: Mutex<Option<Link>>,
    /// Held while a connection is opened, so that there is never a second one.
    opening: tokio::sync::Mutex<()>,
    /// The second connection, on which the server calls this process when it is its turn. It is opened when someone waits.
    pub(super) listening: tokio::sync::Mutex<Option<MultiplexedConnection>>,
}

/// One connection's life.
#[derive(Clone)]
struct Link {
    connection: MultiplexedConnection,
    requests: Handle,
    gone: CancellationToken,
    /// The epoch that an inspection over this very connection met, with a record of the server that is behind it.
    ///
    /// Nothing is sent for another epoch. Without this, a vote could slip through a new connection before the server behind
    /// it was looked over: it may have restarted from an old state that has the record, but not the locks.
    epoch: Arc<Mutex<Option<Epoch>>>,
}

impl Link {
    fn epoch(&self) -> MutexGuard<'_, Option<Epoch>> {
        self.epoch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RedisNode {
    /// The server at a URL: `redis://[user:password@]host[:port][/database]` or `unix:///path`. Does not connect yet.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`] if the URL can not be read, or asks for TLS.
    pub fn from_url(url: &str) -> Result<Self, InvalidUrl> {
        let Address { name, info } = Address::parse(url)?;
        Ok(Self::new(name, move |gone| connect(info.clone(), gone)))
    }

    /// A server that `factory` connects to: over TLS, through a Sentinel, in a simulated network. It is called at every
    /// connection and reconnection and must yield a new, unshared connection each time: the order of requests rests on it.
    /// It must write at once what it is given: without a limit of concurrency (`set_concurrency_limit`), and with a pipeline
    /// buffer of 50 or more, as redis-rs has by default. `name` is what errors, logs and health call the server.
    pub fn from_factory<F, Fut>(name: impl Into<String>, factory: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = RedisResult<MultiplexedConnection>> + Send + 'static,
    {
        Self::new(name.into(), move |_| {
            let connecting = factory();
            async {
                let mut connection = connecting.await?;
                // By default it has half a second. The engine has timeouts of its own, and a stall must show as one.
                connection.set_response_timeout(NEVER);
                // Its driver is a task of its own already.
                Ok(Connected { connection, driver: Box::pin(pending()) })
            }
        })
    }

    fn new<Fut>(name: String, connect: impl Fn(CancellationToken) -> Fut + Send + Sync + 'static) -> Self
    where
        Fut: Future<Output = RedisResult<Connected>> + Send + 'static,
    {
        let factory = Box::new(move |gone| -> NodeFuture<_> { Box::pin(connect(gone)) });
        Self(Arc::new(Shared {
            name,
            factory,
            link: Mutex::new(None),
            opening: tokio::sync::Mutex::default(),
            listening: tokio::sync::Mutex::default(),
        }))
    }
}

impl Shared {
    /// The present connection, or a new one on which the script is loaded.
    async fn open(&self) -> Result<Link, NodeError> {
        let _opening = self.opening.lock().await;
        if let Some(link) = self.link().clone().filter(|link| !link.gone.is_cancelled()) {
            return Ok(link);
        }
        let gone = CancellationToken::new();
        let Connected { mut connection, driver } = self.connect(gone.clone()).await?;
        let requests = Handle::open(connection.clone(), driver, gone.clone());
        inspect::load_script(&mut connection).await?;
        let link = Link { connection, requests, gone, epoch: Arc::default() };
        *self.link() = Some(link.clone());
        Ok(link)
    }

    /// A new connection. One that can tell that it was lost ends `gone`.
    pub(super) async fn connect(&self, gone: CancellationToken) -> Result<Connected, NodeError> {
        match tokio::time::timeout(CONNECT_TIMEOUT, (self.factory)(gone)).await {
            Ok(connected) => connected.map_err(|error| classify::connect_error(&error)),
            Err(_) => Err(NodeError::Unreachable { reason: "no answer while connecting".into() }),
        }
    }

    fn link(&self) -> MutexGuard<'_, Option<Link>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LockNode for RedisNode {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn inspect(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Inspection, NodeError>> {
        let (node, keyspace) = (Arc::clone(&self.0), Arc::clone(keyspace));
        Box::pin(async move {
            let mut link = node.open().await?;
            let looked = inspect::inspect(&mut link.connection, &keyspace);
            let seen = tokio::time::timeout(CONNECT_TIMEOUT, looked).await.unwrap_or(Err(NodeError::TimedOut));
            match &seen {
                Ok(seen) => {
                    let own_record = seen.record.as_ref().filter(|record| record.run_id == seen.run_id);
                    *link.epoch() = own_record.map(|record| record.epoch);
                }
                // Not every connection tells by itself that it was lost: one from a factory need not.
                Err(NodeError::TimedOut | NodeError::Unreachable { .. }) => link.gone.cancel(),
                Err(_) => {}
            }
            seen
        })
    }

    fn establish(&self, keyspace: &Arc<Keyspace>, record: Establish) -> NodeFuture<Result<bool, NodeError>> {
        let (link, keyspace) = (self.0.link().clone(), Arc::clone(keyspace));
        Box::pin(async move {
            // On the connection of the inspection that led here: behind a new one there may be a new server.
            match link.filter(|link| !link.gone.is_cancelled()) {
                Some(mut link) => inspect::establish(&mut link.connection, &keyspace, &record).await,
                None => Err(NodeError::Unreachable { reason: "connection lost".into() }),
            }
        })
    }

    fn submit(&self, request: Request, reply_to: ReplySender) {
        // Not sent while the link is locked: whoever sends may have to write, too.
        let requests = match &*self.0.link() {
            Some(link) if *link.epoch() == Some(request.epoch) => Ok(link.requests.clone()),
            Some(_) => Err(NodeError::Unadmitted),
            None => Err(NodeError::Unreachable { reason: "not connected yet".into() }),
        };
        match requests {
            Ok(requests) => requests.send(request, reply_to),
            Err(error) => reply_to.send(Err(error)),
        }
    }

    fn wakeups(&self, keyspace: &Arc<Keyspace>, waiter: WaiterId) -> NodeFuture<Result<Vec<Wakeup>, NodeError>> {
        let (node, list) = (Arc::clone(&self.0), keyspace.wakeups(waiter));
        Box::pin(async move { Ok(wakeups::listen(&node, &list).await?.into_iter().collect()) })
    }

    fn disconnected(&self) -> NodeFuture<()> {
        let gone = self.0.link().as_ref().map(|link| link.gone.clone());
        Box::pin(async move {
            if let Some(gone) = gone {
                gone.cancelled().await;
            }
        })
    }
}

impl fmt::Debug for RedisNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisNode").field("name", &self.0.name).finish_non_exhaustive()
    }
}
