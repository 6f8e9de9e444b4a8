//! Permits as others have them, after the way of `RPermitExpirableSemaphore` of Redisson: one master, a sorted set of the permits by the
//! ends of their leases, one script to take one and one to return it, and a message to those that wait. There is no fence, no queue, and no
//! majority.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use lock_support::RedisServer;
use redis::Script;
use redis::aio::MultiplexedConnection;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::contender::TTL;
use super::{BoxError, fresh};

/// Takes a permit: returns 0, or for how many milliseconds there is none unless one is returned.
const TAKE: &str = "
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
    if redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[2]) then
        redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1])
        redis.call('PEXPIRE', KEYS[1], ARGV[3])
        return 0
    end
    return redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] - now";
/// Returns a permit, and tells every process that waits.
const RETURN: &str = "
    if redis.call('ZREM', KEYS[1], ARGV[1]) == 1 then redis.call('PUBLISH', KEYS[1], '1') end";

/// The permits of one resource, as a process has them: a connection, and another one on which it hears of those that are returned. Clones
/// share it.
#[derive(Clone)]
pub(super) struct SortedSet(Arc<Process>);

struct Process {
    connection: MultiplexedConnection,
    resource: String,
    permits: u32,
    /// Wakes one of those that wait here, for each message.
    returned: Arc<Notify>,
    next_id: AtomicU64,
    id: String,
    take: Script,
    give_back: Script,
}

/// A permit that was taken.
pub(super) struct SortedSetPermit {
    set: SortedSet,
    id: String,
}

impl SortedSet {
    pub(super) async fn connect(server: &RedisServer, resource: &str, permits: u32) -> Result<Self, BoxError> {
        let mut messages = redis::Client::open(server.url())?.get_async_pubsub().await?;
        messages.subscribe(resource).await?;
        let returned = Arc::new(Notify::new());
        let heard = Arc::clone(&returned);
        tokio::spawn(async move {
            let mut messages = messages.into_on_message();
            while messages.next().await.is_some() {
                heard.notify_one();
            }
        });
        Ok(Self(Arc::new(Process {
            connection: server.connect().await?,
            resource: resource.to_owned(),
            permits,
            returned,
            next_id: AtomicU64::new(0),
            id: fresh("process"),
            take: Script::new(TAKE),
            give_back: Script::new(RETURN),
        })))
    }

    /// Takes a permit, waiting for it.
    pub(super) async fn acquire(&self) -> Result<SortedSetPermit, BoxError> {
        let id = format!("{}-{}", self.0.id, self.0.next_id.fetch_add(1, Ordering::Relaxed));
        loop {
            // Before it tries, so that no message in between is missed.
            let mut returned = pin!(self.0.returned.notified());
            returned.as_mut().enable();
            let mut take = self.0.take.key(&self.0.resource);
            take.arg(&id).arg(self.0.permits).arg(u64::try_from(TTL.as_millis())?);
            match take.invoke_async(&mut self.0.connection.clone()).await? {
                0_u64 => return Ok(SortedSetPermit { set: self.clone(), id }),
                // A permit whose holder does not return it is free when its lease ends.
                left => _ = timeout(Duration::from_millis(left), returned).await,
            }
        }
    }
}

impl SortedSetPermit {
    pub(super) async fn release(self) -> Result<(), BoxError> {
        let Self { set: SortedSet(process), id } = self;
        let mut give_back = process.give_back.key(&process.resource);
        Ok(give_back.arg(id).invoke_async(&mut process.connection.clone()).await?)
    }
}
