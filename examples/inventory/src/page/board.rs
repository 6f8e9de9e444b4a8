//! What the handlers of all instances tell the page.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use lock_axum::Lease;
use serde::Serialize;

use super::{
    feed::{Entry, Feed, Kind},
    lanes::{Lanes, LanesView},
};

/// How many holds the chart shows.
const SAMPLES: usize = 120;

/// Who holds and who waits, what was answered, and what happened last.
#[derive(Debug)]
pub(crate) struct Board {
    started: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Callers by resource. An entry is removed with its last caller.
    waiting: BTreeMap<String, usize>,
    holds: BTreeMap<u64, Held>,
    next_hold: u64,
    /// The last hold of each product.
    last: BTreeMap<String, Ended>,
    frozen: BTreeSet<usize>,
    killed: BTreeSet<usize>,
    /// The first token that was seen of each product. Others are shown as the difference to it.
    first: BTreeMap<String, u64>,
    counts: Counts,
    feed: Feed,
    lanes: Lanes,
    samples: VecDeque<Sample>,
}

#[derive(Debug)]
struct Held {
    instance: usize,
    lease: Lease,
    /// As people read it.
    token: String,
    since: Instant,
    waited: Duration,
    /// When it was looked at last.
    remaining: Duration,
    lost: bool,
}

#[derive(Debug)]
struct Ended {
    at: Instant,
    token: String,
}

/// The answers of the shop since it started.
#[derive(Debug, Default, Clone, Serialize)]
pub(crate) struct Counts {
    pub(crate) sold: u64,
    pub(crate) sold_out: u64,
    pub(crate) refused: u64,
    pub(crate) busy: u64,
    pub(crate) unavailable: u64,
    pub(crate) lost: u64,
}

/// How long one holder waited, and how long it held.
#[derive(Debug, Clone, Serialize)]
struct Sample {
    number: u64,
    waited_ms: f64,
    held_ms: f64,
}

/// The board at one moment.
#[derive(Debug, Serialize)]
pub(crate) struct BoardView {
    holds: Vec<HoldView>,
    waiting: BTreeMap<String, usize>,
    /// The numbers of the instances that stand still.
    frozen: BTreeSet<usize>,
    /// The numbers of the instances that are dead.
    killed: BTreeSet<usize>,
    /// The token that is shown as +0.
    first_tokens: BTreeMap<String, u64>,
    lanes: LanesView,
    counts: Counts,
    feed: Vec<Entry>,
    samples: Vec<Sample>,
}

#[derive(Debug, Serialize)]
struct HoldView {
    resource: String,
    instance: usize,
    token: u64,
    age_ms: u64,
    remaining_ms: u64,
}

impl Board {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), state: Mutex::default() }
    }

    pub(crate) fn view(&self) -> BoardView {
        let state = self.state();
        let holds = state.holds.values().map(|held| HoldView {
            resource: held.lease.resource().to_owned(),
            instance: held.instance,
            token: held.lease.token().get(),
            age_ms: millis(held.since.elapsed()),
            remaining_ms: millis(held.lease.remaining()),
        });
        BoardView {
            holds: holds.collect(),
            waiting: state.waiting.clone(),
            frozen: state.frozen.clone(),
            killed: state.killed.clone(),
            first_tokens: state.first.clone(),
            lanes: state.lanes.view(self.started.elapsed()),
            counts: state.counts.clone(),
            feed: state.feed.entries(),
            samples: state.samples.iter().cloned().collect(),
        }
    }

    /// Whether a purchase is under way.
    pub(crate) fn is_busy(&self) -> bool {
        let state = self.state();
        !(state.holds.is_empty() && state.waiting.is_empty() && state.frozen.is_empty())
    }

    /// Looks for leases that were renewed or lost since the last look.
    pub(crate) fn look(&self) {
        let mut state = self.state();
        let mut found = Vec::new();
        for held in state.holds.values_mut().filter(|held| !held.lost) {
            let (token, instance) = (held.token.clone(), held.instance);
            let remaining = held.lease.remaining();
            if !held.lease.is_valid() {
                held.lost = true;
                found.push((
                    Kind::Lost,
                    format!("token {token}: the lease of instance {instance} ended before its work"),
                ));
            } else if remaining > held.remaining {
                found.push((Kind::Renewed, format!("token {token}, by instance {instance}")));
            }
            held.remaining = remaining;
        }
        for (kind, text) in found {
            state.counts.lost += u64::from(kind == Kind::Lost);
            self.tell(&mut state, kind, text);
        }
    }

    pub(crate) fn control(&self, text: impl Into<String>) {
        self.tell(&mut self.state(), Kind::Control, text.into());
    }

    pub(crate) fn froze(&self, instance: usize) {
        let mut state = self.state();
        state.frozen.insert(instance);
        self.tell(&mut state, Kind::Frozen, format!("instance {instance} stands still, and cannot renew its lease"));
    }

    pub(crate) fn thawed(&self, instance: usize) {
        let mut state = self.state();
        state.frozen.remove(&instance);
        self.tell(&mut state, Kind::Frozen, format!("instance {instance} goes on, and writes what it read before"));
    }

    pub(crate) fn killed(&self, instance: usize) {
        let mut state = self.state();
        state.killed.insert(instance);
        state.lanes.died(instance, self.started.elapsed());
        state.holds.retain(|_, held| held.instance != instance);
        self.tell(&mut state, Kind::Killed, format!("instance {instance} is killed, and releases nothing"));
    }

    pub(crate) fn revived(&self, instance: usize) {
        let mut state = self.state();
        state.killed.remove(&instance);
        self.tell(&mut state, Kind::Control, format!("instance {instance} is back"));
    }

    /// Tells of a crowd, with which a new picture begins.
    pub(crate) fn buyers_come(&self, buyers: u32) {
        let mut state = self.state();
        state.lanes.begin(self.started.elapsed());
        self.tell(&mut state, Kind::Control, format!("{buyers} buyers come"));
    }

    pub(crate) fn slow_payment(&self, instance: usize) {
        self.tell(&mut self.state(), Kind::Control, format!("instance {instance} waits for a slow payment"));
    }

    pub(super) fn waits(&self, resource: &str) {
        *self.state().waiting.entry(resource.to_owned()).or_default() += 1;
    }

    pub(super) fn waits_no_longer(&self, resource: &str) {
        let mut state = self.state();
        if let Some(waiting) = state.waiting.get_mut(resource) {
            *waiting -= 1;
            if *waiting == 0 {
                state.waiting.remove(resource);
            }
        }
    }

    /// Notes a grant to a caller who arrived at `arrived`. Returns the id of the hold.
    pub(super) fn granted(&self, instance: usize, lease: Lease, arrived: Instant) -> u64 {
        let mut state = self.state();
        let (token, waited) = (state.short(lease.resource(), lease.token().get()), arrived.elapsed());
        let before = state.last.get(lease.resource()).filter(|ended| ended.at >= arrived).map(|ended| &ended.token);
        let waited_ms = millis(waited);
        let (kind, text) = match before {
            Some(before) => {
                (Kind::HandedOver, format!("token {before} → {token}, to instance {instance} after {waited_ms} ms"))
            }
            None => (Kind::Granted, format!("token {token} to instance {instance} after {waited_ms} ms")),
        };
        self.tell(&mut state, kind, text);
        let id = self.entered(&mut state, instance);
        let remaining = lease.remaining();
        state.holds.insert(id, Held { instance, lease, token, since: Instant::now(), waited, remaining, lost: false });
        id
    }

    /// Notes a purchase without a lock. Returns its id.
    pub(super) fn entered_unlocked(&self, instance: usize) -> u64 {
        self.entered(&mut self.state(), instance)
    }

    fn entered(&self, state: &mut State, instance: usize) -> u64 {
        let id = state.next_hold;
        state.next_hold += 1;
        state.lanes.entered(id, instance, self.started.elapsed());
        id
    }

    pub(super) fn ended(&self, id: u64) {
        self.look();
        let mut state = self.state();
        state.lanes.left(id, self.started.elapsed());
        let Some(held) = state.holds.remove(&id) else { return };
        let ended = Ended { at: Instant::now(), token: held.token };
        state.last.insert(held.lease.resource().to_owned(), ended);
        let (waited_ms, held_ms) = (held.waited.as_secs_f64() * 1e3, held.since.elapsed().as_secs_f64() * 1e3);
        state.samples.push_back(Sample { number: id, waited_ms, held_ms });
        if state.samples.len() > SAMPLES {
            state.samples.pop_front();
        }
    }

    /// Counts an answer.
    pub(super) fn count(&self, which: impl FnOnce(&mut Counts) -> &mut u64) {
        *which(&mut self.state().counts) += 1;
    }

    pub(super) fn refused(&self, instance: usize, resource: &str, token: u64) {
        let mut state = self.state();
        state.counts.refused += 1;
        state.lanes.refused(instance, self.started.elapsed());
        let token = state.short(resource, token);
        let text = format!("the database refused token {token} of instance {instance}: a later holder was there");
        self.tell(&mut state, Kind::Refused, text);
    }

    pub(super) fn unavailable(&self) {
        let mut state = self.state();
        state.counts.unavailable += 1;
        self.tell(&mut state, Kind::Unavailable, "503: no majority of the masters, so no lock and no sale".to_owned());
    }

    fn tell(&self, state: &mut State, kind: Kind, text: String) {
        state.feed.add(millis(self.started.elapsed()), kind, text);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A token as the difference to the first one: they have sixteen digits, of which the last few differ.
    fn short(&mut self, resource: &str, token: u64) -> String {
        let first = *self.first.entry(resource.to_owned()).or_insert(token);
        // An older one comes from a holder that was granted the lock earlier, and got here later.
        format!("{:+}", i128::from(token) - i128::from(first))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
