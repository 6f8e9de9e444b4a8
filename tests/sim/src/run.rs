use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::check::{all_permits_held, handovers, readers_beside_readers, violations};
use super::client::PORT;
use super::history::Event;
use super::hosts::Hosts;
use super::line::{longest_wait, overdue_waits};
use super::nemesis::Nemesis;
use super::plan::{FINAL_WAIT, Plan, Scenario, ServerPlan};
use super::world::World;
use lock_fake_redis::{FakeRedis, Flaw};

/// The result of one seed.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// The broken promises. Empty if none was broken.
    pub violations: Vec<String>,
    /// The history, one line for each event, and a hash of what each server executed. It is the same for the same seed.
    pub history: String,
    /// How many locks were granted.
    pub grants: u64,
    /// How many leases were lost.
    pub losses: u64,
    /// How many writes the resources refused.
    pub refused_writes: u64,
    /// The longest that a client waited in line after the faults.
    pub longest_wait: Duration,
    /// How many faults of each kind were injected.
    pub faults: BTreeMap<&'static str, u64>,
    /// How many requests of each kind there were, and how many wake-ups and handovers.
    pub activity: BTreeMap<&'static str, u64>,
}

/// Runs the simulation of a seed.
///
/// # Panics
///
/// If there is a flaw, and no script contains its pattern.
#[must_use]
pub fn run(seed: u64, scenario: Scenario, flaw: Option<Flaw>) -> Outcome {
    let plan = Plan::new(seed, scenario, flaw);
    let world = World::new(&plan);
    let server = |(number, settings): (usize, &ServerPlan)| {
        FakeRedis::new(Plan::server_name(number), settings.clock, settings.durable, plan.flaw)
    };
    let servers: Vec<_> = plan.servers.iter().enumerate().map(server).collect();
    if plan.has_clusters() {
        for servers_of in (0..plan.masters).map(|master| plan.cluster(master)) {
            let hosts: Vec<_> = servers_of.iter().map(|server| Plan::server_name(*server)).collect();
            servers_of.iter().for_each(|server| servers[*server].join_cluster(&hosts, PORT));
        }
    }
    if plan.insists {
        servers.iter().for_each(FakeRedis::insist_on_declarations);
    }
    let mut hosts = Hosts::new(&plan, &world, &servers);
    let mut nemesis = Nemesis::new(&plan, &world, &servers);
    let mut failures = Vec::new();
    while !world.all_finished() {
        nemesis.step(&mut hosts);
        if let Err(error) = hosts.step() {
            failures.push(format!("a host ended with an error: {error}"));
            break;
        }
        if hosts.elapsed() > plan.lines_up() + FINAL_WAIT + Duration::from_secs(5) {
            failures.push("not all clients finished".to_owned());
            break;
        }
    }
    let end = hosts.elapsed();
    drop(hosts);
    let missed: Option<Vec<_>> = servers.iter().map(FakeRedis::missed_flaw).collect();
    assert!(missed.is_none(), "no script contains the pattern of {flaw:?}: {missed:?}");
    if failures.is_empty() && scenario != Scenario::ClockJumps {
        for (server, redis) in servers.iter().enumerate().filter(|(server, _)| !nemesis.stepped_back(*server)) {
            failures
                .extend(redis.locks(plan.prefix(), end).iter().map(|lock| format!("{lock} is left on redis-{server}")));
        }
    }
    for key in servers.iter().flat_map(FakeRedis::undeclared) {
        failures.push(format!("a script uses {key}, which its command does not declare"));
    }
    outcome(&plan, &world, &servers, &nemesis, failures)
}

fn outcome(plan: &Plan, world: &World, servers: &[FakeRedis], nemesis: &Nemesis, failures: Vec<String>) -> Outcome {
    let (history, registers) = world.outcome();
    let count = |wanted: fn(&Event) -> bool| history.entries.iter().filter(|(_, event)| wanted(event)).count() as u64;
    let mut violations = violations(&history, &registers, plan.scenario);
    violations.extend(overdue_waits(&history, plan));
    violations.extend(failures);
    let mut text = format!("{plan:?}\n{history}");
    let mut activity = world.activity();
    for redis in servers {
        _ = writeln!(text, "{:016x}", redis.digest());
        for (name, times) in redis.done() {
            *activity.entry(name).or_default() += times;
        }
    }
    activity.insert("handed over", handovers(&history));
    activity.insert("reader beside a reader", readers_beside_readers(&history));
    activity.insert("run with all permits held", all_permits_held(&history));
    Outcome {
        seed: plan.seed,
        violations,
        history: text,
        grants: count(|event| matches!(event, Event::Granted { .. })),
        losses: count(|event| matches!(event, Event::Ended { why, .. } if *why != "released")),
        refused_writes: count(|event| matches!(event, Event::Wrote { accepted: false, .. })),
        longest_wait: longest_wait(&history, plan),
        faults: nemesis.counts().clone(),
        activity,
    }
}
