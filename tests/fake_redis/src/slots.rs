//! A server as one of a Redis Cluster. One slot matters: all keys begin with the same hash tag.

use super::commands::State;
use super::database::{integer, upper};
use super::declarations;
use super::flaw::Flaw;
use super::resp::Reply;
use super::server::FakeRedis;

/// Its number is of no interest: all slots are on one server.
const SLOT: u16 = 42;

/// What a server knows of its cluster. Servers are named by their places in it.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    hosts: Vec<String>,
    port: u16,
    me: usize,
    /// Which server has the slot, as far as it knows.
    owner: usize,
    /// To which server the keys of the slot are going, one by one.
    leaving_to: Option<usize>,
    is_replica: bool,
    /// It misses most of the others.
    is_down: bool,
}

impl Slots {
    pub(super) fn role(slots: Option<&Self>) -> &'static str {
        if slots.is_some_and(|slots| slots.is_replica) { "slave" } else { "master" }
    }

    /// `CLUSTER SLOTS`: the one range of all slots, with its owner first.
    fn ranges(&self) -> Reply {
        let server = |place: usize| {
            let id = format!("id-of-{}", self.hosts[place]);
            Reply::List(vec![Reply::text(&self.hosts[place]), Reply::Number(self.port.into()), Reply::text(id)])
        };
        let others = (0..self.hosts.len()).filter(|place| *place != self.owner);
        let servers = [self.owner].into_iter().chain(others).map(server);
        Reply::List(vec![Reply::List([Reply::Number(0), Reply::Number(16_383)].into_iter().chain(servers).collect())])
    }

    fn at(&self, code: &str, place: usize) -> Reply {
        Reply::error(format!("{code} {SLOT} {}:{}", self.hosts[place], self.port))
    }
}

impl State {
    /// The reply to a command whose keys are elsewhere, or that is about the cluster.
    pub(super) fn on_slots(&mut self, name: &str, arguments: &[Vec<u8>], now: i64) -> Option<Reply> {
        let slots = self.slots.as_ref()?;
        if let ("CLUSTER", [subcommand]) = (name, arguments)
            && upper(subcommand) == "SLOTS"
        {
            return Some(slots.ranges());
        }
        let is_channel = matches!(name, "SPUBLISH" | "SSUBSCRIBE" | "SUNSUBSCRIBE");
        let keys = if is_channel { &arguments[..1] } else { keys_of(name, arguments) };
        if keys.is_empty() {
            return None;
        }
        let missing = keys.iter().filter(|key| !self.database.store.exists(key, now)).count();
        let (code, reply) = match slots.leaving_to {
            _ if slots.is_down => ("CLUSTERDOWN", Reply::error("CLUSTERDOWN The cluster is down")),
            _ if slots.owner != slots.me => ("MOVED", slots.at("MOVED", slots.owner)),
            Some(_) if self.flaw == Some(Flaw::ServesWhatIsLeft) || is_channel || missing == 0 => return None,
            Some(to) if missing == keys.len() => ("ASK", slots.at("ASK", to)),
            Some(_) => ("TRYAGAIN", Reply::error("TRYAGAIN Multiple keys request during rehashing of slot")),
            None => return None,
        };
        *self.database.done.entry(code).or_default() += 1;
        Some(reply)
    }
}

/// The keys of a command of a connection.
fn keys_of<'a>(name: &str, arguments: &'a [Vec<u8>]) -> &'a [Vec<u8>] {
    match (name, arguments) {
        ("EVAL" | "EVALSHA", [_, count, rest @ ..]) => {
            let count = integer(count).and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
            &rest[..count.min(rest.len())]
        }
        ("GET" | "SET" | "MGET" | "DEL" | "EXISTS" | "PTTL" | "HGET" | "HMGET" | "HGETALL" | "HSET", _) => {
            declarations::keys_of(name, arguments)
        }
        _ => &[],
    }
}

/// What happens to a server of a cluster.
impl FakeRedis {
    /// Makes it one of these servers of a cluster, all at one port. The first of them has the slot of all keys.
    pub fn join_cluster(&self, hosts: &[String], port: u16) {
        let me = hosts.iter().position(|host| *host == self.life().name).unwrap_or_default();
        let hosts = hosts.to_vec();
        let slots = Slots { hosts, port, me, owner: 0, leaving_to: None, is_replica: false, is_down: false };
        self.state().slots = Some(slots);
    }

    /// Begins to move the slot to another server, `CLUSTER SETSLOT` with `MIGRATING`.
    pub fn begin_to_move(&self, to: usize) {
        let state = &mut *self.state();
        state.database.is_leaving = state.flaw != Some(Flaw::ServesWhatIsLeft);
        state.slots.iter_mut().for_each(|slots| slots.leaving_to = Some(to));
    }

    /// Moves one of the keys to another server, `MIGRATE`. Returns whether there was one.
    pub fn move_key(&self, to: &Self, which: usize) -> bool {
        self.state().database.store.move_to(&mut to.state().database.store, which)
    }

    /// Learns who has the slot. What waits here for messages on the channels of a slot that is elsewhere is told, and hears no more.
    pub fn learn_owner(&self, owner: usize) {
        let state = &mut *self.state();
        let Some(slots) = &mut state.slots else { return };
        let left = slots.owner == slots.me && owner != slots.me;
        (slots.owner, slots.leaving_to, state.database.is_leaving) = (owner, None, false);
        if left {
            state.database.channels.end_sharded();
        }
    }

    /// Takes the place of a primary, whose replica it was, with what that had when it was [saved](Self::save).
    pub fn take_over(&self, from: &Self) {
        self.state().slots.iter_mut().for_each(|slots| slots.is_replica = true);
        self.become_primary();
        let store = from.life().saved.clone();
        let state = &mut *self.state();
        state.database.store = store;
        state.slots.iter_mut().for_each(|slots| slots.owner = slots.me);
    }

    /// Is a replica no more, if it was one: the history of its data is its own from now on. So only a primary gets a slot.
    pub fn become_primary(&self) {
        let (mut state, mut life) = (self.state(), self.life());
        if state.slots.as_ref().is_some_and(|slots| slots.is_replica) {
            life.histories += 1;
            state.replid = format!("{}-data-{}", life.name, life.histories);
        }
        state.slots.iter_mut().for_each(|slots| slots.is_replica = false);
    }

    /// Becomes a replica of who has the slot. Its own data is gone.
    pub fn become_replica(&self, owner: usize) {
        self.learn_owner(owner);
        let state = &mut *self.state();
        state.database.store.clear();
        state.slots.iter_mut().for_each(|slots| slots.is_replica = true);
    }

    /// Misses most of the others from now on, or meets them again.
    pub fn set_cluster_down(&self, is_down: bool) {
        self.state().slots.iter_mut().for_each(|slots| slots.is_down = is_down);
    }
}
