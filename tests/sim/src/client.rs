use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::node::Network;
use lock_core::{Kind as LockKind, Lease, LockError, LockGuard, LockManager, LossReason, RedisNode};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo, RedisResult};
use tokio::time::{sleep, timeout};

use super::counting::CountingNode;
use super::history::{Call, Event};
use super::line::HOLD;
use super::mixed::Kind;
use super::plan::{FINAL_WAIT, MAX_TTL, PREFIX, Plan, Scenario};
use super::rng::{Rng, splitmix64};
use super::uplink::dial;
use super::world::{World, now};

/// How many of a hundred managers have two addresses of one master in their list.
const TWICE: u64 = 10;

/// What distinguishes the manager with a mended list from those of all starts of a client.
const MENDED: u64 = 1 << 16;

/// The port of all servers.
pub(super) const PORT: u16 = 6379;

/// The process of one client: its workers take locks while there are faults, and afterwards it acquires each lock once more.
pub(super) async fn client(plan: Arc<Plan>, world: World, client: usize) -> Result<(), String> {
    let start = world.start(client);
    let mut rng = Rng::new(plan.seed, &[5, client as u64, start]);
    let list = world.list(client);
    let twice = (plan.scenario == Scenario::Promised && rng.percent(TWICE)).then(|| Twice::draw(&list, &mut rng));
    let is_wrong = twice.is_some();
    let locks = manager(&plan, &world, client, start, twice.as_ref())?;
    let worker = |worker: usize| {
        let rng = Rng::new(plan.seed, &[1, client as u64, start, worker as u64]);
        let mixer = Rng::new(plan.seed, &[4, client as u64, start, worker as u64]);
        Worker { plan: Arc::clone(&plan), world: world.clone(), locks: locks.clone(), client, rng, mixer }
    };
    // One more has no locks of its own: it adopts those that other clients delegate.
    let adopter = tokio::spawn(worker(plan.workers).adopt());
    let workers = (0..plan.workers).map(|number| tokio::spawn(worker(number).run()));
    for worker in join_all(workers.chain([adopter])).await {
        worker.map_err(|error| error.to_string())?;
    }
    let locks = if is_wrong {
        // Somebody mends its list before it lines up.
        locks.shutdown(Duration::from_secs(1)).await;
        manager(&plan, &world, client, start + MENDED, None)?
    } else {
        locks
    };
    // A client that was started when its workers had no time left connects, too.
    locks.health().await;
    sleep(plan.lines_up().saturating_sub(now())).await;
    // After a majority forgot, it may take a person to form the set again.
    if plan.scenario != Scenario::Amnesia {
        for resource in 0..plan.resources {
            acquire_after_faults(&world, &locks, client, resource).await?;
        }
    }
    locks.shutdown(Duration::from_secs(1)).await;
    world.finish(client);
    Ok(())
}

fn manager(
    plan: &Plan,
    world: &World,
    client: usize,
    start: u64,
    twice: Option<&Twice>,
) -> Result<LockManager, String> {
    let builder = LockManager::builder().prefix(PREFIX).max_ttl(MAX_TTL).ttl(MAX_TTL);
    // The managers of different clients, and of different starts of a client, must not draw the same owner ids.
    let builder = builder.seed(splitmix64(plan.seed ^ splitmix64(client as u64 ^ (start << 32))));
    if plan.has_clusters() {
        let host = |server: usize| Plan::server_name(server);
        let seeds = (0..plan.masters).map(|master| plan.cluster(master).into_iter().map(host).collect::<Vec<_>>());
        let urls = seeds.map(|hosts| format!("redis://{}", hosts.join(",")));
        let builder = builder.redis_cluster_over(urls, Some(&network(world, client)));
        return builder.connect_lazy().map_err(|error| error.to_string());
    }
    let list = world.list(client);
    let nodes = list.iter().enumerate().map(|(seat, server)| {
        let (name, network, server) = (Plan::server_name(*server), world.clone(), *server);
        let node = match twice {
            Some(twice) if twice.seat == seat => {
                let (server, slow) = (twice.server, twice.slow);
                world.count("list with two addresses of one master");
                let name = format!("{}-again", Plan::server_name(server));
                world.record(Event::Fault(format!("client-{client} has {name} as a master, slow by {slow:?}")));
                RedisNode::from_factory(name, move |config| {
                    let connecting = connect(network.clone(), client, server, config);
                    async move {
                        sleep(slow).await;
                        connecting.await
                    }
                })
            }
            _ => RedisNode::from_factory(name, move |config| connect(network.clone(), client, server, config)),
        };
        CountingNode::new(node, world.clone(), client)
    });
    builder.nodes(nodes).connect_lazy().map_err(|error| error.to_string())
}

/// The simulated network, as a client finds the servers of clusters there.
fn network(world: &World, client: usize) -> Network {
    let world = world.clone();
    Network::new(move |host, _| {
        let (world, server) = (world.clone(), Plan::server_of(host));
        async move { dial(&world, client, server.ok_or(io::ErrorKind::AddrNotAvailable)?).await }
    })
}

/// In the place of one of its masters, the list of a client has a second and slow address of another one.
struct Twice {
    seat: usize,
    server: usize,
    slow: Duration,
}

impl Twice {
    fn draw(list: &[usize], rng: &mut Rng) -> Self {
        let seat = usize::try_from(rng.between(0, list.len() as u64 - 1)).unwrap_or_default();
        let others: Vec<usize> = list.iter().copied().filter(|server| *server != list[seat]).collect();
        Self { seat, server: rng.pick(&others), slow: rng.millis(0, 250) }
    }
}

/// Opens a connection of redis-rs over the simulated network, as the factory of a service would.
async fn connect(
    world: World,
    client: usize,
    address: usize,
    config: AsyncConnectionConfig,
) -> RedisResult<MultiplexedConnection> {
    let stream = dial(&world, client, address).await?;
    let info = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
    let (connection, driver) = MultiplexedConnection::new_with_config(&info, stream, config).await?;
    tokio::spawn(driver);
    Ok(connection)
}

/// Acquires a lock after the faults have ended. This must succeed, and the lease must not be lost, unless the machine was
/// frozen meanwhile: then the client lines up again.
async fn acquire_after_faults(
    world: &World,
    locks: &LockManager,
    client: usize,
    resource: usize,
) -> Result<(), String> {
    let deadline = now() + FINAL_WAIT;
    loop {
        let call = world.call(client, resource);
        let wait = deadline.saturating_sub(now());
        let suspensions = world.suspensions(client);
        world.record(Event::Began { call, ttl: MAX_TTL, wait });
        // Some of those in line read, and the others write.
        let name = Plan::resource_name(resource);
        let request = if (client + resource).is_multiple_of(3) { locks.read(name) } else { locks.lock(name) };
        match request.wait(wait).acquire().await {
            Ok(guard) => {
                granted(world, call, guard.lease());
                sleep(HOLD).await;
                match released(world, call, &guard.release().await) {
                    STILL_HELD => return Ok(()),
                    _ if world.suspensions(client) > suspensions => continue,
                    result => return Err(format!("{call} lost its lock after the faults had ended: {result}")),
                }
            }
            Err(error) => world.record(Event::Failed { call, why: kind(&error) }),
        }
        if now() >= deadline {
            return Err(format!("{call} never acquired its lock"));
        }
        sleep(Duration::from_millis(50)).await;
    }
}

pub(super) struct Worker {
    pub(super) plan: Arc<Plan>,
    pub(super) world: World,
    pub(super) locks: LockManager,
    pub(super) client: usize,
    /// For locks that are just written under.
    rng: Rng,
    /// For all other kinds, and for which kind comes next.
    pub(super) mixer: Rng,
}

impl Worker {
    async fn run(mut self) {
        sleep(self.rng.millis(0, 20)).await;
        while now() < self.plan.fault_phase {
            let kind = Kind::draw(&self.plan, &mut self.mixer);
            self.mix(kind).await;
            sleep(self.rng.pick(&[0, 0, 5, 20, 100]).millis()).await;
        }
    }

    /// Requests a lock once, and works under it if it is granted.
    pub(super) async fn attempt(&mut self) {
        let resource = usize::try_from(self.rng.between(0, self.plan.resources as u64 - 1)).unwrap_or_default();
        // Often the same, because a lock is handed over only to a caller with the same ttl.
        let ttl = self.rng.pick(&[150, 300, 300, 300, 600, 1000]).millis();
        let wait = self.rng.pick(&[0, 200, 1000, 2000, 2000]).millis();
        let request = self.locks.lock(Plan::resource_name(resource)).ttl(ttl).wait(wait).renew(!self.rng.percent(20));
        let request = if self.rng.percent(5) { request.max_hold(ttl.mul_f64(1.5)) } else { request };
        let call = self.world.call(self.client, resource);
        self.world.record(Event::Began { call, ttl, wait });
        let cancel_after = if self.rng.percent(15) { self.rng.millis(0, 60) } else { Duration::MAX };
        match timeout(cancel_after, request.acquire()).await {
            Ok(Ok(guard)) => {
                granted(&self.world, call, guard.lease());
                self.hold(call, guard, ttl).await;
            }
            Ok(Err(error)) => self.world.record(Event::Failed { call, why: kind(&error) }),
            Err(_) => self.world.record(Event::Dropped { call }),
        }
    }

    /// Works under a lock in one of several ways, and then releases it or drops the guard.
    async fn hold(&mut self, call: Call, guard: LockGuard, ttl: Duration) {
        let token = guard.token().get();
        if self.rng.percent(90) {
            // Access to a resource takes time, during which the holder may be paused or lose its lease.
            sleep(self.rng.millis(0, 4)).await;
            let value = self.world.with_register(guard.resource(), |register| register.read(token));
            match self.rng.between(0, 19) {
                // Pauses for longer than the lease lasts, and continues without checking it.
                0 | 1 => {
                    let pause = ttl.mul_f64(1.3);
                    self.world.request_pause(self.client, pause);
                    sleep(pause).await;
                }
                // Works for longer than the ttl, which requires renewal.
                2 | 3 => sleep(ttl.mul_f64(1.6)).await,
                _ => sleep(self.rng.millis(0, 30)).await,
            }
            if let Some(value) = value {
                let accepted = self.world.with_register(guard.resource(), |register| register.write(token, value + 1));
                self.world.record(Event::Wrote { call, token, accepted });
            }
        }
        if self.rng.percent(70) {
            released(&self.world, call, &guard.release().await);
        }
    }
}

/// Records a grant, and later the end of the lease.
pub(super) fn granted(world: &World, call: Call, lease: Lease) {
    let (token, reads, remaining) = (lease.token().get(), lease.kind() == LockKind::Read, lease.remaining());
    if let Some(slot) = lease.slot() {
        world.record(Event::Slot { call, slot });
    }
    world.record(Event::Granted { call, token, reads, remaining });
    record_end(world, call, lease);
}

/// Records the end of a lease as its holder is notified of it.
pub(super) fn record_end(world: &World, call: Call, lease: Lease) {
    let world = world.clone();
    tokio::spawn(async move {
        lease.lost().await;
        let why = match lease.check() {
            Err(LockError::Lost { reason: LossReason::Released, .. }) => "released",
            Err(LockError::Lost { reason: LossReason::Expired, .. }) => "expired",
            Err(LockError::Lost { reason: LossReason::Gone, .. }) => "gone",
            Err(LockError::Lost { reason: LossReason::MaxHold, .. }) => "max_hold",
            Err(LockError::Lost { reason: LossReason::SetLost, .. }) => "set lost",
            Err(_) => "another reason",
            Ok(()) => "still valid",
        };
        world.record(Event::Ended { call, why });
    });
}

/// Records a release, and returns its result.
pub(super) fn released(world: &World, call: Call, result: &Result<bool, LockError>) -> &'static str {
    let result = match result {
        Ok(true) => STILL_HELD,
        Ok(false) => "lost before the release",
        Err(_) => "no quorum",
    };
    world.record(Event::Released { call, result });
    result
}

/// The result of a release whose lease was not lost before.
pub(super) const STILL_HELD: &str = "still held";

pub(super) fn kind(error: &LockError) -> &'static str {
    match error {
        LockError::Contended { .. } => "contended",
        LockError::NoQuorum { .. } => "no quorum",
        LockError::Expired { .. } => "expired",
        LockError::Lost { .. } => "lost",
        _ => "another error",
    }
}

trait Millis {
    fn millis(self) -> Duration;
}

impl Millis for u64 {
    fn millis(self) -> Duration {
        Duration::from_millis(self)
    }
}
