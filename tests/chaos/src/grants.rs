//! The grants of a history.

use std::collections::HashMap;
use std::fmt;

use super::history::{Event, Record, Write};

/// A service, and how often it had been started before.
pub(super) type Process = (usize, u32);

/// What chaos knows of the holder of a grant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    /// The process of the holder.
    pub(super) process: Process,
    /// Whether its acquisition was willing to wait. Only then can the lock be handed over to it inside its process.
    pub(super) may_wait: bool,
    /// Whether the holder was about to write.
    pub(super) writing: bool,
    /// The outcome of the write, if the holder lived to see it.
    pub(super) wrote: Option<Write>,
}

/// A lock that was granted, and what became of it.
pub(super) type Grant = lock_history::Grant<Holder>;

impl Holder {
    /// A holder that was willing to wait, of which nothing else is known.
    pub(super) fn of(process: Process) -> Self {
        Self { process, may_wait: true, writing: false, wrote: None }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (service, generation) = self.process;
        write!(
            f,
            "service {service}, start {generation}, {}, ",
            if self.may_wait { "with wait" } else { "without wait" }
        )?;
        match self.wrote {
            Some(wrote) => write!(f, "write {wrote:?}"),
            None if self.writing => f.write_str("writing"),
            None => f.write_str("no write"),
        }
    }
}

/// The grants in the history of one process. Fails if the history contradicts itself.
pub(super) fn grants(history: &[Record]) -> Result<Vec<Grant>, String> {
    let Some(Record { event: Event::Started { service, generation }, .. }) = history.first() else {
        return if history.is_empty() {
            Ok(Vec::new())
        } else {
            Err("the history does not begin with `started`".into())
        };
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
                let holder = Holder { may_wait: !wait.is_zero(), ..Holder::of((*service, *generation)) };
                grants.push(Grant::new((resource, *token), holder, [began, *at, *until]));
            }
            Event::Renewed { resource, token, until } => grants[of(resource, *token)?].claimed = *until,
            Event::Lost { resource, token, reason, valid_at } => {
                let grant = &mut grants[of(resource, *token)?];
                // A lease that ran out ended with its claimed validity. One that ended otherwise did so at some time
                // after it was last seen to be valid.
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
