use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{LockError, LockGuard, LockManager, LossReason, RedisNode};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo, RedisResult};
use tokio::time::{sleep, timeout};

use super::chance::{Chance, mix};
use super::counting::CountingNode;
use super::history::{Call, Event};
use super::plan::{MAX_TTL, PATIENCE, PEACE, PREFIX, Plan};
use super::world::{World, now};

/// The port of all servers.
pub(super) const PORT: u16 = 6379;

/// The process of one client, from its start to its end: workers that take locks while there are faults, and after that every
/// lock a last time.
pub(super) async fn client(plan: Arc<Plan>, world: World, client: usize) -> turmoil::Result {
    let start = world.start(client);
    let locks = manager(&plan, &world, client, start)?;
    let workers = (0..plan.workers).map(|worker| {
        let chance = Chance::new(plan.seed, &[1, client as u64, start, worker as u64]);
        let worker = Worker { plan: Arc::clone(&plan), world: world.clone(), locks: locks.clone(), client, chance };
        tokio::spawn(worker.run())
    });
    for worker in join_all(workers).await {
        worker?;
    }
    sleep((plan.storm + PEACE).saturating_sub(now())).await;
    for resource in 0..plan.resources {
        farewell(&world, &locks, client, resource).await?;
    }
    locks.shutdown(Duration::from_secs(1)).await;
    world.finish(client);
    Ok(())
}

fn manager(plan: &Plan, world: &World, client: usize, start: u64) -> turmoil::Result<LockManager> {
    let nodes = (0..plan.servers.len()).map(|server| {
        let (name, dialled) = (Plan::server_name(server), world.clone());
        let node = RedisNode::from_factory(name.clone(), move || connect(dialled.clone(), client, name.clone()));
        CountingNode::new(node, world.clone())
    });
    let builder = LockManager::builder().prefix(PREFIX).max_ttl(MAX_TTL).ttl(MAX_TTL).nodes(nodes);
    // No two managers, of any client or start, may draw the same owner ids.
    Ok(builder.seed(mix(plan.seed ^ mix(client as u64 ^ (start << 32)))).connect_lazy()?)
}

/// A connection of redis-rs over the simulated network, as a service's factory would make it.
async fn connect(world: World, client: usize, server: String) -> RedisResult<MultiplexedConnection> {
    let stream = turmoil::net::TcpStream::connect((server, PORT)).await?;
    let stream = world.sockets().add(&Plan::client_name(client), stream);
    let info = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
    let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    let (connection, driver) = MultiplexedConnection::new_with_config(&info, stream, config).await?;
    tokio::spawn(driver);
    Ok(connection)
}

/// Takes a lock when there are no faults any more. That must succeed, and nothing may end it.
async fn farewell(world: &World, locks: &LockManager, client: usize, resource: usize) -> turmoil::Result {
    let deadline = now() + PATIENCE;
    loop {
        let call = world.call(client, resource);
        let wait = deadline.saturating_sub(now());
        world.note(Event::Asked { call, ttl: MAX_TTL, wait });
        match locks.lock(Plan::resource_name(resource)).wait(wait).acquire().await {
            Ok(guard) => {
                granted(world, call, &guard);
                sleep(Duration::from_millis(20)).await;
                return match release(world, call, guard).await {
                    OURS => Ok(()),
                    answer => Err(format!("{call} held its lock in peace, and then it was {answer}").into()),
                };
            }
            Err(error) => world.note(Event::Failed { call, why: kind(&error) }),
        }
        if now() >= deadline {
            return Err(format!("{call} never got its lock").into());
        }
        sleep(Duration::from_millis(50)).await;
    }
}

struct Worker {
    plan: Arc<Plan>,
    world: World,
    locks: LockManager,
    client: usize,
    chance: Chance,
}

impl Worker {
    async fn run(mut self) {
        sleep(self.chance.millis(0, 20)).await;
        while now() < self.plan.storm {
            self.attempt().await;
            sleep(self.chance.pick(&[0, 0, 5, 20, 100]).millis()).await;
        }
    }

    /// Asks for a lock once, and does its work if it gets it.
    async fn attempt(&mut self) {
        let resource = usize::try_from(self.chance.between(0, self.plan.resources as u64 - 1)).unwrap_or_default();
        // Often the same: a lock is handed on only to one who wants it for as long.
        let ttl = self.chance.pick(&[150, 300, 300, 300, 600, 1000]).millis();
        let wait = self.chance.pick(&[0, 200, 1000, 2000, 2000]).millis();
        let request =
            self.locks.lock(Plan::resource_name(resource)).ttl(ttl).wait(wait).renew(!self.chance.percent(20));
        let request = if self.chance.percent(5) { request.max_hold(ttl.mul_f64(1.5)) } else { request };
        let call = self.world.call(self.client, resource);
        self.world.note(Event::Asked { call, ttl, wait });
        let patience = if self.chance.percent(15) { self.chance.millis(0, 60) } else { Duration::MAX };
        match timeout(patience, request.acquire()).await {
            Ok(Ok(guard)) => {
                granted(&self.world, call, &guard);
                self.hold(call, guard, ttl).await;
            }
            Ok(Err(error)) => self.world.note(Event::Failed { call, why: kind(&error) }),
            Err(_) => self.world.note(Event::Dropped { call }),
        }
    }

    /// Works under a lock, in one of several ways, and releases it.
    async fn hold(&mut self, call: Call, guard: LockGuard, ttl: Duration) {
        let token = guard.token().get();
        if self.chance.percent(90) {
            // A call to a resource takes time; the holder may be paused or lose its lease in any of these.
            sleep(self.chance.millis(0, 4)).await;
            let value = self.world.with_register(call.resource, |register| register.read(token));
            match self.chance.between(0, 19) {
                // Stops for longer than its lease may last, and does not look at it when it goes on.
                0 | 1 => {
                    let pause = ttl.mul_f64(1.3);
                    self.world.ask_for_pause(self.client, pause);
                    sleep(pause).await;
                }
                // Long work, which renewal must carry.
                2 | 3 => sleep(ttl.mul_f64(1.6)).await,
                _ => sleep(self.chance.millis(0, 30)).await,
            }
            if let Some(value) = value {
                let accepted = self.world.with_register(call.resource, |register| register.write(token, value + 1));
                self.world.note(Event::Wrote { call, token, accepted });
            }
        }
        if self.chance.percent(70) {
            release(&self.world, call, guard).await;
        }
    }
}

/// Notes a grant, and in time the end of the lease as its holder is told of it.
fn granted(world: &World, call: Call, guard: &LockGuard) {
    let lease = guard.lease();
    world.note(Event::Granted { call, token: lease.token().get(), remaining: lease.remaining() });
    let world = world.clone();
    tokio::spawn(async move {
        lease.lost().await;
        let why = match lease.check() {
            Err(LockError::Lost { reason: LossReason::Released, .. }) => "released",
            Err(LockError::Lost { reason: LossReason::Expired, .. }) => "expired",
            Err(LockError::Lost { reason: LossReason::Gone, .. }) => "gone",
            Err(LockError::Lost { reason: LossReason::MaxHold, .. }) => "max_hold",
            Err(_) => "otherwise",
            Ok(()) => "still valid",
        };
        world.note(Event::Ended { call, why });
    });
}

async fn release(world: &World, call: Call, guard: LockGuard) -> &'static str {
    let answer = match guard.release().await {
        Ok(true) => OURS,
        Ok(false) => "lost before",
        Err(_) => "no quorum",
    };
    world.note(Event::Released { call, answer });
    answer
}

/// The answer to a release by which all was well.
const OURS: &str = "ours to the end";

fn kind(error: &LockError) -> &'static str {
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
