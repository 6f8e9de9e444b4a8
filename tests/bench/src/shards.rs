//! Shards on the servers of a Redis Cluster: how much processor time does a cycle cost the busiest server, and how many connections are
//! there? Client and servers share the machine, so cycles a second do not grow with the servers here: what each server has to do shows
//! what it could carry on a machine of its own.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::LockManager;
use lock_support::{RedisServer, SlotCluster};

use super::contender::Locks;
use super::load::{Load, Release, Resources};
use super::row::{Row, Unit};
use super::{BoxError, Plan, fresh};

const PART: &str = "shards";
const PRIMARIES: [usize; 3] = [1, 2, 3];
const SHARDS: [u32; 4] = [1, 4, 16, 64];
const TASKS: usize = 64;

/// What one round showed.
#[derive(Clone, Copy)]
struct Round {
    cycles_per_second: f64,
    /// Seconds of the busiest server for a cycle of all.
    busiest: f64,
}

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let mut rows = Vec::new();
    let plain = RedisServer::start().await;
    let locks = LockManager::builder().redis([plain.url()]).connect().await?;
    let alone = rounds(plan, &locks, std::slice::from_ref(&plain)).await?;
    let mut on_one: Vec<Vec<Round>> = Vec::new();
    for primaries in PRIMARIES {
        let cluster = SlotCluster::start(primaries, 0).await;
        for (place, shards) in SHARDS.into_iter().enumerate() {
            // A prefix of its own: the number of shards is recorded.
            let builder = LockManager::builder().redis_cluster([cluster.url()]).shards(shards).prefix(fresh("shards"));
            let locks = builder.connect().await?;
            let measured = rounds(plan, &locks, &cluster.servers).await?;
            let of = |what: &str| format!("{what}, {shards} shards on {primaries} servers, {TASKS} tasks");
            let [cycles, busiest] = figures(&measured);
            rows.push(Row::new(PART, of("cycles"), Unit::PerSecond, &cycles));
            let row = Row::new(PART, of("time of the busiest server for a cycle"), Unit::Seconds, &busiest);
            let row = match (primaries, shards) {
                (1, 1) => row.against("redis, without a cluster", &busiest, &figures(&alone)[1]).at_most(1.2),
                (1, _) => row,
                _ => {
                    let row = row.against("1 server", &busiest, &figures(&on_one[place])[1]);
                    // With fewer shards, they cannot be on all servers alike.
                    if shards < 16 { row } else { row.at_most((120.0 / primaries as f64).round() / 100.0) }
                }
            };
            rows.push(row);
            let connections = clients(&cluster.servers).await;
            rows.push(Row::new(PART, of("connections"), Unit::Number, &[connections]).own_at_most(primaries as f64));
            if primaries == 1 {
                on_one.push(measured);
            }
            locks.shutdown(Duration::ZERO).await;
        }
    }
    Ok(rows)
}

/// Cycles a second, and the time of the busiest server, round by round.
fn figures(rounds: &[Round]) -> [Vec<f64>; 2] {
    [rounds.iter().map(|round| round.cycles_per_second).collect(), rounds.iter().map(|round| round.busiest).collect()]
}

async fn rounds(plan: &Plan, locks: &LockManager, servers: &[RedisServer]) -> Result<Vec<Round>, BoxError> {
    let (count, length) = plan.pick((4, Duration::from_millis(400)), (2, Duration::from_millis(200)));
    let mut rounds = Vec::new();
    // The first round warms up.
    for round in 0..=count {
        let before = cpu_times(servers).await;
        let (resources, inside) = (Resources::Distinct(fresh("distinct")), Duration::ZERO);
        let load = Load { tasks: TASKS, length, resources, release: Release::Awaited, inside };
        let done = load.run(&Locks::Ours(locks.clone())).await?;
        let after = cpu_times(servers).await;
        let busiest = before.iter().zip(after).map(|(before, after)| after - before).fold(0.0, f64::max);
        if round > 0 {
            rounds.push(Round { cycles_per_second: done.per_second(), busiest: busiest / done.cycles.max(1) as f64 });
        }
    }
    Ok(rounds)
}

/// The processor time that each server has used, in seconds.
async fn cpu_times(servers: &[RedisServer]) -> Vec<f64> {
    join_all(servers.iter().map(async |server| {
        let info: String = server.query("INFO cpu").await;
        let used = |field: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
            line.and_then(|seconds| seconds.trim().parse::<f64>().ok()).unwrap_or_default()
        };
        used("used_cpu_sys") + used("used_cpu_user")
    }))
    .await
}

/// How many connections lock managers have to the servers: all but the one that asks, and those of the cluster itself, which are not counted.
async fn clients(servers: &[RedisServer]) -> f64 {
    let counts = join_all(servers.iter().map(async |server| {
        let clients: String = server.query("CLIENT LIST TYPE normal").await;
        let listening: String = server.query("CLIENT LIST TYPE pubsub").await;
        clients.lines().chain(listening.lines()).filter(|line| !line.is_empty()).count()
    }))
    .await;
    counts.into_iter().map(|count| count.saturating_sub(1) as f64).sum()
}
