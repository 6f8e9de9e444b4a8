//! Clients and nodes without a network: every step is carried out at once.

mod changing;
mod forming;
mod joining;
mod leaving;

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::node::{Division, FenceReading, FoundRecord, Inspection, NodeRecord, RecordWrite};

const MAX_TTL: Duration = Duration::from_secs(60);
const SECOND: u64 = 1_000_000;
/// After it, whatever a client waits for before it proposes again is over.
const PAUSE: Duration = Duration::from_secs(1);

/// A node: what the scripts do.
struct Node {
    up: bool,
    run: u32,
    clock: u64,
    record: Option<NodeRecord>,
    fence: u64,
    /// How many writes it executed.
    log: u64,
}

struct World {
    nodes: BTreeMap<&'static str, Node>,
    /// The time on the clocks of the clients.
    now: Duration,
    next: u64,
}

struct Client {
    membership: Membership,
    /// When it last looked at the nodes.
    now: Duration,
    names: Vec<&'static str>,
}

impl World {
    fn new(names: &[&'static str]) -> Self {
        let node = || Node { up: true, run: 1, clock: 1000 * SECOND, record: None, fence: 0, log: 0 };
        Self { nodes: names.iter().map(|name| (*name, node())).collect(), now: Duration::ZERO, next: 0 }
    }

    fn node(&mut self, name: &str) -> &mut Node {
        self.nodes.get_mut(name).unwrap()
    }

    fn forget(&mut self, name: &str) {
        let node = self.node(name);
        (node.record, node.fence, node.run) = (None, 0, node.run + 1);
    }

    fn pass(&mut self, seconds: u64) {
        self.nodes.values_mut().for_each(|node| node.clock += seconds * SECOND);
        self.now += Duration::from_secs(seconds);
    }

    /// Lets a client do what it wants until there is nothing left to do.
    fn settle(&mut self, client: &mut Client) {
        for _ in 0..100 {
            self.look(client);
            if !self.step(client) {
                return;
            }
        }
        panic!("the client goes on and on");
    }

    fn inspect(&self, name: &str) -> Option<Inspection> {
        let node = &self.nodes[name];
        node.up.then(|| Inspection {
            run_id: format!("{name}-{}", node.run),
            log_position: Some(node.log),
            durable: true,
            clock_micros: node.clock,
            record: node.record.clone().map_or(FoundRecord::None, FoundRecord::Record),
        })
    }

    fn look(&self, client: &mut Client) {
        client.now = self.now;
        for (index, name) in client.names.iter().enumerate() {
            let seen = self.inspect(name);
            client.membership.observe(index, seen, self.now);
        }
    }

    /// Carries out one round of steps. Returns whether there were any.
    fn step(&mut self, client: &mut Client) -> bool {
        let next = &mut self.next;
        let steps = client.membership.steps(self.now + PAUSE, 77, &mut || {
            *next += 1;
            *next
        });
        let any = !steps.is_empty();
        for step in steps {
            match step {
                Step::Write { node, write } => {
                    let written = self.node(client.names[node]).write(&write);
                    if let Some(record) = written {
                        client.membership.written(node, record, client.now);
                    }
                }
                Step::ReadFence { node, roster } => {
                    let read = &self.nodes[client.names[node]];
                    let Some(record) = &read.record else { continue };
                    let reading = FenceReading { member: record.member, highest: read.fence };
                    client.membership.fence_read(node, roster, reading);
                }
            }
        }
        any
    }
}

impl Node {
    fn write(&mut self, write: &RecordWrite) -> Option<NodeRecord> {
        let record = write.apply(self.record.as_ref(), self.clock).filter(|_| self.up)?;
        self.log += 1;
        self.fence = self.fence.max(write.floor.unwrap_or_default());
        self.record = Some(record.clone());
        Some(record)
    }
}

impl Client {
    fn new(names: &[&'static str]) -> Self {
        Self::with(names, |_| {})
    }

    fn with(names: &[&'static str], configure: impl FnOnce(&mut MembershipConfig)) -> Self {
        let mut config = MembershipConfig {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            max_ttl: MAX_TTL,
            set_name: String::new(),
            division: Division::default(),
            form_with_missing: false,
            assume_durable: false,
            passive: false,
        };
        configure(&mut config);
        Self { membership: Membership::new(config, names.len() as u64), now: Duration::ZERO, names: names.to_vec() }
    }

    /// `a` for admitted, `q` for in quarantine, `-` for anything else.
    fn standings(&self) -> String {
        let letter = |node| match self.membership.standing(node, self.now) {
            Standing::Admitted { .. } => 'a',
            Standing::Quarantined(_) => 'q',
            _ => '-',
        };
        (0..self.names.len()).map(letter).collect()
    }

    fn reason(&self, node: usize) -> String {
        match self.membership.standing(node, self.now) {
            Standing::NotMember(reason) => reason.to_string(),
            other => format!("{other:?}"),
        }
    }

    fn generation(&self) -> u64 {
        self.membership.roster().map_or(0, |roster| roster.generation)
    }
}

const LIST: [&str; 3] = ["1", "2", "3"];
const NEW_LIST: [&str; 3] = ["1", "2", "4"];

/// Four nodes, of which the first three have formed a set.
fn formed() -> (World, Client) {
    let (mut world, mut client) = (World::new(&["1", "2", "3", "4"]), Client::new(&LIST));
    world.settle(&mut client);
    assert_eq!((client.standings().as_str(), client.generation()), ("aaa", 1));
    (world, client)
}
