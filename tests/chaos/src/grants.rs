//! The history, as grants.

use std::collections::HashMap;

use super::MAX_TTL;
use super::clock::Moment;
use super::history::{Event, Record, Write};

/// A lock that was granted, and what became of it.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) resource: String,
    pub(super) token: u64,
    pub(super) service: usize,
    pub(super) generation: u32,
    /// Whether its acquisition was to wait if need be: only such a one can be handed the lock inside its process.
    pub(super) in_line: bool,
    /// When its acquisition began, at the latest.
    pub(super) began: Moment,
    /// When it was granted, at the latest.
    pub(super) granted: Moment,
    /// The last end of validity that its holder claimed.
    pub(super) claimed: Moment,
    /// When the holder released it, or when it was seen to be valid for the last time before its end was told.
    pub(super) ended: Option<Moment>,
    /// When the holder released it.
    pub(super) released: Option<Moment>,
    /// Whether the holder was about to write.
    pub(super) writing: bool,
    /// What came of the write, if the holder lived to see it.
    pub(super) wrote: Option<Write>,
}

/// A service, and how often it was started before.
pub(super) type Process = (usize, u32);

impl Grant {
    /// A lock that was granted, of which nothing else is known yet, to one that stood in line.
    pub(super) fn new(
        (resource, token): (impl Into<String>, u64),
        (service, generation): Process,
        [began, granted, claimed]: [Moment; 3],
    ) -> Self {
        let (in_line, ended, released, writing, wrote) = (true, None, None, false, None);
        Self {
            resource: resource.into(),
            token,
            service,
            generation,
            in_line,
            began,
            granted,
            claimed,
            ended,
            released,
            writing,
            wrote,
        }
    }

    /// Whose it was.
    pub(super) fn process(&self) -> Process {
        (self.service, self.generation)
    }

    /// Until when the holder took itself for the only one: it released the lock, or was told, or its claimed validity ended.
    ///
    /// A process that is stopped can not be told; while it is, its claim stands, and nobody else may be granted the lock
    /// before it ends. It ends on the clock that goes on while a process is stopped, and so did it in the process. The same
    /// is held against the claim of a process that was killed: its keys live at least as long.
    pub(super) fn ends(&self) -> Moment {
        self.ended.map_or(self.claimed, |ended| ended.min(self.claimed))
    }

    /// When the servers have forgotten it at the latest: it was released, or no key lives longer than this after its holder
    /// claimed it for the last time. Where `max_hold` ends a lease, its key lives on until then.
    pub(super) fn gone_by(&self) -> Moment {
        let expired = self.ends().plus(MAX_TTL);
        self.released.map_or(expired, |released| released.min(expired))
    }

    /// Whether the holder had it at a moment, for all it knew.
    pub(super) fn is_held_at(&self, moment: Moment) -> bool {
        self.granted <= moment && moment < self.ends()
    }
}

/// The grants of each resource, in the order of a key.
pub(super) fn by_resource<K: Ord>(grants: &[Grant], key: impl Fn(&Grant) -> K) -> HashMap<&str, Vec<&Grant>> {
    let mut resources: HashMap<&str, Vec<&Grant>> = HashMap::new();
    for grant in grants {
        resources.entry(&grant.resource).or_default().push(grant);
    }
    resources.values_mut().for_each(|grants| grants.sort_by_key(|grant| key(grant)));
    resources
}

/// The grants in one process's history. What does not fit together is told.
pub(super) fn grants(history: &[Record]) -> Result<Vec<Grant>, String> {
    let Some(Record { event: Event::Started { service, generation }, .. }) = history.first() else {
        return if history.is_empty() { Ok(Vec::new()) } else { Err("a history without a beginning".into()) };
    };
    let mut attempts = HashMap::new();
    let mut grants: Vec<Grant> = Vec::new();
    let mut open: HashMap<(String, u64), usize> = HashMap::new();
    for Record { at, event } in history {
        let of = |resource: &String, token: u64| {
            let index = open.get(&(resource.clone(), token)).copied();
            index.ok_or_else(|| format!("{event:?} without a grant"))
        };
        match event {
            Event::Attempt { attempt, wait, .. } => _ = attempts.insert(*attempt, (*at, *wait)),
            Event::Granted { attempt, resource, token, until } => {
                let (began, wait) = *attempts.get(attempt).ok_or_else(|| format!("{event:?} without an attempt"))?;
                open.insert((resource.clone(), *token), grants.len());
                let granted = Grant::new((resource, *token), (*service, *generation), [began, *at, *until]);
                grants.push(Grant { in_line: !wait.is_zero(), ..granted });
            }
            Event::Renewed { resource, token, until } => grants[of(resource, *token)?].claimed = *until,
            Event::Told { resource, token, reason, valid_at } => {
                let grant = &mut grants[of(resource, *token)?];
                // A lease that ran out did so at its claimed end; one that ended otherwise, at some time after it was seen to
                // be valid for the last time.
                if !matches!(reason.as_str(), "Expired" | "MaxHold") {
                    grant.ended = Some(*valid_at);
                }
            }
            Event::Writing { resource, token } => grants[of(resource, *token)?].writing = true,
            Event::Wrote { resource, token, outcome } => grants[of(resource, *token)?].wrote = Some(*outcome),
            Event::Releasing { resource, token } => {
                let grant = &mut grants[of(resource, *token)?];
                grant.ended = Some(grant.ended.map_or(*at, |ended| ended.min(*at)));
                grant.released = Some(*at);
            }
            _ => {}
        }
    }
    Ok(grants)
}
