//! Masters a millisecond away, where each message counts: what do a lock and its unlock cost, and who waits for the slowest
//! master?

use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::post;
use lock_axum::LockLayer;

use super::commands::Meter;
use super::contender::{Contender, Locks};
use super::layer;
use super::link::{Distance, DistantMasters};
use super::processes::{Size, crowd};
use super::raw_quorum::RawQuorum;
use super::row::{Row, Unit};
use super::spread::{p50, p99};
use super::uncontended::{fan_out, times};
use super::{BoxError, MASTERS, Plan, Spread, fresh};

const PART: &str = "distance";
const EVEN: Distance = Distance { base: Duration::from_micros(500), jitter: Duration::ZERO, straggler: None };
const UNEVEN: Distance =
    Distance { jitter: Duration::from_micros(100), straggler: Some((200, Duration::from_millis(20))), ..EVEN };
/// Between two cycles of a caller. A caller without rest would send so much that three of five connections are often held up
/// by a straggler at once, which says more about the caller than about the lock.
const REST: Duration = Duration::from_millis(5);
/// What the figures are of.
const UNEVENLY: &str = "masters 1 ms away, uneven";
const EVENLY: &str = "masters 1 ms away, even";
/// The settings of the peer that may be the best for one key.
const PEERS: [Contender; 3] = [Contender::Rslock1ms, Contender::Rslock50ms, Contender::Rslock];

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let masters = DistantMasters::start(MASTERS, UNEVEN).await?;
    let mut rows = alone(plan, &masters, UNEVENLY).await?.map(Judged::judge).concat();
    rows[0].notes.push(
        "each way 0.5 ms and a jitter of 0.1 ms in the mean; one message in 200 takes 20 ms more, and delays those behind it; the caller rests 5 ms between cycles"
            .to_owned(),
    );
    rows.extend(guarded(plan, &masters).await?);
    rows.push(hot(plan, &masters).await?);
    drop(masters);
    let masters = DistantMasters::start(MASTERS, EVEN).await?;
    rows.extend(alone(plan, &masters, EVENLY).await?.map(|Judged(rows)| rows).concat());
    Ok(rows)
}

/// The median and the 99th percentile of one figure, ours and the peer's.
struct Judged([Row; 2]);

impl Judged {
    fn new(figure: &str, name: &str, ours: &[Vec<Duration>], peer: &[Vec<Duration>]) -> Self {
        let row = |what: &str, of: fn(Vec<Duration>) -> f64| {
            let [ours, peer] = [ours, peer].map(|rounds| rounds.iter().cloned().map(of).collect::<Vec<_>>());
            Row::new(PART, format!("{figure}, {what}"), Unit::Seconds, &ours).against(name, &ours, &peer)
        };
        Self([row("p50", p50), row("p99", p99)])
    }

    /// The peer waits for the slowest of five masters in every round, and the engine for the third.
    fn judge(self) -> [Row; 2] {
        let [p50, p99] = self.0;
        [p50.at_most(0.95), p99.at_most(0.25)]
    }
}

/// How many rounds, and how many cycles in each.
fn size(plan: &Plan) -> (usize, usize) {
    plan.pick((5, 200), (2, 150))
}

/// One caller that locks and unlocks.
async fn alone(plan: &Plan, masters: &DistantMasters, which: &str) -> Result<[Judged; 2], BoxError> {
    let ((rounds, cycles), urls) = (size(plan), masters.urls());
    let (ours, peer) = (Contender::Ours.connect(&urls).await?, Contender::Rslock.connect(&urls).await?);
    let [mut ours_acquire, mut ours_whole, mut peer_acquire, mut peer_whole] = [const { Vec::new() }; 4];
    for _ in 0..rounds {
        let [acquire, whole] = times(&ours, cycles, REST).await?;
        ours_acquire.push(acquire);
        ours_whole.push(whole);
        let [acquire, whole] = times(&peer, cycles, REST).await?;
        peer_acquire.push(acquire);
        peer_whole.push(whole);
    }
    Ok([
        Judged::new(&format!("lock + unlock alone, {which}"), "rslock", &ours_whole, &peer_whole),
        Judged::new(&format!("acquire alone, {which}"), "rslock", &ours_acquire, &peer_acquire),
    ])
}

/// Requests to a route that `LockLayer` guards, one after the other.
async fn guarded(plan: &Plan, masters: &DistantMasters) -> Result<Vec<Row>, BoxError> {
    let ((rounds, requests), urls, stem) = (size(plan), masters.urls(), fresh("guarded"));
    let Locks::Ours(locks) = Contender::Ours.connect(&urls).await? else { return Err("the wrong contender".into()) };
    let layer = LockLayer::new(locks, format!("{stem}:{{sku}}"));
    let ours = Router::new().route("/stock/{sku}", post(async || "done").route_layer(layer));
    let peer = Contender::Rslock.connect(&urls).await?;
    let locked = async move |Path(sku): Path<String>| -> Result<&'static str, StatusCode> {
        let failed = |_| StatusCode::SERVICE_UNAVAILABLE;
        peer.lock(&format!("{stem}-peer:{sku}")).await.map_err(failed)?.release().await.map_err(failed)?;
        Ok("done")
    };
    let peer = Router::new().route("/stock/{sku}", post(locked));
    let raw = RawQuorum::connect(&urls).await?;
    let (mut ours_times, mut peer_times, mut floor) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        ours_times.push(answered(&ours, requests).await?);
        floor.push(fan_out(&raw, requests, false).await?);
        peer_times.push(answered(&peer, requests).await?);
    }
    let figure = format!("guarded request, {UNEVENLY}");
    let name = "rslock, lock and unlock in the handler";
    let mut rows = Judged::new(&figure, name, &ours_times, &peer_times).judge().to_vec();
    let ours: Vec<f64> = ours_times.into_iter().map(p50).collect();
    let row = Row::new(PART, format!("{figure}, p50"), Unit::Seconds, &ours);
    rows.push(
        row.against("raw quorum fan-out (SET NX PX)", &ours, &floor).note("the layer releases in the background"),
    );
    Ok(rows)
}

/// The times of requests, in a task.
async fn answered(app: &Router, requests: usize) -> Result<Vec<Duration>, BoxError> {
    let app = app.clone();
    let asking = tokio::spawn(async move {
        let mut times = Vec::with_capacity(requests);
        for index in 0..requests {
            let began = Instant::now();
            layer::request(&app, index).await?;
            times.push(began.elapsed());
        }
        Ok(times)
    });
    asking.await?
}

/// One key that many want.
async fn hot(plan: &Plan, masters: &DistantMasters) -> Result<Row, BoxError> {
    let (rounds, millis) = plan.pick((2, 1_500), (1, 700));
    let (urls, meter) = (masters.urls(), Meter::connect(&masters.cluster).await?);
    let size = Size { processes: 4, instances: 1, tasks: 16, millis, inside: 1 };
    let mut ours = Vec::new();
    let mut peers: [Vec<f64>; 3] = Default::default();
    for _ in 0..rounds {
        ours.push(crowd(plan, &urls, &meter, Contender::Ours, size).await?.per_second());
        for (contender, rates) in PEERS.into_iter().zip(&mut peers) {
            rates.push(crowd(plan, &urls, &meter, contender, size).await?.per_second());
        }
    }
    let median = |rates: &[f64]| Spread::of(rates).map_or(0.0, |spread| spread.median);
    let mut ranked: Vec<_> = PEERS.into_iter().zip(&peers).collect();
    ranked.sort_by(|(_, one), (_, other)| median(other).total_cmp(&median(one)));
    let Size { processes, tasks, inside, .. } = size;
    let figure = format!("one key, {processes} processes x {tasks} tasks, {inside} ms inside, {UNEVENLY}: cycles");
    let row = Row::new(PART, figure, Unit::PerSecond, &ours);
    let row = row.against(ranked[0].0.name(), &ours, ranked[0].1).at_least(2.0);
    let others = ranked[1..].iter().map(|(peer, rates)| format!("{}: {:.0}/s", peer.name(), median(rates)));
    Ok(row.note(others.collect::<Vec<_>>().join("; ")))
}
