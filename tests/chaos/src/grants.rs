//! The history, as grants.

use std::collections::HashMap;
use std::fmt;

use super::history::{Event, Record, Write};

/// A service, and how often it was started before.
pub(super) type Process = (usize, u32);

/// What chaos knows of a grant beside what every history does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    /// Whose it was.
    pub(super) process: Process,
    /// Whether its acquisition was to wait if need be: only such a one can be handed the lock inside its process.
    pub(super) in_line: bool,
    /// Whether the holder was about to write.
    pub(super) writing: bool,
    /// What came of the write, if the holder lived to see it.
    pub(super) wrote: Option<Write>,
}

/// A lock that was granted, and what became of it.
pub(super) type Grant = lock_history::Grant<Holder>;

impl Holder {
    /// One that stood in line, of which nothing else is known.
    pub(super) fn of(process: Process) -> Self {
        Self { process, in_line: true, writing: false, wrote: None }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (service, generation) = self.process;
        write!(f, "service {service}, start {generation}, {}, ", if self.in_line { "in line" } else { "not in line" })?;
        match self.wrote {
            Some(wrote) => write!(f, "write {wrote:?}"),
            None if self.writing => f.write_str("writing"),
            None => f.write_str("no write"),
        }
    }
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
                let holder = Holder { in_line: !wait.is_zero(), ..Holder::of((*service, *generation)) };
                grants.push(Grant::new((resource, *token), holder, [began, *at, *until]));
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
            Event::Writing { resource, token } => grants[of(resource, *token)?].holder.writing = true,
            Event::Wrote { resource, token, outcome } => grants[of(resource, *token)?].holder.wrote = Some(*outcome),
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
