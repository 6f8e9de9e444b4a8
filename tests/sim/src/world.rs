use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_history::Register;
use tokio::sync::mpsc::UnboundedSender;

use super::history::{Call, Event, History};
use super::machine;
use super::plan::Plan;
use super::socket::Sockets;
use super::uplink::Dial;

/// What all hosts of a run share besides the network: the history, the resources, and the pauses that clients request.
#[derive(Clone)]
pub(super) struct World(Arc<Mutex<Shared>>, Arc<Sockets>);

struct Shared {
    history: History,
    /// By the names of the locks that protect them.
    registers: BTreeMap<String, Register>,
    /// How often each client was started.
    starts: Vec<u64>,
    finished: Vec<bool>,
    pauses: Vec<(usize, Duration)>,
    activity: BTreeMap<&'static str, u64>,
    /// Opens the connections of each client.
    uplinks: Vec<Option<UnboundedSender<Dial>>>,
    /// The servers that each client has as masters when it starts.
    lists: Vec<Vec<usize>>,
    delegations: Vec<Delegated>,
    /// The clients whose wake-ups are lost on their way.
    deaf: BTreeSet<usize>,
    /// By how much the server behind an address has a higher number than the address.
    elsewhere: usize,
}

/// A delegation on its way from one client to another.
struct Delegated {
    client: usize,
    resource: usize,
    credential: String,
    is_taken: bool,
    is_answered: bool,
}

impl World {
    pub(super) fn new(plan: &Plan) -> Self {
        let shared = Shared {
            history: History::default(),
            registers: BTreeMap::new(),
            starts: vec![0; plan.clients],
            finished: vec![false; plan.clients],
            pauses: Vec::new(),
            activity: BTreeMap::new(),
            uplinks: vec![None; plan.clients],
            lists: vec![(0..plan.masters).collect(); plan.clients],
            delegations: Vec::new(),
            deaf: BTreeSet::new(),
            elsewhere: 0,
        };
        Self(Arc::new(Mutex::new(shared)), Arc::default())
    }

    /// The connections of all hosts.
    pub(super) fn sockets(&self) -> &Sockets {
        &self.1
    }

    /// Records an event on the current host.
    pub(super) fn record(&self, event: Event) {
        self.record_at(now(), event);
    }

    pub(super) fn record_at(&self, now: Duration, event: Event) {
        self.lock().history.record(now, event);
    }

    pub(super) fn call(&self, client: usize, resource: usize) -> Call {
        self.lock().history.call(client, resource)
    }

    /// The clients with a call that began since then and has not returned.
    pub(super) fn in_line(&self, since: Duration) -> BTreeSet<usize> {
        self.lock().history.in_line(since)
    }

    /// How often a client was suspended.
    pub(super) fn suspensions(&self, client: usize) -> usize {
        self.lock().history.suspensions(client)
    }

    pub(super) fn with_register<T>(&self, resource: &str, work: impl FnOnce(&mut Register) -> T) -> T {
        work(self.lock().registers.entry(resource.to_owned()).or_default())
    }

    /// Counts a start of the client, and returns how often it was started.
    pub(super) fn start(&self, client: usize) -> u64 {
        let mut shared = self.lock();
        shared.starts[client] += 1;
        shared.starts[client]
    }

    pub(super) fn finish(&self, client: usize) {
        self.record(Event::Finished { client });
        self.lock().finished[client] = true;
    }

    pub(super) fn all_finished(&self) -> bool {
        self.lock().finished.iter().all(|finished| *finished)
    }

    /// Requests that a client is cut off from all servers for a while, as if it did not run.
    pub(super) fn request_pause(&self, client: usize, pause: Duration) {
        self.lock().pauses.push((client, pause));
    }

    pub(super) fn take_pauses(&self) -> Vec<(usize, Duration)> {
        std::mem::take(&mut self.lock().pauses)
    }

    /// The servers that a client has as masters from its next start.
    pub(super) fn list(&self, client: usize) -> Vec<usize> {
        self.lock().lists[client].clone()
    }

    pub(super) fn set_list(&self, client: usize, list: Vec<usize>) {
        self.lock().lists[client] = list;
    }

    pub(super) fn set_uplink(&self, client: usize, uplink: UnboundedSender<Dial>) {
        self.lock().uplinks[client] = Some(uplink);
    }

    /// Opens the connections of a client. `None` before its host has started.
    pub(super) fn uplink(&self, client: usize) -> Option<UnboundedSender<Dial>> {
        self.lock().uplinks[client].clone()
    }

    /// The server to which an address leads now.
    pub(super) fn behind(&self, address: usize) -> usize {
        address + self.lock().elsewhere
    }

    pub(super) fn is_elsewhere(&self) -> bool {
        self.lock().elsewhere > 0
    }

    /// Lets all addresses lead to servers whose numbers are higher by this.
    pub(super) fn lead_elsewhere(&self, by: usize) {
        self.lock().elsewhere = by;
    }

    /// Sends a delegation to whichever client takes it first. Returns its id.
    pub(super) fn delegate(&self, client: usize, resource: usize, credential: &str) -> usize {
        let delegations = &mut self.lock().delegations;
        let credential = credential.to_owned();
        delegations.push(Delegated { client, resource, credential, is_taken: false, is_answered: false });
        delegations.len() - 1
    }

    /// The next delegation of another client: its id, the resource and the credential.
    pub(super) fn take_delegation(&self, client: usize) -> Option<(usize, usize, String)> {
        let delegations = &mut self.lock().delegations;
        let id = delegations.iter().position(|delegated| !delegated.is_taken && delegated.client != client)?;
        delegations[id].is_taken = true;
        Some((id, delegations[id].resource, delegations[id].credential.clone()))
    }

    pub(super) fn answer(&self, delegation: usize) {
        self.lock().delegations[delegation].is_answered = true;
    }

    pub(super) fn is_answered(&self, delegation: usize) -> bool {
        self.lock().delegations[delegation].is_answered
    }

    /// From now on, the wake-ups of a client are lost on their way.
    pub(super) fn deafen(&self, client: usize) {
        self.lock().deaf.insert(client);
    }

    pub(super) fn is_deaf(&self, client: usize) -> bool {
        self.lock().deaf.contains(&client)
    }

    /// Counts a request or a wake-up of a client, by its kind.
    pub(super) fn count(&self, kind: &'static str) {
        *self.lock().activity.entry(kind).or_default() += 1;
    }

    /// How many requests of each kind the clients sent, and how many wake-ups they got.
    pub(super) fn activity(&self) -> BTreeMap<&'static str, u64> {
        self.lock().activity.clone()
    }

    /// Takes the history, and the resources as they are at the end of the run.
    pub(super) fn outcome(&self) -> (History, BTreeMap<String, Register>) {
        let mut shared = self.lock();
        (std::mem::take(&mut shared.history), shared.registers.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The virtual time, for what runs on a host or on a machine. It is the same for all, and true.
pub(super) fn now() -> Duration {
    machine::now().or_else(turmoil::sim_elapsed).unwrap_or_default()
}
