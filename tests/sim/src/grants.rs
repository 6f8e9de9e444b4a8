use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use lock_history::{Eviction, Moment, SetSeen};

use super::check::suspensions;
use super::client::STILL_HELD;
use super::history::{Call, Event, History};
use super::hosts::TICK;
use super::plan::Plan;

/// How long a request to evict may be on its way: messages are held for this long at most, and servers hang.
const LATE: std::time::Duration = std::time::Duration::from_secs(4);

/// What the simulation knows about the holder of a grant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    pub(super) call: Call,
    /// Nobody relied on it: a forced release, or a lock that was adopted a second time.
    pub(super) is_idle: bool,
    /// Its machine was suspended between the beginning of its acquisition and its end, so that it may have believed in it for
    /// too long.
    pub(super) suspended: bool,
    /// It was delegated and not answered: its key is left to expire.
    is_unanswered: bool,
}

impl Holder {
    pub(super) fn of(call: Call) -> Self {
        Self { call, is_idle: false, suspended: false, is_unanswered: false }
    }
}

/// A grant. It lasts until its holder is notified of its end or dies, or else to the end of the run.
pub(super) type Grant = lock_history::Grant<Holder>;

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.call.fmt(f)
    }
}

/// The grants in the order in which they were made.
pub(super) fn grants(history: &History) -> Vec<Grant> {
    let mut grants = Grants::default();
    for (at, event) in &history.entries {
        grants.add(Moment::after_start(*at), event);
    }
    let mut grants = grants.made;
    for grant in &mut grants {
        let (client, since) = (grant.holder.call.client, grant.taken());
        grant.holder.suspended = suspensions(history, client).any(|(from, to)| since <= to && from <= grant.ends());
    }
    grants
}

#[derive(Default)]
struct Grants {
    made: Vec<Grant>,
    began: BTreeMap<Call, Moment>,
    /// The calls that have not returned.
    open: BTreeSet<Call>,
    /// The grants by their calls.
    of: BTreeMap<Call, usize>,
    /// The slots of the calls for permits.
    slots: BTreeMap<Call, u32>,
    /// The last lock that each client released, by resource.
    released: BTreeMap<(usize, String), usize>,
}

impl Grants {
    fn add(&mut self, at: Moment, event: &Event) {
        match event {
            Event::Began { call, .. } => _ = self.open.insert(*call),
            Event::Granted { call, .. } | Event::Failed { call, .. } | Event::Dropped { call } => {
                self.open.remove(call);
            }
            Event::Crashed { client } => self.open.retain(|call| call.client != *client),
            _ => {}
        }
        match event {
            Event::Began { call, .. } | Event::Adopting { call } => _ = self.began.insert(*call, at),
            Event::Slot { call, slot } => _ = self.slots.insert(*call, *slot),
            Event::Granted { call, token, reads, .. } => {
                let grant = Grant { reads: *reads, ..self.grant(*call, *token, at) };
                let inherited = self.inherited(*call, &grant);
                self.push(Grant { inherited, ..grant });
            }
            Event::Adopted { call, token, reads } => {
                let grant = self.grant(*call, *token, at);
                self.push(Grant { reads: *reads, is_adopted: true, ..grant });
            }
            Event::Replayed { call, token } => {
                let grant = self.grant(*call, *token, at);
                let holder = Holder { is_idle: true, ..grant.holder };
                self.push(Grant { is_adopted: true, ended: Some(at), holder, ..grant });
            }
            Event::Ended { call, why } => {
                let Some(index) = self.of.get(call).copied() else { return };
                let grant = &mut self.made[index];
                grant.ended.get_or_insert(at);
                grant.holder.is_idle |= *why == "forced";
                if *why == "released" {
                    grant.released = Some(at).filter(|_| !grant.holder.is_unanswered && !grant.is_adopted);
                    self.released.insert((call.client, grant.resource.clone()), index);
                }
            }
            Event::Crashed { client } => {
                let of_client = |grant: &&mut Grant| grant.holder.call.client == *client;
                self.made.iter_mut().filter(of_client).for_each(|grant| _ = grant.ended.get_or_insert(at));
            }
            Event::Downgraded { call } => self.change(*call, |grant| grant.downgraded = Some(at)),
            Event::Delegated { call } => self.change(*call, |grant| grant.holder.is_unanswered = true),
            Event::Answered { call } => self.change(*call, |grant| grant.holder.is_unanswered = false),
            Event::Released { call, result } if *result == STILL_HELD => {
                // The last of the readers that share a key deletes it. One may be a set that waits for its other locks.
                let may_share = |open: &Call| open.client == call.client && open.resource == call.resource;
                let may_be_shared = self.open.iter().any(may_share);
                self.change(*call, |grant| {
                    let reads = grant.reads || grant.downgraded.is_some();
                    let is_left = grant.holder.is_unanswered || reads && may_be_shared;
                    grant.deleted = Some(at).filter(|_| !is_left);
                });
            }
            _ => {}
        }
    }

    fn grant(&self, call: Call, token: u64, at: Moment) -> Grant {
        let began = self.began.get(&call).copied().unwrap_or(Moment(0));
        Grant::new((name(call, &self.slots), token), Holder::of(call), [began, at, Moment::MAX])
    }

    fn push(&mut self, grant: Grant) {
        self.of.insert(grant.holder.call, self.made.len());
        self.made.push(grant);
    }

    fn change(&mut self, call: Call, change: impl FnOnce(&mut Grant)) {
        if let Some(index) = self.of.get(&call) {
            change(&mut self.made[*index]);
        }
    }

    /// When a lock was taken from the nodes that was handed over inside the client, or shared with its other readers.
    fn inherited(&self, call: Call, grant: &Grant) -> Option<Moment> {
        let before = if grant.reads {
            let shares = |other: &&Grant| {
                let is_same = other.resource == grant.resource && other.token == grant.token && !other.is_adopted;
                is_same && other.holder.call.client == call.client
            };
            self.made.iter().find(shares)
        } else {
            // A handover: the same client continues with the next token, too soon after the release for a request to the
            // nodes and its reply.
            let before = self.released.get(&(call.client, grant.resource.clone())).map(|before| &self.made[*before]);
            before.filter(|before| {
                let gap = before.ended.map(|ended| grant.granted.since(ended));
                before.token + 1 == grant.token && gap.is_some_and(|gap| gap < TICK * 2)
            })
        };
        before.map(Grant::taken)
    }
}

/// The name of the lock that a call is about.
fn name(call: Call, slots: &BTreeMap<Call, u32>) -> String {
    slots.get(&call).map_or_else(|| Plan::resource_name(call.resource), |slot| Plan::slot_name(*slot))
}

/// The forced releases. One that failed may evict the holder for some time after that.
pub(super) fn evictions(history: &History) -> Vec<Eviction> {
    let mut evictions: Vec<(Call, Eviction)> = Vec::new();
    let mut slots = BTreeMap::new();
    for (at, event) in &history.entries {
        let at = Moment::after_start(*at);
        let of_client =
            |client: usize| move |(call, it): &&mut (Call, Eviction)| call.client == client && it.ended == Moment::MAX;
        match event {
            Event::Slot { call, slot } => _ = slots.insert(*call, *slot),
            Event::Forcing { call } => {
                let resource = name(*call, &slots);
                evictions.push((*call, Eviction { resource, token: None, began: at, ended: Moment::MAX }));
            }
            Event::Granted { call, token, .. } => {
                let of_call = evictions.iter_mut().filter(|(other, _)| other == call);
                of_call.for_each(|(_, it)| (it.token, it.ended) = (Some(*token), at));
            }
            Event::Failed { call, .. } => {
                let of_call = evictions.iter_mut().filter(|(other, _)| other == call);
                of_call.for_each(|(_, it)| it.ended = at.plus(LATE));
            }
            Event::Crashed { client } => {
                evictions.iter_mut().filter(of_client(*client)).for_each(|(_, it)| it.ended = at.plus(LATE));
            }
            _ => {}
        }
    }
    evictions.into_iter().map(|(_, eviction)| eviction).collect()
}

/// What the callers of sets saw of them.
pub(super) fn sets(history: &History) -> Vec<SetSeen> {
    let mut sets: BTreeMap<Call, SetSeen> = BTreeMap::new();
    for (_, event) in &history.entries {
        match event {
            Event::SetGranted { call, wanted, granted } => {
                let (wanted, granted) = (wanted.clone(), granted.clone());
                sets.insert(*call, SetSeen { caller: call.to_string(), wanted, granted, valid: Vec::new() });
            }
            Event::SetSeen { call, valid } => {
                sets.entry(*call).and_modify(|set| set.valid.extend(valid));
            }
            _ => {}
        }
    }
    sets.into_values().collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_key_of_a_reader_is_not_known_to_be_deleted_while_a_set_may_share_it() {
        let deleted = |client: usize, reads: bool| {
            let (mut history, ttl) = (History::default(), Duration::from_secs(1));
            let [of_set, call] = [client, 0].map(|client| history.call(client, 0));
            for call in [of_set, call] {
                history.record(ttl, Event::Began { call, ttl, wait: ttl });
            }
            history.record(ttl, Event::Granted { call, token: 1, reads, remaining: ttl });
            history.record(ttl, Event::Released { call, result: STILL_HELD });
            grants(&history)[0].deleted.is_some()
        };
        assert!(!deleted(0, true), "it may have this lock, and wait for another one");
        assert!(deleted(0, false), "a writer shares its key with nobody");
        assert!(deleted(1, true), "nor does a reader with other clients");
    }
}
