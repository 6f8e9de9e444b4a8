//! Servers that replicate another one, and take its place.

use super::RedisServer;
use crate::proxy::Proxy;
use crate::wait::eventually_async;

impl RedisServer {
    /// Starts a standby of this server, which replicates it through a proxy to it, and waits until it has caught up.
    pub async fn start_standby(&self, replication: &Proxy, arguments: &[&str]) -> Self {
        self.start_replica_at(replication.port(), arguments).await
    }

    /// Starts a replica of this server, and waits until it has caught up.
    pub async fn start_replica(&self) -> Self {
        self.start_replica_at(self.port, &[]).await
    }

    async fn start_replica_at(&self, port: u16, arguments: &[&str]) -> Self {
        // The default lets the first synchronization wait for five seconds, for further replicas.
        self.query::<String>("CONFIG SET repl-diskless-sync-delay 0").await;
        let replica_of = format!("127.0.0.1 {port}");
        let standby = Self::start_with(&[&["--replicaof", &replica_of], arguments].concat()).await;
        eventually_async("the standby has caught up", async || {
            standby.is_in_sync().await && standby.keys("*").await == self.keys("*").await
        })
        .await;
        // It has what was there. What comes after that it is sent when it has acknowledged that, which it does once a second.
        let mut connection = self.connect().await.unwrap();
        let mut written = redis::pipe();
        written.cmd("SET").arg("first").arg(1).ignore().cmd("WAIT").arg(1).arg(10_000).cmd("DEL").arg("first").ignore();
        let (acknowledged,): (usize,) = written.query_async(&mut connection).await.unwrap();
        assert!(acknowledged > 0, "the standby acknowledges nothing");
        standby
    }

    /// Makes a standby a master.
    pub async fn promote(&self) {
        self.query::<String>("REPLICAOF NO ONE").await;
    }

    /// Starts a copy of this server: a master with what this one has now.
    pub async fn start_copy(&self) -> Self {
        self.query::<String>("CONFIG SET repl-diskless-sync-delay 0").await;
        let copy = Self::start().await;
        copy.replicate(self).await;
        copy.promote().await;
        copy
    }

    /// Whether it is a replica whose connection to its primary stands.
    pub async fn is_in_sync(&self) -> bool {
        self.query::<String>("INFO replication").await.contains("master_link_status:up")
    }

    /// Whether it is no replica.
    pub async fn is_primary(&self) -> bool {
        self.query::<String>("INFO replication").await.contains("role:master")
    }

    /// Becomes a replica of another server, in the same process, and waits until it has the data of that one instead of its own.
    pub async fn replicate(&self, other: &Self) {
        self.query::<String>(&format!("REPLICAOF 127.0.0.1 {}", other.port)).await;
        eventually_async("the data is replicated", async || self.is_in_sync().await).await;
        // What it loaded from, which a restart without data must not find. A server with an append-only file has none.
        _ = std::fs::remove_file(self.directory.path().join("dump.rdb"));
    }

    /// Takes the address of a server that was killed.
    pub async fn take_address_of(&mut self, killed: &Self) {
        self.query::<String>(&format!("CONFIG SET port {}", killed.port)).await;
        self.port = killed.port;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_master_that_was_a_replica_has_the_data_of_its_copy() {
        let master = RedisServer::start().await;
        master.query::<String>("SET before 1").await;
        let copy = master.start_copy().await;
        master.query::<String>("SET after 1").await;
        master.replicate(&copy).await;
        master.promote().await;
        assert_eq!(master.keys("*").await, ["before"]);
        assert_eq!(master.query::<String>("SET now 1").await, "OK");
    }

    #[tokio::test]
    async fn a_promoted_standby_lacks_what_did_not_reach_it() {
        let master = RedisServer::start().await;
        master.query::<String>("SET before 1").await;
        let replication = Proxy::open(master.address()).await;
        let standby = master.start_standby(&replication, &[]).await;
        replication.hold();
        master.query::<String>("SET after 1").await;
        standby.promote().await;
        replication.pass();
        assert_eq!(standby.keys("*").await, ["before"]);
        assert_eq!(standby.query::<String>("SET now 1").await, "OK");
    }
}
