//! The stores: the kinds of servers in which locks are kept. What a run needs of each is in a file of its own.

mod redis;

use std::time::Duration;

use clap::ValueEnum;
use lock_support::{RedisCluster, RedisServer};

use super::fault::Kind;
use super::wakeups::Traffic;

/// A kind of server in which locks are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Store {
    /// redis-servers.
    Redis,
}

impl Store {
    /// How many servers there are, if it is not one alone.
    pub(super) fn quorum(self) -> usize {
        match self {
            Self::Redis => 5,
        }
    }

    pub(super) async fn start(self, servers: usize) -> Vec<Server> {
        match self {
            Self::Redis => RedisCluster::start(servers).await.servers.into_iter().map(Server::Redis).collect(),
        }
    }

    /// The faults of its servers.
    pub(super) fn faults(self) -> &'static [Kind] {
        match self {
            Self::Redis => &redis::FAULTS,
        }
    }

    /// The URL of a server behind this port of the machine.
    pub(super) fn url(self, port: u16) -> String {
        match self {
            Self::Redis => format!("redis://127.0.0.1:{port}"),
        }
    }

    /// What a service sends on connections of one kind, and on no other.
    pub(super) fn signs(self) -> [(&'static str, Traffic); 2] {
        match self {
            Self::Redis => redis::SIGNS,
        }
    }

    /// Its name in arguments.
    #[must_use]
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// One server, into which faults can be injected.
pub(super) enum Server {
    Redis(RedisServer),
}

impl Server {
    pub(super) fn address(&self) -> String {
        match self {
            Self::Redis(server) => server.address(),
        }
    }

    /// Begins a fault. Fails if the server does not do what it is told.
    pub(super) async fn inject(&mut self, kind: Kind, duration: Duration) -> Result<(), String> {
        match self {
            Self::Redis(server) => redis::inject(server, kind, duration).await,
        }
    }

    /// Ends a fault. Those that end on their own are over.
    pub(super) async fn heal(&mut self, kind: Kind) {
        match self {
            Self::Redis(server) => redis::heal(server, kind).await,
        }
    }

    /// Whether it votes: its record is for the memory that it has now, and has an epoch.
    pub(super) async fn votes(&self) -> bool {
        match self {
            Self::Redis(server) => redis::votes(server).await,
        }
    }

    /// The keys of the locks that are held on it.
    pub(super) async fn lock_keys(&self) -> Vec<String> {
        match self {
            Self::Redis(server) => redis::lock_keys(server).await,
        }
    }
}
