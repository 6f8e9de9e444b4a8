use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use turmoil::Sim;

use super::check::{handovers, violations};
use super::client::{PORT, client};
use super::history::Event;
use super::nemesis::Nemesis;
use super::plan::{FINAL_WAIT, PREFIX, Plan, RECOVERY, Scenario};
use super::redis::{FakeRedis, Flaw};
use super::world::{World, now};

/// The step of virtual time: the resolution of tokio's timers.
pub(super) const TICK: Duration = Duration::from_millis(1);

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
    let (mut sim, servers) = build(&plan, &world);
    let mut nemesis = Nemesis::new(&plan, &world, &servers);
    let mut failures = Vec::new();
    while !world.all_finished() {
        nemesis.step(&mut sim);
        if let Err(error) = sim.step() {
            failures.push(format!("a host ended with an error: {error}"));
            break;
        }
        if sim.elapsed() > plan.fault_phase + RECOVERY + FINAL_WAIT + Duration::from_secs(2) {
            failures.push("not all clients finished".to_owned());
            break;
        }
    }
    let end = sim.elapsed();
    drop(sim);
    let missed: Option<Vec<_>> = servers.iter().map(FakeRedis::missed_flaw).collect();
    assert!(missed.is_none(), "no script contains the pattern of {flaw:?}: {missed:?}");
    if failures.is_empty() && scenario != Scenario::ClockJumps {
        for (server, redis) in servers.iter().enumerate() {
            failures.extend(redis.locks(PREFIX, end).iter().map(|lock| format!("{lock} is left on redis-{server}")));
        }
    }
    outcome(&plan, &world, &servers, &nemesis, failures)
}

fn build(plan: &Plan, world: &World) -> (Sim<'static>, Vec<FakeRedis>) {
    let mut sim = turmoil::Builder::new()
        .rng_seed(plan.seed)
        .tick_duration(TICK)
        .epoch(std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000))
        .simulation_duration(Duration::from_secs(3600))
        // At least a tick, or a reply could arrive before its request was sent.
        .min_message_latency(TICK)
        .max_message_latency(Duration::from_millis(plan.latency))
        .tcp_capacity(1024)
        .build();
    let mut servers = Vec::new();
    for (server, settings) in plan.servers.iter().enumerate() {
        let name = Plan::server_name(server);
        let redis = FakeRedis::new(name.clone(), settings.clock, settings.durable, plan.flaw);
        servers.push(redis.clone());
        let world = world.clone();
        sim.host(name.clone(), move || serve(name.clone(), redis.clone(), world.clone()));
    }
    let plan = Arc::new(plan.clone());
    for number in 0..plan.clients {
        let (plan, world) = (Arc::clone(&plan), world.clone());
        sim.host(Plan::client_name(number), move || client(Arc::clone(&plan), world.clone(), number));
    }
    (sim, servers)
}

/// The process of a server.
async fn serve(name: String, redis: FakeRedis, world: World) -> turmoil::Result {
    let listener = turmoil::net::TcpListener::bind(("0.0.0.0", PORT)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let (redis, stream) = (redis.clone(), world.sockets().add(&name, stream));
        tokio::spawn(async move {
            // A broken connection is for the client to handle.
            _ = redis.serve(stream, now).await;
        });
    }
}

fn outcome(plan: &Plan, world: &World, servers: &[FakeRedis], nemesis: &Nemesis, failures: Vec<String>) -> Outcome {
    let (history, registers) = world.outcome();
    let count = |wanted: fn(&Event) -> bool| history.entries.iter().filter(|(_, event)| wanted(event)).count() as u64;
    let mut violations = violations(&history, &registers, plan.scenario);
    violations.extend(failures);
    let mut text = format!("{plan:?}\n{history}");
    let mut activity = world.requests();
    for redis in servers {
        _ = writeln!(text, "{:016x}", redis.digest());
        for (name, times) in redis.done() {
            *activity.entry(name).or_default() += times;
        }
    }
    activity.insert("handed over", handovers(&history));
    Outcome {
        seed: plan.seed,
        violations,
        history: text,
        grants: count(|event| matches!(event, Event::Granted { .. })),
        losses: count(|event| matches!(event, Event::Ended { why, .. } if *why != "released")),
        refused_writes: count(|event| matches!(event, Event::Wrote { accepted: false, .. })),
        faults: nemesis.counts().clone(),
        activity,
    }
}
