use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Inner;
use crate::engine::{Failed, Member, Tenure};
use crate::error::{LockError, NodeVote, VoteAnswer};
use crate::lease::{Lease, LockGuard, keep};
use crate::node::LockKeys;
use crate::options::LockOptions;
use crate::quorum::Failure;
use crate::resource::Resource;
use crate::waiting::{Entered, NotEntered, Seat, Seen, Wants, Woken};

impl Inner {
    /// Takes a lock, or tells why not.
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
        // Declared before any guard, so that it outlives it: a shutdown waits for what this acquisition has to release.
        let _under_way = self.engine.tracker.token();
        self.check_open(name, started)?;
        self.start();
        self.engine.cluster.first_contact().await;
        let keys = self.engine.cluster.keyspace.keys(&resource);
        let (tenure, seat) = if options.wait.is_zero() {
            (self.try_once(&keys, options).await.map_err(|failed| error(name, started, failed))?, None)
        } else {
            let (tenure, seat) = self.wait_for(&keys, options, name, started).await?;
            (tenure, Some(seat))
        };
        let guard = LockGuard::begin((&self.engine, &self.held), (self.id, resource, options.clone()), tenure, seat);
        // Closed while the nodes were asked: a shutdown that counted its holders before must not miss this one.
        self.check_open(name, started)?;
        Ok(guard)
    }

    /// One attempt, past the line: whoever does not wait does not stand in it.
    async fn try_once(&self, keys: &LockKeys, options: &LockOptions) -> Result<Tenure, Failed> {
        self.engine.attempt(keys, options, None, 1).await
    }

    /// Stands in line, and then makes attempt after attempt, until one succeeds, fails for good, or the caller's time is over.
    async fn wait_for(
        &self,
        keys: &LockKeys,
        options: &LockOptions,
        name: &str,
        started: Instant,
    ) -> Result<(Tenure, Seat), LockError> {
        let until = started + options.wait;
        let wants = Wants::from(options);
        let entered = self.waiting.enter(keys, wants, until).await;
        let mut seat = match entered.map_err(|reason| self.not_entered(name, started, reason))? {
            Entered::First(seat) => seat,
            Entered::Holder(tenure, seat) => {
                // Looked at here again: this task may have slept since the lock was handed to it.
                if wants.fit(&tenure) {
                    return Ok((tenure, seat));
                }
                drop(tenure);
                seat
            }
        };
        loop {
            self.check_open(name, started)?;
            let (queued, tokens) = (seat.begin_attempt(), seat.tokens());
            let failed = match self.engine.attempt(keys, options, queued, tokens).await {
                Ok(tenure) => return Ok((tenure, seat)),
                Err(failed) => failed,
            };
            seat.end_attempt(&failed);
            let free_in = match failed.failure {
                Failure::NoQuorum => {
                    seat.no_quorum(&failed.votes, options.ttl);
                    return Err(error(name, started, failed));
                }
                Failure::Contended { free_in } => free_in,
                Failure::Expired => Some(Duration::ZERO),
            };
            match seat.turn(&failed.votes, free_in, until).await {
                Woken::Again => {}
                Woken::TimedOut => return Err(error(name, started, failed)),
                Woken::Closed => self.check_open(name, started)?,
            }
        }
    }

    /// Makes sure that the nodes and the leases are being looked after.
    pub(super) fn start(&self) {
        if self.engine.start() {
            tokio::spawn(keep(Arc::downgrade(&self.engine), Arc::clone(&self.held), self.engine.stopped()));
        }
    }

    fn not_entered(&self, name: &str, started: Instant, reason: NotEntered) -> LockError {
        let (resource, waited) = (name.to_owned(), started.elapsed());
        match reason {
            NotEntered::QueueFull(waiters) => LockError::QueueFull { resource, waiters },
            NotEntered::TimedOut(seen) => {
                let free_in = seen.free_at.map(|free_at| free_at.saturating_duration_since(Instant::now()));
                LockError::Contended { resource, waited, free_in, votes: self.votes(&seen, free_in) }
            }
            NotEntered::NoQuorum(votes) => LockError::NoQuorum { resource, waited, votes: votes.to_vec() },
            NotEntered::Closed => LockError::ShuttingDown { resource, waited },
        }
    }

    /// The votes of the last attempt of a line. Where it took the lock for another caller of this process, these are no
    /// votes any more, but who holds the lock is known.
    fn votes(&self, seen: &Seen, remaining: Option<Duration>) -> Vec<NodeVote> {
        if !seen.votes.is_empty() {
            return seen.votes.to_vec();
        }
        let vote = |(node, member): (usize, &Member)| {
            let held = seen.ours.contains(node);
            let answer = if held { VoteAnswer::Held { remaining } } else { VoteAnswer::Pending };
            NodeVote { node: member.node.name().to_owned(), answer }
        };
        self.engine.cluster.members.iter().enumerate().map(vote).collect()
    }

    fn check_open(&self, name: &str, started: Instant) -> Result<(), LockError> {
        if self.closing.is_cancelled() {
            return Err(LockError::ShuttingDown { resource: name.to_owned(), waited: started.elapsed() });
        }
        Ok(())
    }
}

fn error(name: &str, started: Instant, Failed { failure, votes, .. }: Failed) -> LockError {
    let (resource, waited) = (name.to_owned(), started.elapsed());
    match failure {
        Failure::Contended { free_in } => LockError::Contended { resource, waited, free_in, votes },
        Failure::NoQuorum => LockError::NoQuorum { resource, waited, votes },
        Failure::Expired => LockError::Expired { resource, waited, votes },
    }
}
