use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::cluster::{Cluster, Standing};
use crate::node::{Establish, Inspection, NodeError, Refusal};
use crate::quorum::{Admission, Census, admit, census, clock_lag, majority};
use crate::random::Epoch;

/// How long an inspection may take, connecting included.
const INSPECTION_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a node that stands well is looked at: it carries the cluster clock on, and finds a link that broke unseen.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// The pauses between attempts to reach a node: from, doubling, to.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// The least time between two inspections of a node, however much trouble it makes.
const MIN_PAUSE: Duration = Duration::from_millis(20);
/// How long a count goes on after a majority has answered.
const COUNT_GRACE: Duration = Duration::from_millis(100);
/// How long another client is given to finish the first start of the set, before a node without a record is taken for one
/// that lost it.
const FIRST_START_GRACE: Duration = Duration::from_millis(250);
/// How often a node's record may change under our hands before the inspection is put off.
const MAX_CHANGES: usize = 5;

impl Cluster {
    /// Looks after all nodes until the manager is gone.
    pub(super) async fn keep_members(self: Arc<Self>) {
        let keeping = join_all((0..self.size()).map(|node| self.keep_member(node)));
        tokio::select! {
            biased;
            _ = keeping => {}
            () = self.stop.cancelled() => {}
        }
    }

    async fn keep_member(&self, node: usize) {
        let member = &self.members[node];
        let mut backoff = BACKOFF.0;
        loop {
            let standing = self.inspect(node).await;
            let looked = Instant::now();
            self.set_standing(node, standing.clone());
            let wait = match &standing {
                Standing::Admitted(_) => CHECK_INTERVAL,
                Standing::Quarantined(_, until) => CHECK_INTERVAL.min(until.saturating_duration_since(looked)),
                _ => backoff,
            };
            if matches!(standing, Standing::Admitted(_) | Standing::Quarantined(..)) {
                backoff = BACKOFF.0;
                // Beyond the end of a quarantine there is nothing to be gained by chance.
                let wait = if wait < CHECK_INTERVAL { wait } else { self.random.jitter(wait) };
                tokio::select! {
                    biased;
                    () = member.node.disconnected() => {
                        let error = NodeError::Unreachable { reason: "connection lost".into() };
                        self.set_standing(node, Standing::Away(error));
                    }
                    () = member.trouble.notified() => {}
                    () = sleep(wait) => {}
                }
                sleep_until(looked + MIN_PAUSE).await;
            } else {
                // Jitter, so that the clients of a node that comes back do not all come at once.
                sleep(self.random.jitter(wait)).await;
                backoff = (backoff * 2).min(BACKOFF.1);
            }
        }
    }

    /// Looks a node over and, where it has to be, establishes it.
    async fn inspect(&self, node: usize) -> Standing {
        for _ in 0..MAX_CHANGES {
            let seen = match self.look(node).await {
                Ok(seen) => seen,
                Err(NodeError::Refused(refusal)) => return Standing::Refused(refusal),
                Err(error) => return Standing::Away(error),
            };
            if let Some(refusal) = self.settle_duplicates(node) {
                return Standing::Refused(refusal);
            }
            match admit(&seen, &self.config) {
                Admission::Admitted(epoch) => return Standing::Admitted(epoch),
                Admission::Quarantined(epoch, remaining) => {
                    // A quarantine without an end is looked at again now and then.
                    return Standing::Quarantined(epoch, Instant::now() + remaining.min(CHECK_INTERVAL * 2));
                }
                Admission::Refused(refusal) => return Standing::Refused(refusal),
                Admission::Restarted(expected, quarantine) => self.establish(node, &seen, expected, quarantine).await,
                Admission::Unknown => {
                    if let Census::Unknown = self.count(node).await {
                        return Standing::Undecided;
                    }
                }
            }
        }
        Standing::Away(NodeError::Protocol { answer: "the node's record keeps changing".into() })
    }

    /// Inspects a node and notes what is to be remembered.
    async fn look(&self, node: usize) -> Result<Inspection, NodeError> {
        let (seen, clock) = match self.ask(node).await? {
            // The answer lay around, because this process was paused or the way is long: the clock in it is of the past.
            (_, None) => self.ask(node).await?,
            fresh => fresh,
        };
        let mut facts = self.members[node].facts.lock().unwrap_or_else(PoisonError::into_inner);
        facts.run_id = Some(seen.run_id.clone());
        facts.clock = clock.or(facts.clock);
        // Without its clock it must not vote: tokens could fall back where a counter was lost.
        facts.clock.map(|_| seen).ok_or(NodeError::TimedOut)
    }

    /// Inspects a node. With the node's clock and when it was read, if that is known precisely enough: a node that lost its
    /// counter sits out longer by as much, and by then the cluster clock must be ahead of every token from before.
    async fn ask(&self, node: usize) -> Result<(Inspection, Option<(u64, Instant)>), NodeError> {
        let asked = Instant::now();
        let looking = timeout(INSPECTION_TIMEOUT, self.members[node].node.inspect(&self.keyspace));
        let seen = looking.await.unwrap_or(Err(NodeError::TimedOut))?;
        let answered = Instant::now();
        let precise = answered - asked < clock_lag(self.config.max_ttl);
        let clock = precise.then_some((seen.clock_micros, answered));
        Ok((seen, clock))
    }

    /// Of two nodes that turn out to be one server, the one that was named first stays, and the other is refused, at once:
    /// there must be no moment at which both vote. (Between this and the admission of the node nothing is awaited.)
    fn settle_duplicates(&self, node: usize) -> Option<Refusal> {
        let other = self.same_server(node)?;
        let refused = node.max(other);
        let name = self.members[node.min(other)].node.name().to_owned();
        let refusal = Refusal::Duplicate { other: name };
        if refused == node {
            return Some(refusal);
        }
        self.set_standing(other, Standing::Refused(refusal));
        self.members[other].trouble.notify_one();
        None
    }

    /// Another node whose last inspection met the same server.
    fn same_server(&self, node: usize) -> Option<usize> {
        let run_id = |node: usize| {
            let facts = self.members[node].facts.lock().unwrap_or_else(PoisonError::into_inner);
            facts.run_id.clone()
        };
        let present = |other: usize| !matches!(*self.members[other].standing.borrow(), Standing::Away(_));
        let own = run_id(node)?;
        (0..self.size()).find(|other| *other != node && present(*other) && run_id(*other).as_ref() == Some(&own))
    }

    async fn establish(&self, node: usize, seen: &Inspection, expected: Option<Epoch>, quarantine: Duration) {
        let record = Establish {
            expected,
            run_id: seen.run_id.clone(),
            epoch: self.random.epoch(),
            config: self.config.clone(),
            quarantine,
        };
        let establishing = self.members[node].node.establish(&self.keyspace, record);
        let name = self.members[node].node.name();
        match timeout(INSPECTION_TIMEOUT, establishing).await {
            Ok(Ok(true)) if quarantine.is_zero() => {
                tracing::info!(name: "lock.node_established", node = name, "a node joined the set");
            }
            Ok(Ok(true)) => tracing::warn!(name: "lock.node_quarantined", node = name, ?quarantine,
                "a node lost its memory; it grants nothing until every lock it may have granted has ended"),
            // Another client did it, or the next inspection will tell what is wrong.
            Ok(Ok(false) | Err(_)) | Err(_) => {}
        }
    }

    /// Asks all nodes, because this one has no record, and establishes what is to be established.
    async fn count(&self, node: usize) -> Census {
        let _one_at_a_time = self.counting.lock().await;
        // All of these begin after the node was seen without a record; the verdict rests on that.
        let mut looking: FuturesUnordered<_> =
            (0..self.size()).map(|node| async move { (node, self.look(node).await) }).collect();
        let (mut nodes, mut answers) = (Vec::new(), Vec::new());
        let mut until = Instant::now() + INSPECTION_TIMEOUT;
        while let Ok(Some((node, seen))) = tokio::time::timeout_at(until, looking.next()).await {
            let Ok(seen) = seen else { continue };
            let usable = !matches!(admit(&seen, &self.config), Admission::Refused(_));
            let counted = answers.iter().any(|other: &Inspection| other.run_id == seen.run_id);
            // Each server once, and none that could not be a member.
            if !usable || counted {
                continue;
            }
            nodes.push(node);
            answers.push(seen);
            if answers.len() == majority(self.size()) {
                until = until.min(Instant::now() + COUNT_GRACE);
            }
        }
        let verdict = census(self.size(), &answers, &self.config);
        match verdict {
            Census::FirstStart => {
                let unknown = |seen: &Inspection| admit(seen, &self.config) == Admission::Unknown;
                let empty = nodes.into_iter().zip(&answers).filter(|(_, seen)| unknown(seen));
                join_all(empty.map(|(node, seen)| self.establish(node, seen, None, Duration::ZERO))).await;
            }
            Census::InUse(quarantine) => {
                let is_empty = |seen: &Inspection| seen.meta.is_none() && seen.quarantine.is_none();
                // Established by another task while this one waited for its turn: nothing to do.
                if nodes.iter().zip(&answers).any(|(other, seen)| *other == node && is_empty(seen)) {
                    sleep(FIRST_START_GRACE).await;
                    if let Ok(seen) = self.look(node).await
                        && is_empty(&seen)
                    {
                        self.establish(node, &seen, None, quarantine).await;
                    }
                }
            }
            Census::Unknown => {}
        }
        verdict
    }

    /// Notes how a node stands, and logs what changed.
    fn set_standing(&self, node: usize, standing: Standing) {
        let member = &self.members[node];
        let before = member.standing.replace(standing.clone());
        if std::mem::discriminant(&before) == std::mem::discriminant(&standing) {
            return;
        }
        let name = member.node.name();
        match standing {
            Standing::Admitted(_) => tracing::debug!(name: "lock.node_admitted", node = name, "a node votes"),
            Standing::Quarantined(_, until) => {
                let remaining = until.saturating_duration_since(Instant::now());
                tracing::debug!(name: "lock.node_in_quarantine", node = name, ?remaining, "a node does not grant");
            }
            Standing::Away(error) => tracing::warn!(name: "lock.node_away", node = name, %error, "a node is away"),
            Standing::Undecided => tracing::warn!(name: "lock.node_undecided", node = name,
                "a node has no record, and too few others answer to tell why"),
            Standing::Refused(refusal) => {
                tracing::error!(name: "lock.node_refused", node = name, %refusal, "a node is not used");
            }
            Standing::Joining => {}
        }
    }
}
