//! The engine and its peer, behind one interface.

use std::time::Duration;

use clap::ValueEnum;
use lock_core::LockManager;
use tokio::time::timeout;

use super::BoxError;
use super::advisory::{AdvisoryLock, AdvisoryLocks};
use super::lock_table::{LockRow, LockTable};
use super::recipe::{HeldZnode, Recipe};

/// The time to live of every lock.
pub(super) const TTL: Duration = Duration::from_secs(10);
/// The node timeout: the same as the response timeout of the peer's Redis client.
const NODE_TIMEOUT: Duration = Duration::from_millis(500);
/// Longer than any part takes.
const WAIT: Duration = Duration::from_secs(120);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Contender {
    /// This engine with its defaults, but for a longer `wait`, and the node timeout of the peer.
    Ours,
    /// This engine with all of its defaults, but for a longer `wait`.
    OursByDefault,
    /// This engine without renewal, and so without handover: a caller that does not renew requires the full time to
    /// live.
    OursWithoutHandover,
    /// The peer with its defaults: three tries, up to 200 ms apart. The benchmark then calls it again at once.
    Rslock,
    /// The peer with retry delays of up to 50 ms: of the settings tried, the one with the most cycles a second for one
    /// contended key.
    #[value(name = "rslock-50ms")]
    Rslock50ms,
    /// The peer with its shortest retry delay: below 1 ms, rounded down to whole milliseconds, which is none.
    #[value(name = "rslock-1ms")]
    Rslock1ms,
    /// The peer with retry delays of up to a second: the best of the settings tried when hundreds want one key.
    #[value(name = "rslock-1s")]
    Rslock1s,
}

impl Contender {
    /// The peer in all its settings.
    pub(super) const PEERS: [Self; 3] = [Self::Rslock, Self::Rslock50ms, Self::Rslock1ms];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ours | Self::OursByDefault => "ours",
            Self::OursWithoutHandover => "ours, without handover",
            Self::Rslock => "rslock",
            Self::Rslock50ms => "rslock at 50 ms",
            Self::Rslock1ms => "rslock at 1 ms",
            Self::Rslock1s => "rslock at 1 s",
        }
    }

    /// Connects and takes a few locks, so that all connections are open and all scripts are loaded.
    pub(super) async fn connect(self, masters: &[String]) -> Result<Locks, BoxError> {
        let peer = |pause: Option<Duration>| {
            let mut locks = rslock::LockManager::new(masters.to_vec());
            if let Some(pause) = pause {
                locks.set_retry(u32::MAX, pause);
            }
            Locks::Rslock(locks)
        };
        let locks = match self {
            Self::Ours | Self::OursWithoutHandover => {
                let builder = LockManager::builder().redis(masters).ttl(TTL).wait(WAIT).node_timeout(NODE_TIMEOUT);
                Locks::Ours(builder.max_waiters(100_000).renew(self == Self::Ours).connect().await?)
            }
            Self::OursByDefault => Locks::Ours(LockManager::builder().redis(masters).wait(WAIT).connect().await?),
            Self::Rslock => peer(None),
            Self::Rslock50ms => peer(Some(Duration::from_millis(50))),
            // A shorter delay makes it panic.
            Self::Rslock1ms => peer(Some(Duration::from_millis(1))),
            Self::Rslock1s => peer(Some(Duration::from_secs(1))),
        };
        for _ in 0..3 {
            locks.lock(&super::fresh("connected")).await?.release().await?;
        }
        Ok(locks)
    }
}

/// A connected contender. Clones share the connections.
#[derive(Clone)]
pub(super) enum Locks {
    Ours(LockManager),
    Rslock(rslock::LockManager),
    Advisory(AdvisoryLocks),
    Table(LockTable),
    Recipe(Recipe),
}

/// A held lock.
pub(super) enum Held {
    Ours(lock_core::LockGuard),
    Rslock(rslock::LockGuard),
    Advisory(AdvisoryLock),
    Table(LockRow),
    Recipe(HeldZnode),
}

impl Locks {
    /// Takes a lock, waiting for it.
    pub(super) async fn lock(&self, resource: &str) -> Result<Held, BoxError> {
        Ok(match self {
            Self::Ours(locks) => Held::Ours(locks.lock(resource).acquire().await?),
            Self::Rslock(locks) => Held::Rslock(locks.acquire(resource, TTL).await?),
            Self::Advisory(locks) => Held::Advisory(locks.lock(resource).await?),
            Self::Table(locks) => Held::Table(locks.lock(resource).await?),
            Self::Recipe(locks) => Held::Recipe(locks.lock(resource).await?),
        })
    }

    /// Takes a lock, waiting for it for a limited time.
    pub(super) async fn lock_within(&self, resource: &str, wait: Duration) -> Result<Held, BoxError> {
        if let Self::Ours(locks) = self {
            return Ok(Held::Ours(locks.lock(resource).wait(wait).acquire().await?));
        }
        timeout(wait, self.lock(resource)).await?
    }
}

impl Held {
    /// Releases the lock, and waits for the replies.
    pub(super) async fn release(self) -> Result<(), BoxError> {
        match self {
            Self::Ours(guard) => _ = guard.release().await?,
            Self::Rslock(guard) => guard.release().await,
            Self::Advisory(lock) => lock.release().await?,
            Self::Table(row) => row.release().await?,
            Self::Recipe(znode) => znode.release().await?,
        }
        Ok(())
    }

    /// Releases the lock in the background. The peers cannot: a task awaits the release.
    pub(super) fn release_in_background(self) {
        match self {
            Self::Ours(guard) => drop(guard),
            peer => drop(tokio::spawn(peer.release())),
        }
    }
}
