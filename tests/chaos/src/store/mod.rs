//! The stores: the kinds of servers in which locks are kept. What a run needs of each is in a file of its own.

pub(super) mod cluster;
pub(super) mod postgres;
mod redis;
pub(super) mod zookeeper;

use std::time::Duration;

use clap::ValueEnum;
use futures_util::future::join_all;
use lock_support::{PostgresServer, RedisServer, ZooKeeperServer};

use self::cluster::Cluster;
use super::fault::Kind;
use super::wakeups::Traffic;
use super::{MAX_TTL, NODE_TIMEOUT};

/// A kind of server in which locks are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Store {
    /// redis-servers.
    Redis,
    /// Redis Clusters: three primaries, with a replica each.
    Cluster,
    /// PostgreSQL servers.
    Postgres,
    /// The servers of a ZooKeeper ensemble.
    Zookeeper,
}

impl Store {
    /// How many servers there are, if it is not one alone.
    pub(super) fn quorum(self) -> usize {
        match self {
            Self::Redis => 5,
            Self::Cluster | Self::Postgres | Self::Zookeeper => 3,
        }
    }

    /// How long a service waits for a server to reply. A slower one is held to the same times all the same.
    pub(super) fn node_timeout(self) -> Duration {
        match self {
            Self::Redis => NODE_TIMEOUT,
            // The default for PostgreSQL. A server does more for a vote there; and of clusters there are many servers, on a busy machine.
            Self::Cluster | Self::Postgres => NODE_TIMEOUT * 2,
            Self::Zookeeper => zookeeper::NODE_TIMEOUT,
        }
    }

    /// How long a lock lives, at most, after its process was killed.
    pub(super) fn outlives(self) -> Duration {
        match self {
            Self::Redis | Self::Cluster | Self::Postgres => MAX_TTL,
            Self::Zookeeper => zookeeper::SESSION,
        }
    }

    /// Whether a process that was killed while it waited stays in line for a while.
    pub(super) fn keeps_the_killed_in_line(self) -> bool {
        self == Self::Zookeeper
    }

    /// How much longer than elsewhere a fault has effects after it has healed.
    pub(super) fn settle(self) -> Duration {
        match self {
            Self::Redis | Self::Cluster | Self::Postgres => Duration::ZERO,
            Self::Zookeeper => zookeeper::SETTLE,
        }
    }

    /// What a run on such servers, or on one alone, cannot contain.
    pub(super) fn lacks(self, alone: bool) -> &'static [&'static str] {
        match self {
            Self::Redis | Self::Cluster if alone => &redis::LACKS_ALONE,
            Self::Redis | Self::Cluster => &redis::LACKS,
            Self::Postgres => &[],
            Self::Zookeeper => &zookeeper::LACKS,
        }
    }

    /// Whether a lock can be adopted.
    pub(super) fn adopts(self) -> bool {
        self != Self::Zookeeper
    }

    /// Whether one connection carries requests, and wake-ups between the replies.
    pub(super) fn calls_between_replies(self) -> bool {
        matches!(self, Self::Redis | Self::Cluster)
    }

    /// Whether a server that was stopped goes on with what it had. The servers of a cluster may take each other for dead.
    pub(super) fn keeps_data_while_stopped(self) -> bool {
        self != Self::Cluster
    }

    /// By how much a round of votes may be slower on a busy machine than in memory.
    pub(super) fn slack(self) -> Duration {
        match self {
            Self::Redis => Duration::ZERO,
            // Every client has a process of its own on the server, and waits for a core. So do the many servers of clusters.
            Self::Cluster | Self::Postgres => Duration::from_millis(100),
            Self::Zookeeper => zookeeper::SLACK,
        }
    }

    pub(super) async fn start(self, servers: usize, services: usize) -> Vec<Server> {
        match self {
            Self::Redis => {
                let users = redis::users(services);
                let arguments: Vec<&str> = users.iter().map(String::as_str).collect();
                join_all((0..servers).map(|_| async { Server::Redis(RedisServer::start_with(&arguments).await) })).await
            }
            Self::Cluster => {
                let users = redis::users(services);
                let arguments: Vec<&str> = users.iter().map(String::as_str).collect();
                join_all((0..servers).map(|_| async { Server::Cluster(Cluster::start(&arguments).await) })).await
            }
            Self::Postgres => {
                let start = async || Server::Postgres(PostgresServer::start_with_clock(&postgres::ARGUMENTS).await);
                join_all((0..servers).map(|_| start())).await
            }
            Self::Zookeeper => zookeeper::start(servers).await.into_iter().map(Server::Zookeeper).collect(),
        }
    }

    /// The faults of its servers, and of connections that carry one kind of traffic alone.
    pub(super) fn faults(self) -> Vec<Kind> {
        match self {
            Self::Redis => [&redis::FAULTS[..], &[Kind::CutRequests], self.faults_of_wakeups()].concat(),
            Self::Cluster => [&cluster::FAULTS[..], &[Kind::CutRequests], self.faults_of_wakeups()].concat(),
            Self::Postgres => [&postgres::FAULTS[..], &Kind::OF_ONE_TRAFFIC].concat(),
            Self::Zookeeper => zookeeper::FAULTS.to_vec(),
        }
    }

    /// The faults after which a service gets no wake-ups, and nothing else is wrong.
    pub(super) fn faults_of_wakeups(self) -> &'static [Kind] {
        match self {
            // One connection carries everything, so that of wake-ups cannot be cut alone.
            Self::Redis | Self::Cluster => &[Kind::HoldWakeups, Kind::LoseWakeups],
            Self::Postgres | Self::Zookeeper => &Kind::OF_WAKEUPS,
        }
    }

    /// Whether a user may be kept from sending wake-ups.
    pub(super) fn has_a_right_to_publish(self) -> bool {
        matches!(self, Self::Redis | Self::Cluster)
    }

    /// Where a service finds a server that is behind these ports of the machine.
    pub(super) fn url(self, ports: &[u16], service: usize) -> String {
        let hosts: Vec<_> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let hosts = hosts.join(",");
        match self {
            Self::Redis | Self::Cluster => format!("redis://{}:any@{hosts}", redis::user(service)),
            Self::Postgres => format!("postgres://postgres@{hosts}/postgres"),
            Self::Zookeeper => hosts,
        }
    }

    /// What a service sends on connections of one kind, and on no other. Nothing, if one connection carries everything.
    pub(super) fn signs(self) -> &'static [(&'static str, Traffic)] {
        match self {
            Self::Redis | Self::Cluster => &redis::SIGNS,
            Self::Postgres => &postgres::SIGNS,
            Self::Zookeeper => &[],
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
    Cluster(Cluster),
    Postgres(PostgresServer),
    Zookeeper(ZooKeeperServer),
}

impl Server {
    /// The server, if it is a redis-server.
    pub(super) fn redis(&self) -> Option<&RedisServer> {
        match self {
            Self::Redis(server) => Some(server),
            Self::Cluster(_) | Self::Postgres(_) | Self::Zookeeper(_) => None,
        }
    }

    /// The server, if it is one of PostgreSQL.
    pub(super) fn postgres(&self) -> Option<&PostgresServer> {
        match self {
            Self::Postgres(server) => Some(server),
            Self::Redis(_) | Self::Cluster(_) | Self::Zookeeper(_) => None,
        }
    }

    /// Where it is: a cluster is in several places.
    pub(super) fn addresses(&self) -> Vec<String> {
        match self {
            Self::Redis(server) => vec![server.address()],
            Self::Cluster(cluster) => cluster.addresses(),
            Self::Postgres(server) => vec![format!("127.0.0.1:{}", server.port())],
            Self::Zookeeper(server) => vec![server.address()],
        }
    }

    /// Begins a fault. Fails if the server does not do what it is told.
    pub(super) async fn inject(&mut self, kind: Kind, duration: Duration) -> Result<(), String> {
        match self {
            Self::Redis(server) => redis::inject(server, kind, duration).await,
            Self::Cluster(cluster) => cluster.inject(kind, duration).await,
            Self::Postgres(server) => postgres::inject(server, kind).await,
            Self::Zookeeper(server) => zookeeper::inject(server, kind).await,
        }
    }

    /// Ends a fault. Those that end on their own are over.
    pub(super) async fn heal(&mut self, kind: Kind) {
        match self {
            Self::Redis(server) => redis::heal(server, kind).await,
            Self::Cluster(cluster) => cluster.heal(kind).await,
            Self::Postgres(server) => postgres::heal(server, kind).await,
            Self::Zookeeper(server) => zookeeper::heal(server, kind).await,
        }
    }

    /// Takes the right to `PUBLISH` from a service, or gives it back. A server that does not run has neither.
    pub(super) async fn allow_publish(&self, service: usize, allowed: bool) -> Result<(), String> {
        match self {
            Self::Redis(server) => redis::allow_publish(server, service, allowed).await,
            Self::Cluster(cluster) => cluster.allow_publish(service, allowed).await,
            Self::Postgres(_) | Self::Zookeeper(_) => Err("it knows no such right".to_owned()),
        }
    }

    /// Whether it votes: its record is for the memory that it has now, and has an epoch. One of ZooKeeper: whether it is part of its
    /// ensemble.
    pub(super) async fn votes(&self) -> bool {
        match self {
            Self::Redis(server) => redis::votes(server).await,
            Self::Cluster(cluster) => cluster.votes().await,
            Self::Postgres(server) => postgres::votes(server).await,
            Self::Zookeeper(server) => server.mode().is_some(),
        }
    }

    /// The keys of the locks that are held on it.
    pub(super) async fn lock_keys(&self) -> Vec<String> {
        match self {
            Self::Redis(server) => redis::lock_keys(server).await,
            Self::Cluster(cluster) => cluster.lock_keys().await,
            Self::Postgres(server) => postgres::lock_keys(server).await,
            Self::Zookeeper(server) => zookeeper::lock_keys(server).await,
        }
    }
}
