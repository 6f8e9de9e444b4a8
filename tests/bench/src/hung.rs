//! One of five masters hangs: do callers notice?

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::contender::Contender;
use super::row::{Row, Unit};
use super::uncontended::cycle;
use super::{BoxError, MASTERS, Plan, child};
use lock_support::RedisCluster;

const PART: &str = "hung";
/// How long a master that continues needs to process what was sent to it.
const RECOVER: Duration = Duration::from_millis(300);
/// How long the peer may take: it waits for every master.
const PEER_TIMEOUT: Duration = Duration::from_secs(8);

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let (rounds, cycles) = plan.pick((5, 150), (2, 50));
    let cluster = RedisCluster::start(MASTERS).await;
    let masters = child::urls(&cluster);
    let ours = Contender::Ours.connect(&masters).await?;
    let (mut healthy, mut hung) = (Vec::new(), Vec::new());
    cycle(&ours, cycles).await?;
    for round in 0..rounds {
        healthy.push(cycle(&ours, cycles).await?.1);
        let stopped = Stopped::new(&cluster, round % MASTERS);
        hung.push(cycle(&ours, cycles).await?.1);
        drop(stopped);
        sleep(RECOVER).await;
    }
    let figure = "lock + unlock, one of five masters hung, p50";
    let ours = Row::new(PART, figure, Unit::Seconds, &hung).against("all healthy", &hung, &healthy).at_most(1.5);

    let peer = Contender::Rslock.connect(&masters).await?;
    let stopped = Stopped::new(&cluster, 0);
    let peer_cycle = timeout(PEER_TIMEOUT, cycle(&peer, plan.pick(3, 1))).await;
    drop(stopped);
    let (peer_times, failure) = match peer_cycle {
        Ok(Ok((_, whole))) => (vec![whole; hung.len()], None),
        Ok(Err(error)) => (Vec::new(), Some(format!("rslock failed: {error}"))),
        Err(_) => (Vec::new(), Some(format!("rslock did not lock and unlock within {PEER_TIMEOUT:?}"))),
    };
    let mut compared = Row::new(PART, figure, Unit::Seconds, &hung).against("rslock, hung", &hung, &peer_times);
    compared.notes.extend(failure);
    Ok(vec![ours, compared])
}

/// A master that is stopped until this is dropped.
struct Stopped<'a>(&'a RedisCluster, usize);

impl<'a> Stopped<'a> {
    fn new(cluster: &'a RedisCluster, server: usize) -> Self {
        cluster.servers[server].stop();
        Self(cluster, server)
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.servers[self.1].cont();
    }
}
