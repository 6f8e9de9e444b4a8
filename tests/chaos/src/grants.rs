//! The grants of a history.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use lock_history::Moment;

use super::history::{Event, Record, Write};
use super::kind::Kind;

/// A service, and how often it had been started before.
pub(super) type Process = (usize, u32);

/// What chaos knows of the holder of a grant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    /// The process of the holder.
    pub(super) process: Process,
    pub(super) kind: Kind,
    /// Whether its acquisition was willing to wait. Only then can the lock be handed over to it inside its process.
    pub(super) may_wait: bool,
    /// When the holder was about to write.
    pub(super) writing: Option<Moment>,
    /// The outcome of the write, if the holder lived to see it.
    pub(super) wrote: Option<Write>,
    /// When it claimed the fence with the token of a forced release.
    pub(super) claimed: Option<Moment>,
    /// Whether it delegated the lock, and was not answered: then the key is left to expire.
    pub(super) is_unanswered: bool,
}

/// A lock that was granted, and what became of it.
pub(super) type Grant = lock_history::Grant<Holder>;

impl Holder {
    /// A holder that was willing to wait, of which nothing else is known.
    pub(super) fn of(process: Process) -> Self {
        let (writing, wrote, claimed) = (None, None, None);
        Self { process, kind: Kind::Write, may_wait: true, writing, wrote, claimed, is_unanswered: false }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (service, generation) = self.process;
        write!(
            f,
            "{}, service {service}, start {generation}, {}, ",
            self.kind.name(),
            if self.may_wait { "with wait" } else { "without wait" }
        )?;
        match self.wrote {
            Some(wrote) => write!(f, "write {wrote:?}"),
            None if self.writing.is_some() => f.write_str("writing"),
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
    let mut open: HashMap<(u64, &str), usize> = HashMap::new();
    let mut gathering: HashMap<u64, &[String]> = HashMap::new();
    for Record { at, event } in history {
        let attempt =
            |attempt: &u64| attempts.get(attempt).copied().ok_or_else(|| format!("{event:?} without an attempt"));
        let of = |attempt: &u64, resource: &str| {
            let index = open.get(&(*attempt, resource)).copied();
            index.ok_or_else(|| format!("{event:?} without a grant"))
        };
        match event {
            Event::SetAttempt { attempt, resources, .. } => _ = gathering.insert(*attempt, resources),
            Event::Granted { attempt, .. } | Event::Rejected { attempt, .. } | Event::Dropped { attempt } => {
                gathering.remove(attempt);
            }
            _ => {}
        }
        match event {
            Event::Attempt { attempt, wait, reads, .. } => {
                _ = attempts.insert(*attempt, (*at, if *reads { Kind::Read } else { Kind::Write }, !wait.is_zero()));
            }
            Event::PermitAttempt { attempt, wait, .. } => {
                _ = attempts.insert(*attempt, (*at, Kind::Permit, !wait.is_zero()));
            }
            Event::SetAttempt { attempt, wait, .. } => _ = attempts.insert(*attempt, (*at, Kind::Set, !wait.is_zero())),
            Event::Adopting { attempt } => _ = attempts.insert(*attempt, (*at, Kind::Adopt, false)),
            Event::Forcing { attempt, .. } => _ = attempts.insert(*attempt, (*at, Kind::Force, false)),
            Event::Granted { attempt: number, resource, token, until, reads }
            | Event::Adopted { attempt: number, resource, token, until, reads } => {
                let (began, kind, may_wait) = attempt(number)?;
                open.insert((*number, resource), grants.len());
                let holder = Holder { kind, may_wait, ..Holder::of((*service, *generation)) };
                let grant = Grant::new((resource, *token), holder, [began, *at, *until]);
                grants.push(Grant { reads: *reads, is_adopted: kind == Kind::Adopt, ..grant });
            }
            // Nobody relied on these.
            Event::Replayed { attempt: number, resource, token }
            | Event::Forced { attempt: number, resource, token, .. } => {
                let (began, kind, may_wait) = attempt(number)?;
                open.insert((*number, resource), grants.len());
                let holder = Holder { kind, may_wait, ..Holder::of((*service, *generation)) };
                let grant = Grant::new((resource, *token), holder, [began, *at, *at]);
                grants.push(Grant { is_adopted: kind == Kind::Adopt, released: Some(*at), ..grant });
            }
            Event::Renewed { attempt, resource, until } => grants[of(attempt, resource)?].claimed = *until,
            Event::Lost { attempt, resource, reason, valid_at } => {
                let grant = &mut grants[of(attempt, resource)?];
                // A lease that ran out ended with its claimed validity. One that ended otherwise did so at some time
                // after it was last seen to be valid.
                if !matches!(reason.as_str(), "Expired" | "MaxHold") {
                    grant.ended = Some(*valid_at);
                }
            }
            Event::Downgrading { attempt, resource } => {
                let grant = &mut grants[of(attempt, resource)?];
                (grant.downgraded, grant.holder.kind) = (Some(*at), Kind::Downgrade);
            }
            Event::Delegated { attempt, resource } => {
                let holder = &mut grants[of(attempt, resource)?].holder;
                (holder.kind, holder.is_unanswered) = (Kind::Delegate, true);
            }
            Event::Answered { attempt, resource } => grants[of(attempt, resource)?].holder.is_unanswered = false,
            Event::Writing { attempt, resource } => grants[of(attempt, resource)?].holder.writing = Some(*at),
            Event::Wrote { attempt, resource, outcome } => grants[of(attempt, resource)?].holder.wrote = Some(*outcome),
            Event::Claimed { attempt, resource, .. } => grants[of(attempt, resource)?].holder.claimed = Some(*at),
            Event::Releasing { attempt, resource } => {
                let grant = &mut grants[of(attempt, resource)?];
                grant.ended = Some(grant.ended.map_or(*at, |ended| ended.min(*at)));
                grant.released = Some(*at).filter(|_| !grant.holder.is_unanswered && !grant.is_adopted);
            }
            Event::Released { attempt, resource, outcome } if outcome == "ours" => {
                let grant = &mut grants[of(attempt, resource)?];
                // The last of the readers that share a key deletes it. One may be a set that waits for its other locks.
                let reads = grant.reads || grant.downgraded.is_some();
                let is_shared = reads && gathering.values().any(|resources| resources.contains(resource));
                grant.deleted = Some(*at).filter(|_| grant.released.is_some() && !is_shared);
            }
            _ => {}
        }
    }
    share_what_is_inherited(&mut grants);
    Ok(grants)
}

/// Grants of one process with the same token, or with the one after it, are parts of what it took from the servers once: readers share
/// it, and writers hand it over. If a part of it was delegated and not answered, its key is left to expire, whichever of them releases it.
fn share_what_is_inherited(grants: &mut [Grant]) {
    let mut by_token: BTreeMap<(String, u64), Vec<usize>> = BTreeMap::new();
    for (index, grant) in
        grants.iter().enumerate().filter(|(_, grant)| !grant.is_adopted && grant.holder.kind != Kind::Force)
    {
        by_token.entry((grant.resource.clone(), grant.token)).or_default().push(index);
    }
    for ((resource, token), indices) in &by_token {
        let before = token.checked_sub(1).and_then(|before| by_token.get(&(resource.clone(), before)));
        let taken = indices.iter().chain(before.into_iter().flatten()).map(|index| grants[*index].taken()).min();
        let is_unanswered = indices.iter().any(|index| grants[*index].holder.is_unanswered);
        for index in indices {
            grants[*index].inherited = taken;
            if is_unanswered {
                (grants[*index].released, grants[*index].deleted) = (None, None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn records(events: impl IntoIterator<Item = Event>) -> Vec<Record> {
        let started = Event::Started { service: 1, generation: 0 };
        let at = |(at, event)| Record { at: Moment(at), event };
        (1..).zip(std::iter::once(started).chain(events)).map(at).collect()
    }

    fn read(attempt: u64) -> [Event; 2] {
        let (resource, wait, reads) = ("r".to_owned(), Duration::ZERO, true);
        let granted = Event::Granted { attempt, resource: resource.clone(), token: 7, until: Moment(99), reads };
        [Event::Attempt { attempt, resource, wait, reads }, granted]
    }

    fn released(attempt: u64) -> [Event; 2] {
        let resource = || "r".to_owned();
        let outcome = "ours".to_owned();
        [Event::Releasing { attempt, resource: resource() }, Event::Released { attempt, resource: resource(), outcome }]
    }

    #[test]
    fn readers_with_one_token_are_told_apart() {
        let grants = grants(&records([read(1), read(2), released(1)].concat())).unwrap();
        assert_eq!(grants.iter().map(|grant| grant.released).collect::<Vec<_>>(), [Some(Moment(6)), None]);
        assert_eq!(grants[1].inherited, Some(Moment(2)), "it shares what the first one took");
        assert!(grants.iter().all(|grant| grant.reads && grant.holder.kind == Kind::Read));
    }

    #[test]
    fn the_key_of_a_reader_is_not_known_to_be_deleted_while_a_set_may_share_it() {
        let wait = Duration::ZERO;
        let set = |resource: &str| Event::SetAttempt { attempt: 9, resources: vec![resource.into()], wait };
        let deleted = |events: &[Event]| {
            let events = [events, &read(1), &released(1)].concat();
            grants(&records(events)).unwrap()[0].deleted.is_some()
        };
        assert!(!deleted(&[set("r")]), "it may have this lock, and wait for another one");
        assert!(deleted(&[set("other")]));
        assert!(deleted(&[set("r"), Event::Dropped { attempt: 9 }]));
    }

    #[test]
    fn the_key_of_a_lock_is_left_to_expire_while_a_delegation_is_not_answered() {
        let delegated = Event::Delegated { attempt: 1, resource: "r".into() };
        let answered = Event::Answered { attempt: 1, resource: "r".into() };
        let deleted = |answer: &[Event]| {
            let events =
                [&read(1)[..], &read(2), std::slice::from_ref(&delegated), answer, &released(1), &released(2)].concat();
            grants(&records(events)).unwrap().iter().filter(|grant| grant.deleted.is_some()).count()
        };
        assert_eq!((deleted(&[]), deleted(&[answered])), (0, 2), "also for readers that share it");
    }
}
