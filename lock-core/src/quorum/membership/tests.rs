//! Clients and nodes without a network: every step is carried out at once.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::node::{FenceReading, FormerRecord, FoundRecord, Inspection, NodeRecord, Quarantine, RecordWrite, Role};

const MAX_TTL: Duration = Duration::from_secs(60);
const SECOND: u64 = 1_000_000;

/// A node: what the scripts do.
struct Node {
    up: bool,
    run: u32,
    clock: u64,
    record: Option<NodeRecord>,
    former: Option<FormerRecord>,
    fence: u64,
}

struct World {
    nodes: BTreeMap<&'static str, Node>,
    next: u64,
}

struct Client {
    membership: Membership,
    names: Vec<&'static str>,
}

impl World {
    fn new(names: &[&'static str]) -> Self {
        let node = || Node { up: true, run: 1, clock: 1000 * SECOND, record: None, former: None, fence: 0 };
        Self { nodes: names.iter().map(|name| (*name, node())).collect(), next: 0 }
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
            version: (7, 0),
            role: Role::Master,
            eviction_policy: "noeviction".into(),
            durable: true,
            clock_micros: node.clock,
            record: node.found(),
        })
    }

    fn look(&self, client: &mut Client) {
        for (index, name) in client.names.iter().enumerate() {
            let seen = self.inspect(name);
            client.membership.observe(index, seen, Duration::ZERO);
        }
    }

    /// Carries out one round of steps. Returns whether there were any.
    fn step(&mut self, client: &mut Client) -> bool {
        let next = &mut self.next;
        let steps = client.membership.steps(Duration::from_secs(9), 77, &mut || {
            *next += 1;
            *next
        });
        let any = !steps.is_empty();
        for step in steps {
            match step {
                Step::Write { node, write } => {
                    let written = self.node(client.names[node]).write(write);
                    if let Some(record) = written {
                        client.membership.written(node, record, Duration::ZERO);
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
    fn found(&self) -> FoundRecord {
        match (&self.record, &self.former) {
            (Some(record), _) => FoundRecord::Record(record.clone()),
            (None, Some(former)) => FoundRecord::Former(former.clone()),
            (None, None) => FoundRecord::None,
        }
    }

    fn write(&mut self, write: RecordWrite) -> Option<NodeRecord> {
        let present = self.record.as_ref().map(|record| (record.member, record.version));
        if !self.up || present != write.expected {
            return None;
        }
        let mut record = write.record;
        record.version = write.expected.map_or(1, |(_, version)| version + 1);
        if write.new_member {
            record.member.micros = self.clock;
        }
        let ends = |length: Duration| self.clock + u64::try_from(length.as_micros()).unwrap();
        let begun = write.begin.iter().map(|(member, length)| Quarantine { member: *member, ends: ends(*length) });
        record.quarantines.extend(begun);
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
            form_with_missing: false,
            observe_only: false,
            assume_durable: false,
        };
        configure(&mut config);
        Self { membership: Membership::new(config, names.len() as u64), names: names.to_vec() }
    }

    /// `a` for admitted, `q` for in quarantine, `-` for anything else.
    fn standings(&self) -> String {
        let letter = |node| match self.membership.standing(node, Duration::ZERO) {
            Standing::Admitted(_) => 'a',
            Standing::Quarantined(_) => 'q',
            _ => '-',
        };
        (0..self.names.len()).map(letter).collect()
    }

    fn reason(&self, node: usize) -> String {
        match self.membership.standing(node, Duration::ZERO) {
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

#[test]
fn a_set_is_formed_by_all_nodes_of_the_list_and_needs_no_quarantine() {
    let mut world = World::new(&LIST);
    let mut client = Client::new(&LIST);
    world.node("3").up = false;
    world.settle(&mut client);
    assert_eq!(client.standings(), "---");
    assert!(client.reason(0).contains("3 cannot be used"), "{}", client.reason(0));
    world.node("3").up = true;
    world.settle(&mut client);
    assert_eq!(client.standings(), "aaa");
}

#[test]
fn a_set_can_be_formed_with_a_node_missing_and_then_all_sit_out_a_quarantine() {
    let mut world = World::new(&LIST);
    let mut client = Client::with(&LIST, |config| config.form_with_missing = true);
    world.node("3").up = false;
    world.settle(&mut client);
    assert_eq!(client.standings(), "qq-");
    world.pass(70);
    world.settle(&mut client);
    assert_eq!(client.standings(), "aa-");
    world.node("3").up = true;
    world.settle(&mut client);
    assert_eq!(client.standings(), "aaq", "it takes the vacant seat");
}

#[test]
fn a_manager_that_only_looks_changes_nothing() {
    let mut world = World::new(&LIST);
    let mut looking = Client::with(&LIST, |config| config.observe_only = true);
    world.settle(&mut looking);
    assert_eq!(looking.standings(), "---");
    assert!(world.nodes.values().all(|node| node.record.is_none()));
    world.settle(&mut Client::new(&LIST));
    world.settle(&mut looking);
    assert_eq!(looking.standings(), "aaa");
}

#[test]
fn a_node_that_forgot_is_replaced_by_itself_and_sits_out_a_quarantine() {
    let (mut world, mut client) = formed();
    world.node("2").fence = 500;
    world.forget("3");
    world.settle(&mut client);
    assert_eq!((client.standings().as_str(), client.generation()), ("aaq", 2));
    assert_eq!(world.node("3").fence, 500, "the floor");
    world.pass(59);
    world.settle(&mut client);
    assert_eq!(client.standings(), "aaq");
    world.pass(3);
    world.settle(&mut client);
    assert_eq!(client.standings(), "aaa");
}

#[test]
fn a_node_that_restarted_with_its_record_has_forgotten_whatever_it_says() {
    let (mut world, mut client) = formed();
    world.node("3").run += 1;
    world.settle(&mut client);
    assert_eq!((client.standings().as_str(), client.generation()), ("aaq", 2));
}

#[test]
fn a_single_durable_node_needs_no_quarantine_if_it_is_trusted() {
    let mut world = World::new(&["1"]);
    let mut trusting = Client::with(&["1"], |config| config.assume_durable = true);
    world.settle(&mut trusting);
    world.node("1").run += 1;
    world.settle(&mut trusting);
    assert_eq!(trusting.standings(), "a");
    let mut careful = Client::new(&["1"]);
    world.node("1").run += 1;
    world.settle(&mut careful);
    assert_eq!(careful.standings(), "q");
}

#[test]
fn a_list_with_another_node_replaces_the_member_that_is_not_in_it() {
    let (mut world, mut old) = formed();
    let mut new = Client::new(&NEW_LIST);
    world.settle(&mut new);
    assert_eq!((new.standings().as_str(), new.generation()), ("aaq", 2));
    world.look(&mut old);
    assert!(old.reason(2).contains("since generation 2"), "before it has installed the roster: {}", old.reason(2));
    world.settle(&mut old);
    assert_eq!((old.standings().as_str(), old.generation()), ("aa-", 2));
    assert!(old.reason(2).contains("since generation 2"), "{}", old.reason(2));
    world.pass(70);
    world.settle(&mut new);
    world.settle(&mut old);
    assert_eq!(
        (new.standings().as_str(), old.standings().as_str()),
        ("aaa", "aa-"),
        "the old list changes nothing back"
    );
    world.node("3").run += 1;
    world.settle(&mut old);
    assert_eq!((old.standings().as_str(), old.generation()), ("aa-", 2), "nor when the node that left restarts");
}

#[test]
fn a_blank_node_does_not_take_the_seat_of_one_that_is_only_down() {
    let names = ["1", "2", "3", "4", "5"];
    let mut world = World::new(&names);
    world.settle(&mut Client::new(&names));
    let [seat_2, seat_5] = [1, 4].map(|node| world.node(names[node]).record.clone().unwrap().member);
    world.node("2").up = false;
    world.forget("5");
    // The list has other names for the same nodes.
    let mut other = Client::with(&names, |config| config.names.iter_mut().for_each(|name| name.push_str(".example")));
    world.settle(&mut other);
    assert_eq!((other.standings().as_str(), other.generation()), ("a-aa-", 1), "it cannot tell whose seat is free");
    let mut client = Client::new(&names);
    world.settle(&mut client);
    assert_eq!((client.standings().as_str(), client.generation()), ("a-aaq", 2));
    let roster = client.membership.roster().unwrap();
    assert!(roster.contains(seat_2) && !roster.contains(seat_5));
}

#[test]
fn a_change_that_lost_its_floor_can_be_ended_by_forming_the_set_anew() {
    let (mut world, _) = formed();
    let mut new = Client::new(&NEW_LIST);
    for _ in 0..20 {
        world.look(&mut new);
        if new.generation() == 2 {
            break;
        }
        world.step(&mut new);
    }
    world.forget("2");
    world.settle(&mut new);
    assert_eq!(new.standings().matches('a').count(), 1, "one of the members of the roster before is not enough");
    let mut told = Client::with(&NEW_LIST, |config| config.form_with_missing = true);
    world.settle(&mut told);
    assert_eq!(told.standings(), "qqq");
}

#[test]
fn a_manager_that_knew_only_one_member_forms_the_set_again_when_all_are_gone() {
    let (mut world, _) = formed();
    let mut client = Client::new(&LIST);
    world.node("2").up = false;
    world.node("3").up = false;
    world.look(&mut client);
    for name in LIST {
        world.node(name).up = true;
        world.forget(name);
    }
    world.settle(&mut client);
    assert_eq!((client.standings().as_str(), client.generation()), ("qqq", 2));
}

#[test]
fn a_fresh_manager_follows_the_set_that_is_in_use() {
    let (mut world, _) = formed();
    let one_set = world.node("1").record.clone().unwrap();
    for name in LIST {
        world.forget(name);
    }
    let mut client = Client::new(&LIST);
    world.settle(&mut client);
    world.node("1").record = Some(NodeRecord { run_id: "1-2".into(), ..one_set });
    for list in [LIST, ["3", "2", "1"]] {
        let mut fresh = Client::new(&list);
        world.look(&mut fresh);
        assert_eq!(
            fresh.membership.roster().map(|roster| roster.set),
            client.membership.roster().map(|roster| roster.set)
        );
    }
}

#[test]
fn a_node_that_refuses_its_record_keeps_no_other_from_being_replaced() {
    let names = ["1", "2", "3", "4", "5"];
    let (mut world, mut client) = (World::new(&names), Client::new(&names));
    world.settle(&mut client);
    world.forget("4");
    world.forget("5");
    client.membership.pause(3, true);
    world.settle(&mut client);
    assert_eq!(client.standings(), "aaa-q");
    client.membership.pause(3, false);
    world.settle(&mut client);
    assert_eq!(client.standings(), "aaaqq");
}

#[test]
fn one_wrong_clock_ends_no_quarantine() {
    let (mut world, mut client) = formed();
    world.forget("3");
    world.settle(&mut client);
    world.node("3").clock += 3600 * SECOND;
    world.settle(&mut client);
    assert_eq!(client.standings(), "aaq", "its own");
    world.node("3").clock -= 3600 * SECOND;
    world.node("1").clock += 3600 * SECOND;
    world.settle(&mut client);
    assert_eq!(client.standings(), "aaq", "another's");
}

#[test]
fn a_manager_that_knew_the_set_never_takes_it_for_new() {
    let (mut world, mut client) = formed();
    for name in LIST {
        world.forget(name);
    }
    world.settle(&mut client);
    assert_eq!((client.standings().as_str(), client.generation()), ("qqq", 2));
    assert_eq!(world.node("1").fence, 77, "the clock is the fallback");
    world.pass(70);
    world.settle(&mut client);
    assert_eq!(client.standings(), "aaa");
}

#[test]
fn a_manager_that_holds_locks_of_a_forgotten_set_waits_until_they_have_ended() {
    let (mut world, mut client) = formed();
    for name in LIST {
        world.forget(name);
    }
    let mut fresh = Client::new(&LIST);
    world.settle(&mut fresh);
    assert_eq!((fresh.standings().as_str(), fresh.generation()), ("aaa", 1), "it cannot know");
    world.settle(&mut client);
    assert_eq!(client.standings(), "qqq");
}

#[test]
fn a_fresh_manager_does_not_form_a_set_around_a_member_that_remembers() {
    let (mut world, _) = formed();
    world.forget("2");
    world.forget("3");
    let mut fresh = Client::new(&LIST);
    world.settle(&mut fresh);
    assert_eq!((fresh.standings().as_str(), fresh.generation()), ("a--", 1));
    let mut told = Client::with(&LIST, |config| config.form_with_missing = true);
    world.settle(&mut told);
    assert_eq!((told.standings().as_str(), told.generation()), ("qqq", 2));
}

#[test]
fn a_set_whose_nodes_all_restarted_is_formed_again_after_a_quarantine() {
    let (mut world, _) = formed();
    world.node("2").fence = 900;
    LIST.iter().for_each(|name| world.node(name).run += 1);
    let mut fresh = Client::new(&LIST);
    world.settle(&mut fresh);
    assert_eq!((fresh.standings().as_str(), fresh.generation()), ("qqq", 2));
    assert_eq!(world.node("1").fence, 900);
}

#[test]
fn two_lists_that_differ_in_a_node_do_not_form_two_sets() {
    let mut world = World::new(&["1", "2", "3", "4"]);
    let (mut one, mut other) = (Client::new(&LIST), Client::with(&NEW_LIST, |_| {}));
    other.membership.proposals = super::proposal::Proposals::new(99);
    for _ in 0..60 {
        world.look(&mut one);
        world.step(&mut one);
        world.look(&mut other);
        world.step(&mut other);
    }
    let sets: Vec<_> =
        [&one, &other].iter().filter_map(|client| client.membership.roster().map(|roster| roster.set)).collect();
    assert!(sets.windows(2).all(|pair| pair[0] == pair[1]), "{sets:?}");
}

#[test]
fn a_node_of_the_same_name_is_not_the_one_that_accepted_the_first_roster() {
    let mut world = World::new(&["1", "2", "3", "4"]);
    let mut one = Client::new(&LIST);
    // Ids, promises and acceptances, but no installs.
    for _ in 0..3 {
        world.look(&mut one);
        assert!(world.step(&mut one));
    }
    let mut other = Client::with(&NEW_LIST, |config| config.names[2] = "3".into());
    other.membership.proposals = super::proposal::Proposals::new(99);
    world.settle(&mut other);
    assert!(other.membership.roster().is_none());
    assert!(other.reason(0).contains("a set is being formed with 1, 2, 3"), "{}", other.reason(0));
    world.settle(&mut one);
    assert_eq!(one.standings(), "aaa");
    world.settle(&mut other);
    assert_eq!((other.standings().as_str(), other.generation()), ("aaq", 2), "it is replaced by a change");
}

#[test]
fn a_set_whose_node_forgot_while_it_was_formed_is_formed_again_when_somebody_says_so() {
    let mut world = World::new(&LIST);
    let mut client = Client::new(&LIST);
    for _ in 0..3 {
        world.look(&mut client);
        assert!(world.step(&mut client));
    }
    world.forget("2");
    let mut fresh = Client::new(&LIST);
    world.settle(&mut fresh);
    assert_eq!(fresh.standings(), "---");
    let mut told = Client::with(&LIST, |config| config.form_with_missing = true);
    world.settle(&mut told);
    assert_eq!((told.standings().as_str(), told.generation()), ("qqq", 2));
    world.settle(&mut client);
    assert_eq!((client.standings().as_str(), client.generation()), ("qqq", 2));
}

#[test]
fn a_client_that_reads_old_records_does_not_use_a_ballot_twice() {
    let (mut world, mut client) = formed();
    world.forget("3");
    let old: Vec<_> = (0..2).map(|node| client.membership.nodes[node].seen.clone()).collect();
    let ballots = |world: &World| LIST.map(|name| world.nodes[name].record.as_ref().and_then(|record| record.promised));
    // An id, and promises.
    for _ in 0..2 {
        world.look(&mut client);
        assert!(world.step(&mut client));
    }
    let before = ballots(&world);
    // Replies that were on their way since before the promises, while nobody needs a seat.
    client.membership.observe(2, None, Duration::ZERO);
    old.into_iter().enumerate().for_each(|(node, seen)| client.membership.observe(node, seen, Duration::ZERO));
    assert!(!world.step(&mut client));
    // Another memory needs one.
    world.forget("3");
    let seen = |client: &mut Client, world: &World, node: usize| {
        let mut looked = Client::new(&LIST);
        world.look(&mut looked);
        client.membership.observe(node, looked.membership.nodes[node].seen.clone(), Duration::ZERO);
    };
    seen(&mut client, &world, 2);
    world.step(&mut client);
    seen(&mut client, &world, 2);
    world.step(&mut client);
    world.look(&mut client);
    world.step(&mut client);
    let after = ballots(&world);
    assert!(before[0].is_some() && before[0] < after[0], "{before:?} {after:?}");
}

#[test]
fn a_longer_max_ttl_is_a_change_and_a_shorter_one_is_not() {
    let (mut world, mut client) = formed();
    let mut longer = Client::with(&LIST, |config| config.max_ttl = 2 * MAX_TTL);
    world.settle(&mut longer);
    assert_eq!((longer.standings().as_str(), longer.generation()), ("aaa", 2));
    world.settle(&mut client);
    assert_eq!((client.standings().as_str(), client.generation()), ("aaa", 2));
    client.membership.request(Some(Change::LowerMaxTtl(MAX_TTL)));
    world.settle(&mut client);
    let roster = client.membership.roster().unwrap();
    assert_eq!((roster.max_ttl, roster.quarantine_ttl), (MAX_TTL, 2 * MAX_TTL), "joins sit out the old one");
    client.membership.request(Some(Change::LowerQuarantine { generation: 2 }));
    world.settle(&mut client);
    assert_eq!(client.generation(), 3, "it may have been raised since");
    client.membership.request(Some(Change::LowerQuarantine { generation: 3 }));
    world.settle(&mut client);
    assert_eq!(client.membership.roster().unwrap().quarantine_ttl, MAX_TTL);
}

#[test]
fn masters_are_replaced_one_after_another() {
    let mut world = World::new(&["1", "2", "3", "4", "5", "6"]);
    let lists = [["1", "2", "3"], ["1", "2", "4"], ["1", "5", "4"], ["6", "5", "4"]];
    for (generation, list) in (1..).zip(lists) {
        let mut client = Client::new(&list);
        world.settle(&mut client);
        world.pass(70);
        world.settle(&mut client);
        assert_eq!((client.standings().as_str(), client.generation()), ("aaa", generation), "{list:?}");
    }
}

#[test]
fn a_set_of_the_former_format_is_formed_again_after_its_own_quarantine() {
    let mut world = World::new(&LIST);
    let former = FormerRecord { nodes: 3, max_ttl: MAX_TTL, set_name: String::new() };
    LIST.iter().for_each(|name| world.node(name).former = Some(former.clone()));
    let mut other = Client::new(&["1"]);
    world.settle(&mut other);
    assert!(matches!(other.membership.standing(0, Duration::ZERO), Standing::Refused(_)), "another number of nodes");

    let mut brief = Client::with(&LIST, |config| config.max_ttl = Duration::from_secs(1));
    world.node("3").up = false;
    world.settle(&mut brief);
    assert!(brief.reason(0).contains("3 cannot be used"), "{}", brief.reason(0));
    world.node("3").up = true;
    world.settle(&mut brief);
    assert_eq!((brief.standings().as_str(), brief.generation()), ("qqq", 2));
    world.pass(59);
    world.settle(&mut brief);
    assert_eq!(brief.standings(), "qqq", "locks of the former set may live for that long");
    world.pass(3);
    world.settle(&mut brief);
    assert_eq!(brief.standings(), "aaa");
}

#[test]
fn no_set_is_formed_without_a_node_that_was_not_tried() {
    let (mut world, _) = formed();
    world.forget("1");
    world.forget("2");
    let mut client = Client::with(&LIST, |config| {
        (config.form_with_missing, config.max_ttl) = (true, Duration::from_secs(1));
    });
    for steps in [true, false] {
        for (node, name) in LIST.iter().enumerate().take(2) {
            client.membership.observe(node, world.inspect(name), Duration::ZERO);
        }
        assert_eq!(world.step(&mut client), steps, "they get ids, and no more");
    }
    world.settle(&mut client);
    assert_eq!((client.standings().as_str(), client.generation()), ("qqq", 2));
    assert_eq!(client.membership.roster().unwrap().quarantine_ttl, MAX_TTL, "that of the set which was lost");
}
