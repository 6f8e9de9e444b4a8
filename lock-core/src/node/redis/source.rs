//! What the connections of a node come from: the URL of a server, its sentinels, the seeds of a cluster, or a factory.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisResult};
use tokio::time::Instant;
#[cfg(feature = "tls")]
use tokio_rustls::rustls::ClientConfig;

use super::address::Server;
use super::classify::factory_error;
use super::connect::Connected;
use super::seeds::Seeds;
use super::sentinel::Sentinels;
use super::session::Session;
use crate::mutex::Mutex;
use crate::node::{Credentials, NodeError, NodeFuture};

/// A response timeout that never fires.
const NEVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// One master for all locks, or a cluster, where each shard has its own.
#[derive(Clone)]
pub(super) enum Source {
    Master(Master),
    Cluster(Seeds),
}

/// What leads to one master.
#[derive(Clone)]
pub(super) enum Master {
    Server(Box<Server>),
    Sentinels(Box<Sentinels>),
    Factory(Arc<Factory>),
}

/// Opens a connection by a configuration, which is for this one.
pub(super) type Factory = dyn Fn(AsyncConnectionConfig) -> NodeFuture<RedisResult<MultiplexedConnection>> + Send + Sync;

impl Source {
    /// Whether it names a login to the master; nothing if it asks for none.
    pub(super) fn has_login(&self) -> Option<bool> {
        match self {
            Self::Master(Master::Server(server)) => Some(server.has_login()),
            Self::Master(Master::Sentinels(sentinels)) => Some(sentinels.login.has_login()),
            Self::Master(Master::Factory(_)) => None,
            Self::Cluster(seeds) => Some(seeds.seeds.iter().any(Server::has_login)),
        }
    }

    /// Secures the connections by another configuration of TLS. False if none is to be secure.
    #[cfg(feature = "tls")]
    pub(super) fn set_tls(&mut self, config: &Arc<ClientConfig>) -> bool {
        let servers: Vec<&mut Server> = match self {
            Self::Master(Master::Server(server)) => vec![server],
            Self::Master(Master::Sentinels(sentinels)) => {
                sentinels.sentinels.iter_mut().chain([&mut sentinels.login]).collect()
            }
            Self::Master(Master::Factory(_)) => Vec::new(),
            Self::Cluster(seeds) => seeds.seeds.iter_mut().collect(),
        };
        let mut tls = servers.into_iter().filter_map(|server| server.tls.as_mut()).peekable();
        let is_any = tls.peek().is_some();
        tls.for_each(|tls| tls.set_config(config));
        is_any
    }

    /// Whether another server may take the place of the master, which lacks what did not reach it.
    pub(super) fn is_elected(&self) -> bool {
        matches!(self, Self::Master(Master::Sentinels(_)) | Self::Cluster(_))
    }
}

impl Master {
    /// Connects by a configuration that is for one connection, and logs in, as it says itself or with these credentials.
    pub(super) async fn connect(
        &self,
        credentials: Option<&Credentials>,
        config: AsyncConnectionConfig,
    ) -> Result<Connected, NodeError> {
        match self {
            Self::Server(server) => server.connect(credentials, config).await,
            Self::Sentinels(sentinels) => sentinels.connect(credentials, config).await,
            Self::Factory(factory) => {
                let mut connection = factory(config).await.map_err(|error| factory_error(&error))?;
                // The default is half a second. The engine has timeouts of its own, and a stall must show as a stall.
                connection.set_response_timeout(NEVER);
                // redis-rs has spawned its driver already.
                Ok(Connected { connection, driver: Box::pin(pending()) })
            }
        }
    }
}

/// The connections of a node, which its shards share: at most one for each server that it has led to, however many shards are on it, unless
/// it is `replicated`.
#[derive(Default)]
pub(super) struct Connections(Mutex<BTreeMap<String, Arc<Present>>>);

/// Held locked while a connection is opened, so that there are never two.
type Present = tokio::sync::Mutex<Opened>;

/// The connection to a server.
#[derive(Default)]
struct Opened {
    /// Empty if there is none.
    session: Weak<Session>,
    /// When none could be opened, and why.
    failed: Option<(Instant, NodeError)>,
}

impl Connections {
    /// The present connection to the server of this address if it is not lost, otherwise a new one.
    ///
    /// If another shard is opening one, this waits for it, and fails as that does. One after another, the shards would run out of time, and
    /// most of them not learn what is the matter.
    pub(super) async fn get_or_open(
        &self,
        address: &str,
        open: impl Future<Output = Result<Arc<Session>, NodeError>>,
    ) -> Result<Arc<Session>, NodeError> {
        let (present, asked) = (self.present(address), Instant::now());
        let mut present = present.lock().await;
        if let Some(session) = present.session.upgrade().filter(|session| !session.pushes.gone().is_cancelled()) {
            return Ok(session);
        }
        if let Some((_, error)) = present.failed.as_ref().filter(|(at, _)| *at > asked) {
            return Err(error.clone());
        }
        let opened = open.await;
        *present = match &opened {
            Ok(session) => Opened { session: Arc::downgrade(session), failed: None },
            Err(error) => Opened { session: Weak::new(), failed: Some((Instant::now(), error.clone())) },
        };
        opened
    }

    fn present(&self, address: &str) -> Arc<Present> {
        let mut all = self.0.lock();
        // Servers that nothing leads to any more are forgotten.
        all.retain(|other, present| other == address || Arc::strong_count(present) > 1 || is_used(present));
        Arc::clone(all.entry(address.to_owned()).or_default())
    }
}

/// Whether a link has the connection. One that is being opened is about to be used.
fn is_used(present: &Present) -> bool {
    present.try_lock().map_or(true, |opened| opened.session.strong_count() > 0)
}
