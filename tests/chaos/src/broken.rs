//! The broken variants: the nemesis exceeds the limits of the promises, or acts unseen by the histories, and the
//! checks must find it.

use std::time::Duration;

use futures_util::future::join_all;
use redis::RedisResult;
use tokio::time::{Instant, sleep};

use super::nemesis::Nemesis;
use super::store::Server;
use super::windows::QUIET;
use super::{PREFIX, QUICK_RESOURCE, RESOURCES, resource};

/// The pause before the queues are deleted again: much shorter than the time between two acquisitions.
const DELETE_PAUSE: Duration = Duration::from_millis(1);

impl Nemesis<'_, '_> {
    /// Takes a resource on all servers for `length`, whatever its holder. The histories record a quiet phase.
    ///
    /// The first in line polls for it, because the release of a stranger wakes nobody. It gets nothing before the keys expire.
    pub(super) async fn stranger(&mut self, length: Duration) {
        self.phase(QUIET);
        let take = format!("SET {PREFIX}{} stranger PX {}", resource(QUICK_RESOURCE), length.as_millis());
        for server in self.world.servers.iter().filter_map(Server::redis) {
            server.query::<String>(&take).await;
        }
        sleep(length).await;
    }

    /// Lets the crowd work while somebody listens on the channels of all waiters, of dead ones as well.
    pub(super) async fn ghosts(&mut self) {
        let listening = self.world.servers.iter().filter_map(Server::redis).map(async |server| {
            let client = redis::Client::open(format!("redis://{}", server.address()))?;
            let mut listener = client.get_async_pubsub().await?;
            listener.psubscribe(format!("{PREFIX}{{node}}:wakeups:*")).await?;
            RedisResult::Ok(listener)
        });
        let listening: Vec<_> = join_all(listening).await;
        self.crowd().await;
        let failed = listening.into_iter().filter_map(Result::err);
        self.world.problems.extend(failed.map(|error| format!("could not listen: {error}")));
    }

    /// Deletes the queues and the reservations on all servers for `length`, faster than anyone could use them. No lock
    /// is lost by it, and the histories record a quiet phase.
    pub(super) async fn no_queues(&mut self, length: Duration) {
        self.phase(QUIET);
        let mut delete = redis::cmd("DEL");
        for keys in (0..RESOURCES).map(|index| format!("{PREFIX}{{{}}}", resource(index))) {
            delete.arg(format!("{keys}:queue")).arg(format!("{keys}:reserved"));
        }
        let began = Instant::now();
        let deleting = self.world.servers.iter().filter_map(Server::redis).map(async |server| {
            let mut connection = server.connect().await?;
            while began.elapsed() < length {
                delete.query_async::<()>(&mut connection).await?;
                sleep(DELETE_PAUSE).await;
            }
            RedisResult::Ok(())
        });
        for deleted in join_all(deleting).await {
            self.world.problems.extend(deleted.err().map(|error| format!("could not delete the queues: {error}")));
        }
    }
}
