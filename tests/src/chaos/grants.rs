//! The history, as grants.

use std::collections::HashMap;

use super::clock::Moment;
use super::history::{Event, Record, Write};

/// A lock that was granted, and what became of it.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) resource: String,
    pub(super) token: u64,
    pub(super) service: usize,
    pub(super) generation: u32,
    /// When its acquisition began, at the latest.
    pub(super) began: Moment,
    /// When it was granted, at the latest.
    pub(super) granted: Moment,
    /// The last end of validity that its holder claimed.
    pub(super) claimed: Moment,
    /// When the holder released it, or when it was seen to be valid for the last time before its end was told.
    pub(super) ended: Option<Moment>,
    /// Whether the holder was about to write.
    pub(super) writing: bool,
    /// What came of the write, if the holder lived to see it.
    pub(super) wrote: Option<Write>,
}

impl Grant {
    /// Until when the holder took itself for the only one: it released the lock, or was told, or its claimed validity ended.
    ///
    /// A process that is stopped can not be told; while it is, its claim stands, and nobody else may be granted the lock
    /// before it ends. It ends on the clock that goes on while a process is stopped, and so did it in the process. The same
    /// is held against the claim of a process that was killed: its keys live at least as long.
    pub(super) fn ends(&self) -> Moment {
        self.ended.map_or(self.claimed, |ended| ended.min(self.claimed))
    }

    /// Whether the holder had it at a moment, for all it knew.
    pub(super) fn is_held_at(&self, moment: Moment) -> bool {
        self.granted <= moment && moment < self.ends()
    }
}

/// The grants in one process's history. What does not fit together is told.
pub(super) fn grants(history: &[Record]) -> Result<Vec<Grant>, String> {
    let Some(Record { event: Event::Started { service, generation }, .. }) = history.first() else {
        return if history.is_empty() { Ok(Vec::new()) } else { Err("a history without a beginning".into()) };
    };
    let mut began = HashMap::new();
    let mut grants: Vec<Grant> = Vec::new();
    let mut open: HashMap<(String, u64), usize> = HashMap::new();
    for Record { at, event } in history {
        let of = |resource: &String, token: u64| {
            let index = open.get(&(resource.clone(), token)).copied();
            index.ok_or_else(|| format!("{event:?} without a grant"))
        };
        match event {
            Event::Attempt { attempt, .. } => _ = began.insert(*attempt, *at),
            Event::Granted { attempt, resource, token, until } => {
                let began = *began.get(attempt).ok_or_else(|| format!("{event:?} without an attempt"))?;
                open.insert((resource.clone(), *token), grants.len());
                grants.push(Grant {
                    resource: resource.clone(),
                    token: *token,
                    service: *service,
                    generation: *generation,
                    began,
                    granted: *at,
                    claimed: *until,
                    ended: None,
                    writing: false,
                    wrote: None,
                });
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
            }
            _ => {}
        }
    }
    Ok(grants)
}
