//! What is different in ZooKeeper, as [docs/promises.md] says: a lock lives as long as the session of its process, one connection
//! carries everything, and delegations are refused.
//!
//! [docs/promises.md]: ../../../../docs/promises.md#zookeeper

use std::time::Duration;

use lock_core::ZooKeeperNode;
use lock_support::{ZooKeeperEnsemble, ZooKeeperServer};
use zookeeper_client::Client;

use super::super::MAX_TTL;
use super::super::fault::Kind;

/// Shorter than the session, as in production. A server on a busy machine waits for a core, and writes to files.
pub(super) const NODE_TIMEOUT: Duration = Duration::from_millis(300);
/// One server, and one transaction after the other.
pub(super) const SLACK: Duration = Duration::from_millis(200);
/// The ticks of an ensemble are the longer ones, and a server of either kind is told the same.
const TICK_TIME: Duration = ZooKeeperEnsemble::TICK_TIME;
/// The session, and the tick up to which servers round its end.
pub(super) const SESSION: Duration = MAX_TTL.saturating_add(TICK_TIME.saturating_mul(3));
/// Servers that were started again, or elected a leader, give each session its whole time once more.
pub(super) const SETTLE: Duration = SESSION;

pub(super) const FAULTS: [Kind; 3] = [Kind::KillServer, Kind::RestartServer, Kind::StopServer];

pub(super) const LACKS: [&str; 8] = [
    // No server forgets: what it acknowledged is in its files.
    "no server was quarantined",
    // Nobody delegates, because nobody may adopt.
    "no lock of the kind delegate",
    "no lock of the kind adopt",
    // One connection carries requests and wake-ups, which are the events of the session.
    "the servers did not send both kinds of wake-ups",
    "no wake-up was lost, or none was late",
    "no connection for wake-ups was cut",
    "no connection for requests was cut",
    // A majority of one node is all of it.
    "nobody of the crowd lost its connections in line",
];

pub(super) async fn start(servers: usize) -> Vec<ZooKeeperServer> {
    if servers == 1 { vec![ZooKeeperServer::start().await] } else { ZooKeeperEnsemble::start().await.servers }
}

/// The node of a service, by its ways to the servers.
pub(in super::super) fn node(servers: &[String]) -> ZooKeeperNode {
    ZooKeeperNode::from_address(&servers.join(",")).unwrap().tick_time(TICK_TIME)
}

pub(super) async fn inject(server: &mut ZooKeeperServer, kind: Kind) -> Result<(), String> {
    match kind {
        Kind::KillServer => server.kill(),
        Kind::RestartServer => {
            server.kill();
            server.start_again().await;
        }
        Kind::StopServer => server.pause(),
        other => return Err(format!("{other:?} is no fault of ZooKeeper")),
    }
    Ok(())
}

pub(super) async fn heal(server: &mut ZooKeeperServer, kind: Kind) {
    match kind {
        Kind::KillServer => server.start_again().await,
        Kind::StopServer => server.resume(),
        _ => {}
    }
}

pub(super) async fn lock_keys(server: &ZooKeeperServer) -> Vec<String> {
    let client = Client::connect(&server.address()).await.unwrap();
    let locks = "/locks/lock:/locks";
    client.sync(locks).await.unwrap();
    client.list_children(locks).await.unwrap()
}
