//! What is beyond the promises, or behind the back of the histories: done on purpose, so that the checks find something.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::node::{Keyspace, LockKeys};
use redis::RedisResult;
use tokio::time::{Instant, sleep};

use super::fault::{Fault, Kind};
use super::healthy::QUIET;
use super::nemesis::Nemesis;
use super::{HURRIED, PREFIX, RESOURCES, SERVICES, resource};

/// How often everything is forgotten, and the pause before that happens again.
const AMNESIAS: usize = 6;
const AMNESIA: Duration = Duration::from_millis(500);
/// The pause before the queues are deleted again: much less than passes between two turns.
const FORGETTING: Duration = Duration::from_millis(1);

impl Nemesis<'_, '_> {
    /// Makes all servers forget, again and again: more than the promises allow.
    pub(super) async fn amnesia(&mut self) {
        self.phase("amnesia");
        for _ in 0..AMNESIAS {
            // While nobody looks: a service that finds a server that remembers puts the others into quarantine.
            let stop =
                |service| Fault { kind: Kind::StopService, server: None, service: Some(service), lasts: AMNESIA };
            for service in 0..SERVICES {
                self.world.hurt(&stop(service)).await;
            }
            for server in 0..self.world.servers.len() {
                let fault =
                    Fault { kind: Kind::FlushServer, server: Some(server), service: None, lasts: Duration::ZERO };
                self.world.hurt(&fault).await;
            }
            for service in 0..SERVICES {
                self.world.heal(&stop(service)).await;
            }
            sleep(AMNESIA).await;
        }
    }

    /// Takes a resource for so long, on all servers, whoever has it. Looks like a quiet phase in every history.
    pub(super) async fn stranger(&mut self, length: Duration) {
        self.phase(QUIET);
        let take = format!("SET {} stranger PX {}", keys(HURRIED).lock_key(), length.as_millis());
        for server in &self.world.servers {
            server.query::<String>(&take).await;
        }
        sleep(length).await;
    }

    /// Deletes the queues and the turns for so long, on all servers, faster than anyone could use them. Nobody holds less for
    /// that, and it looks like a quiet phase, too.
    pub(super) async fn no_queues(&mut self, length: Duration) {
        self.phase(QUIET);
        let mut delete = redis::cmd("DEL");
        for keys in (0..RESOURCES).map(keys) {
            let beside = |what: &str| format!("{{{}}}:{what}", keys.lock_key());
            delete.arg(beside("queue")).arg(beside("turn"));
        }
        let began = Instant::now();
        let deleting = self.world.servers.iter().map(async |server| {
            let mut connection = server.connect().await?;
            while began.elapsed() < length {
                delete.query_async::<()>(&mut connection).await?;
                sleep(FORGETTING).await;
            }
            RedisResult::Ok(())
        });
        for deleted in join_all(deleting).await {
            self.world.troubles.extend(deleted.err().map(|error| format!("the queues were not deleted: {error}")));
        }
    }
}

fn keys(number: usize) -> LockKeys {
    LockKeys::new(&Arc::new(Keyspace::new(PREFIX)), &resource(number))
}
