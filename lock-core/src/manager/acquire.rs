use std::time::Duration;

use tokio::time::Instant;

use super::Inner;
use crate::engine::Failed;
use crate::error::LockError;
use crate::lease::{Lease, LockGuard};
use crate::options::LockOptions;
use crate::quorum::Failure;
use crate::resource::Resource;
use crate::waiting::{QueueFull, Turn};

impl Inner {
    /// Takes a lock: attempt after attempt, until one succeeds, fails for good, or the caller's time is over.
    pub(super) async fn acquire(&self, name: &str, options: &LockOptions) -> Result<LockGuard, LockError> {
        let resource =
            Resource::parse(name).map_err(|reason| LockError::InvalidResource { resource: name.to_owned(), reason })?;
        options
            .check(self.max_ttl)
            .map_err(|reason| LockError::InvalidOptions { resource: name.to_owned(), reason })?;
        if let Some(lease) = Lease::in_scope(self.id, &resource) {
            lease.check()?;
            return Ok(LockGuard::sharing(lease));
        }

        let started = Instant::now();
        let until = started + options.wait;
        // Declared before any guard, so that it outlives it: a shutdown waits for what this acquisition has to release.
        let _under_way = self.engine.tracker.token();
        self.check_open(name, started)?;
        self.engine.start();
        self.engine.cluster.first_contact().await;
        let keys = self.engine.cluster.keyspace.keys(&resource);
        let mut place = None;
        loop {
            let failed = match self.engine.attempt(&keys, options).await {
                Ok(grant) => {
                    let lease = Lease::new(self.id, resource, keys, options.clone(), &grant);
                    let guard = LockGuard::begin(&self.engine, &self.held, lease);
                    // Closed while the nodes were asked: a shutdown that counted its holders before must not miss this one.
                    self.check_open(name, started)?;
                    return Ok(guard);
                }
                Err(failed) => failed,
            };
            let free_in = match failed.failure {
                Failure::NoQuorum => return Err(error(name, started, failed)),
                Failure::Contended { free_in } => free_in,
                Failure::Expired => Some(Duration::ZERO),
            };
            if options.wait.is_zero() {
                return Err(error(name, started, failed));
            }
            let place = match &mut place {
                Some(place) => place,
                none => none.insert(
                    self.waiting
                        .enter(&resource)
                        .map_err(|QueueFull(waiters)| LockError::QueueFull { resource: name.to_owned(), waiters })?,
                ),
            };
            match place.turn(free_in, until).await {
                Turn::Again => {}
                Turn::TimedOut => return Err(error(name, started, failed)),
                Turn::Closed => self.check_open(name, started)?,
            }
        }
    }

    fn check_open(&self, name: &str, started: Instant) -> Result<(), LockError> {
        if self.closing.is_cancelled() {
            return Err(LockError::ShuttingDown { resource: name.to_owned(), waited: started.elapsed() });
        }
        Ok(())
    }
}

fn error(name: &str, started: Instant, Failed { failure, votes }: Failed) -> LockError {
    let (resource, waited) = (name.to_owned(), started.elapsed());
    match failure {
        Failure::Contended { free_in } => LockError::Contended { resource, waited, free_in, votes },
        Failure::NoQuorum => LockError::NoQuorum { resource, waited, votes },
        Failure::Expired => LockError::Expired { resource, waited, votes },
    }
}
