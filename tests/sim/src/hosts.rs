use std::sync::Arc;
use std::time::Duration;

use turmoil::Sim;

use super::client::{PORT, client};
use super::machine::Machine;
use super::plan::Plan;
use super::redis::FakeRedis;
use super::uplink::serve_uplink;
use super::world::{World, now};

/// The step of virtual time: the resolution of tokio's timers.
pub(super) const TICK: Duration = Duration::from_millis(1);

/// All that runs: the servers and the network in `sim`, and the clients on their machines.
pub(super) struct Hosts {
    pub(super) sim: Sim<'static>,
    machines: Vec<Machine>,
    plan: Arc<Plan>,
    world: World,
}

impl Hosts {
    pub(super) fn new(plan: &Plan, world: &World, servers: &[FakeRedis]) -> Self {
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
        for (server, redis) in servers.iter().enumerate() {
            let (name, redis, world) = (Plan::server_name(server), redis.clone(), world.clone());
            sim.host(name.clone(), move || serve(name.clone(), redis.clone(), world.clone()));
        }
        let (plan, world) = (Arc::new(plan.clone()), world.clone());
        for number in 0..plan.clients {
            let (name, world) = (Plan::client_name(number), world.clone());
            sim.host(name.clone(), move || serve_uplink(name.clone(), world.clone(), number));
        }
        let start = |number| Machine::start(client(Arc::clone(&plan), world.clone(), number));
        let machines = (0..plan.clients).map(start).collect();
        Self { sim, machines, plan, world }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.sim.elapsed()
    }

    /// Runs all of them for a tick. The error of one, if it ended with one.
    pub(super) fn step(&mut self) -> Result<(), String> {
        let now = self.elapsed();
        self.sim.step().map_err(|error| error.to_string())?;
        self.machines.iter_mut().try_for_each(|machine| machine.tick(now, TICK))
    }

    /// Ends the process of a server.
    pub(super) fn crash_server(&mut self, server: usize) {
        self.crash(&Plan::server_name(server));
    }

    pub(super) fn start_server(&mut self, server: usize) {
        self.sim.bounce(Plan::server_name(server));
    }

    /// Turns off the machine of a client.
    pub(super) fn crash_client(&mut self, client: usize) {
        // The network first: it carries nothing of what the machine says while it is dropped.
        self.crash(&Plan::client_name(client));
        self.machines[client].crash();
    }

    pub(super) fn start_client(&mut self, number: usize) {
        self.sim.bounce(Plan::client_name(number));
        self.machines[number] = Machine::start(client(Arc::clone(&self.plan), self.world.clone(), number));
    }

    /// The machine of a client.
    pub(super) fn machine(&mut self, client: usize) -> &mut Machine {
        &mut self.machines[client]
    }

    fn crash(&mut self, host: &str) {
        self.world.sockets().drop_connections(host);
        self.sim.crash(host);
    }
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
