use std::sync::Arc;
use std::time::Duration;

use turmoil::Sim;

use super::client::{PORT, client};
use super::machine::Machine;
use super::plan::Plan;
use super::socket::End;
use super::uplink::serve_uplink;
use super::world::{World, now};
use lock_fake_redis::FakeRedis;

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
        let (redis, stream) = (redis.clone(), world.sockets().add(&name, stream, End::Server)?);
        tokio::spawn(async move {
            let lost = stream.lost();
            tokio::select! {
                biased;
                // A broken connection is for the client to handle.
                _ = redis.serve(stream, now) => {}
                () = lost => {}
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::{Instant, sleep};
    use turmoil::net::TcpStream;

    use super::*;
    use crate::plan::Scenario;
    use crate::socket::{LOST_AFTER, Socket};
    use lock_fake_redis::NodeClock;

    async fn connect(world: &World, host: &str) -> Socket {
        let stream = TcpStream::connect(("redis", PORT)).await.unwrap();
        world.sockets().add(host, stream, End::Client).unwrap()
    }

    /// How many subscribers a message was sent to.
    async fn publish(caller: &mut Socket, message: &str) -> u8 {
        caller.write_all(format!("*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n$4\r\n{message}\r\n").as_bytes()).await.unwrap();
        let mut reply = [0; 4];
        caller.read_exact(&mut reply).await.unwrap();
        reply[1] - b'0'
    }

    /// Runs a caller beside a host that subscribes to the channel `c`, and keeps what it receives.
    fn with_subscriber<F>(caller: impl FnOnce(Socket, Arc<std::sync::Mutex<String>>) -> F + 'static)
    where
        F: Future<Output = ()> + 'static,
    {
        let world = World::new(&Plan::new(1, Scenario::Promised, None));
        let redis = FakeRedis::new("redis", NodeClock::default(), false, None);
        let mut sim = turmoil::Builder::new().tick_duration(TICK).simulation_duration(Duration::from_secs(60)).build();
        let of_server = world.clone();
        sim.host("redis", move || serve("redis".to_owned(), redis.clone(), of_server.clone()));
        let received = Arc::new(std::sync::Mutex::new(String::new()));
        let (of_subscriber, log) = (world.clone(), Arc::clone(&received));
        sim.host("subscriber", move || {
            let (world, log) = (of_subscriber.clone(), Arc::clone(&log));
            async move {
                let mut stream = connect(&world, "subscriber").await;
                stream.write_all(b"*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nc\r\n").await?;
                let mut bytes = [0; 100];
                loop {
                    let read = stream.read(&mut bytes).await?;
                    log.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..read]));
                }
            }
        });
        sim.client("caller", async move {
            let mut stream = connect(&world, "caller").await;
            while publish(&mut stream, "here").await == 0 {
                sleep(TICK).await;
            }
            caller(stream, received).await;
            Ok(())
        });
        sim.run().unwrap();
    }

    #[test]
    fn a_subscriber_that_is_cut_off_counts_until_its_server_notices() {
        with_subscriber(|mut caller, received| async move {
            sleep(LOST_AFTER).await;
            turmoil::partition_oneway("redis", "subscriber");
            assert_eq!(publish(&mut caller, "lost").await, 1);
            turmoil::repair_oneway("redis", "subscriber");
            let lost = Instant::now();
            while publish(&mut caller, "late").await > 0 {
                sleep(Duration::from_millis(50)).await;
            }
            let noticed = lost.elapsed();
            assert!(LOST_AFTER / 2 < noticed && noticed < LOST_AFTER * 3, "after {noticed:?}");
            let received = received.lock().unwrap();
            assert!(received.contains("here") && !received.contains("late"), "{received}");
        });
    }

    #[test]
    fn a_message_to_a_subscriber_is_as_late_as_its_link() {
        with_subscriber(|mut caller, received| async move {
            turmoil::hold("redis", "subscriber");
            assert_eq!(publish(&mut caller, "held").await, 1);
            sleep(LOST_AFTER / 2).await;
            assert!(!received.lock().unwrap().contains("held"));
            turmoil::release("redis", "subscriber");
            while !received.lock().unwrap().contains("held") {
                sleep(TICK).await;
            }
            sleep(LOST_AFTER * 2).await;
            assert_eq!(publish(&mut caller, "more").await, 1, "it was only late");
        });
    }
}
