use std::any::Any;
use std::time::Duration;

use lock_core::{Lease, LockError, LockManager};
use tokio::time::sleep;

use crate::wait::eventually_async;

/// A way to hold a lock, for tests of what all of them promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// To write.
    Write,
    /// To read.
    Read,
    /// The only slot of a resource.
    Permit,
    /// Two locks at once.
    Set,
    /// From the caller before it in the same process.
    HandedOver,
    /// Two readers of one process, which share a hold.
    SharedReads,
    /// Delegated, and adopted by the same manager.
    Delegated,
    /// By a guard that outlives the one that acquired it.
    Session,
    /// Until its time to live is over.
    NotRenewed,
}

/// A lock that is held in some way. Dropping it releases, first what was acquired first.
pub struct Held {
    _guards: Vec<Box<dyn Any + Send>>,
    leases: Vec<Lease>,
}

impl Held {
    fn new(lease: Lease, guard: impl Any + Send) -> Self {
        Self { _guards: vec![Box::new(guard)], leases: vec![lease] }
    }

    fn and(mut self, other: Self) -> Self {
        self._guards.extend(other._guards);
        self.leases.extend(other.leases);
        self
    }

    /// Whether all of its leases are valid.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.leases.iter().all(Lease::is_valid)
    }

    /// Whether any of its leases is valid.
    #[must_use]
    pub fn is_valid_in_part(&self) -> bool {
        self.leases.iter().any(Lease::is_valid)
    }

    /// Resolves when all of its leases have ended.
    pub async fn lost(&self) {
        for lease in &self.leases {
            lease.lost().await;
        }
    }

    /// The leases.
    #[must_use]
    pub fn leases(&self) -> &[Lease] {
        &self.leases
    }
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Write,
        Self::Read,
        Self::Permit,
        Self::Set,
        Self::HandedOver,
        Self::SharedReads,
        Self::Delegated,
        Self::Session,
        Self::NotRenewed,
    ];

    /// Whether it is held for longer than its time to live.
    #[must_use]
    pub fn is_renewed(self) -> bool {
        self != Self::NotRenewed
    }

    /// The name of the lock that a [`rival`](Self::rival) wants, too: what an operator would release by force.
    #[must_use]
    pub fn contested(self, name: &str) -> String {
        match self {
            Self::Permit => format!("{name}{{0}}"),
            Self::Set => format!("{name}-b"),
            _ => name.to_owned(),
        }
    }

    /// Acquires a lock in this way.
    ///
    /// # Errors
    ///
    /// Those of the acquisition.
    pub async fn acquire(self, locks: &LockManager, name: &str) -> Result<Held, LockError> {
        Ok(match self {
            Self::Write => {
                let guard = locks.lock(name).acquire().await?;
                Held::new(guard.lease(), guard)
            }
            Self::Read => {
                let guard = locks.read(name).acquire().await?;
                Held::new(guard.lease(), guard)
            }
            Self::Permit => {
                let guard = locks.permits(name, 1).acquire().await?;
                Held::new(guard.lease(), guard)
            }
            Self::Set => set(locks, name, ["a", "b"], None).await?,
            Self::HandedOver => handed_over(locks, name).await?,
            Self::SharedReads => {
                let one = locks.read(name).acquire().await?;
                // A reader does not share a hold while the nodes take long to say that it is still there.
                for _ in 0..500 {
                    match locks.read(name).try_acquire().await {
                        Ok(other) if other.token() == one.token() => {
                            return Ok(Held::new(one.lease(), one).and(Held::new(other.lease(), other)));
                        }
                        Ok(_) | Err(LockError::Contended { .. }) => sleep(Duration::from_millis(10)).await,
                        Err(error) => return Err(error),
                    }
                }
                panic!("no reader shares the hold")
            }
            Self::Delegated => {
                let guard = locks.lock(name).acquire().await?;
                let delegation = guard.delegate().expires_in(Duration::from_secs(600)).create().unwrap();
                let adopted = locks.adopt(delegation.as_str(), name).await.unwrap();
                assert_eq!(adopted.token(), guard.token());
                Held::new(guard.lease(), guard).and(Held::new(adopted.lease(), adopted))
            }
            Self::Session => {
                let session = locks.lock(name).acquire().await?.share();
                Held::new(session.lease(), session)
            }
            Self::NotRenewed => {
                let guard = locks.lock(name).renew(false).acquire().await?;
                Held::new(guard.lease(), guard)
            }
        })
    }

    /// Acquires, within `wait`, what nobody may have beside a holder of this kind.
    ///
    /// # Errors
    ///
    /// Those of the acquisition.
    pub async fn rival(self, locks: &LockManager, name: &str, wait: Duration) -> Result<Held, LockError> {
        Ok(match self {
            Self::Permit => {
                let guard = locks.permits(name, 1).wait(wait).acquire().await?;
                Held::new(guard.lease(), guard)
            }
            Self::Set => set(locks, name, ["b", "c"], Some(wait)).await?,
            _ => {
                let guard = locks.lock(name).wait(wait).acquire().await?;
                Held::new(guard.lease(), guard)
            }
        })
    }
}

async fn set(locks: &LockManager, name: &str, parts: [&str; 2], wait: Option<Duration>) -> Result<Held, LockError> {
    let request = locks.lock_all(parts.map(|part| format!("{name}-{part}")));
    let guard = if let Some(wait) = wait { request.wait(wait) } else { request }.acquire().await?;
    let leases = guard.iter().cloned().collect();
    Ok(Held { _guards: vec![Box::new(guard)], leases })
}

/// Repeats it until the lock passed from one caller to the next without a request: on a slow machine, that may take too long.
async fn handed_over(locks: &LockManager, name: &str) -> Result<Held, LockError> {
    for _ in 0..100 {
        let first = locks.lock(name).acquire().await?;
        let next = tokio::spawn(locks.lock(name).acquire());
        let waits = |waiting: &lock_core::inspection::Waiting| waiting.resource == name && waiting.callers > 0;
        eventually_async("the next caller waits", async || {
            tokio::task::yield_now().await;
            locks.waiting().iter().any(waits)
        })
        .await;
        let token = first.token().get();
        drop(first);
        let next = next.await.unwrap()?;
        if next.token().get() == token + 1 {
            return Ok(Held::new(next.lease(), next));
        }
    }
    panic!("{name} was never handed over");
}
