//! The engine and its peer, behind one face.

use std::time::Duration;

use clap::ValueEnum;
use lock_core::LockManager;

use super::Failure;

/// The time to live of every lock.
pub(super) const TTL: Duration = Duration::from_secs(10);
/// How long one master is awaited: as long as the peer's Redis client awaits it.
const NODE_TIMEOUT: Duration = Duration::from_millis(500);
/// Longer than any part goes on.
const WAIT: Duration = Duration::from_secs(120);

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Contender {
    /// This engine, as it comes, but for patience: whoever waits waits to the end.
    Ours,
    /// This engine where no lock is renewed, and so none handed over: who does not renew wants a whole time to live.
    OursAlone,
    /// The peer as it comes: three tries with up to 200 ms in between, and then at once again.
    Rslock,
    /// The peer with pauses of up to 50 ms: of the settings tried, the one with the most cycles a second where many want one
    /// key.
    #[value(name = "rslock-50ms")]
    Rslock50ms,
    /// The peer with the shortest pauses that it can be set to: below 1 ms, in whole milliseconds, which is none.
    #[value(name = "rslock-1ms")]
    Rslock1ms,
}

impl Contender {
    /// The peer, in all its settings.
    pub(super) const PEERS: [Self; 3] = [Self::Rslock, Self::Rslock50ms, Self::Rslock1ms];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::OursAlone => "ours, none handed over",
            Self::Rslock => "rslock",
            Self::Rslock50ms => "rslock at 50 ms",
            Self::Rslock1ms => "rslock at 1 ms",
        }
    }

    /// Connects, and takes a first lock, so that all connections stand and all scripts are loaded.
    pub(super) async fn connect(self, masters: &[String]) -> Result<Locks, Failure> {
        let peer = |pause: Option<Duration>| {
            let mut locks = rslock::LockManager::new(masters.to_vec());
            if let Some(pause) = pause {
                locks.set_retry(u32::MAX, pause);
            }
            Locks::Rslock(locks)
        };
        let locks = match self {
            Self::Ours | Self::OursAlone => {
                let builder = LockManager::builder().redis(masters).ttl(TTL).wait(WAIT).node_timeout(NODE_TIMEOUT);
                Locks::Ours(builder.max_waiters(100_000).renew(self == Self::Ours).connect().await?)
            }
            Self::Rslock => peer(None),
            Self::Rslock50ms => peer(Some(Duration::from_millis(50))),
            // Less makes it panic.
            Self::Rslock1ms => peer(Some(Duration::from_millis(1))),
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
}

/// A lock that is held.
pub(super) enum Held {
    Ours(lock_core::LockGuard),
    Rslock(rslock::LockGuard),
}

impl Locks {
    /// Takes a lock, waiting for it.
    pub(super) async fn lock(&self, resource: &str) -> Result<Held, Failure> {
        Ok(match self {
            Self::Ours(locks) => Held::Ours(locks.lock(resource).acquire().await?),
            Self::Rslock(locks) => Held::Rslock(locks.acquire(resource, TTL).await?),
        })
    }
}

impl Held {
    /// Releases, and waits for the answer.
    pub(super) async fn release(self) -> Result<(), Failure> {
        match self {
            Self::Ours(guard) => _ = guard.release().await?,
            Self::Rslock(guard) => guard.release().await,
        }
        Ok(())
    }

    /// Releases in the background. The peer does not: a task does it in its place.
    pub(super) fn let_go(self) {
        match self {
            Self::Ours(guard) => drop(guard),
            Self::Rslock(guard) => drop(tokio::spawn(guard.release())),
        }
    }
}
