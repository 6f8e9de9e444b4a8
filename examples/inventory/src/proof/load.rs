//! The buyers: real HTTP/1 over loopback, to all instances in turn.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{
    Answers,
    client::{Answer, Client},
};

/// How often a buyer tries before giving up.
const MAX_ATTEMPTS: usize = 40;
/// After a busy answer, a buyer waits for a random time up to this one. It is short because the lock
/// has a queue of its own.
const MAX_BACKOFF_MS: u64 = 100;

/// Who buys what, and where.
pub(crate) struct Load {
    pub(crate) buyers: u32,
    pub(crate) concurrency: usize,
    pub(crate) instances: Vec<SocketAddr>,
    pub(crate) sku: String,
    /// When buyers stop trying, whatever the state of the run.
    pub(crate) deadline: Instant,
}

/// What the buyers experienced.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) answers: Answers,
    /// For each buyer who bought: the time from the first request to the answer that confirmed it.
    pub(crate) latencies: Vec<Duration>,
}

/// Sends all buyers and waits for the last one.
///
/// Once `stop` is cancelled or the deadline has passed, buyers send no new requests, and those in
/// flight are awaited.
pub(crate) async fn drive(load: &Load, stop: &CancellationToken) -> Outcome {
    let client = Client::new();
    let buyers = 0..load.buyers as usize;
    let mut visits =
        stream::iter(buyers).map(|buyer| visit(load, stop, &client, buyer)).buffer_unordered(load.concurrency);

    let mut outcome = Outcome::default();
    while let Some(visit) = visits.next().await {
        outcome.add(visit);
    }
    outcome
}

impl Outcome {
    fn add(&mut self, visit: Visit) {
        let answers = &mut self.answers;
        answers.busy += visit.busy;
        answers.stale_rejected += visit.stale;
        match visit.end {
            End::Bought(latency) => {
                answers.bought += 1;
                self.latencies.push(latency);
            }
            End::SoldOut => answers.sold_out += 1,
            End::Unknown => answers.unknown += 1,
            End::GaveUp => answers.gave_up += 1,
            End::Stopped => answers.stopped += 1,
            End::Failed(reason) => {
                answers.failed += 1;
                answers.first_failure.get_or_insert(reason);
            }
        }
    }
}

/// All attempts of one buyer.
struct Visit {
    busy: u32,
    stale: u32,
    end: End,
}

enum End {
    Bought(Duration),
    SoldOut,
    /// The lease was lost before the answer. The buyer does not know whether the unit was sold.
    Unknown,
    GaveUp,
    Stopped,
    Failed(String),
}

async fn visit(load: &Load, stop: &CancellationToken, client: &Client, buyer: usize) -> Visit {
    let start = Instant::now();
    let (mut busy, mut stale) = (0, 0);
    for attempt in 0..MAX_ATTEMPTS {
        if stop.is_cancelled() || Instant::now() >= load.deadline {
            return Visit { busy, stale, end: End::Stopped };
        }
        // Each attempt goes to the next instance, as behind a load balancer.
        let instance = load.instances[(buyer + attempt) % load.instances.len()];
        let end = match client.buy(instance, &load.sku).await {
            Ok(Answer::Sold) => End::Bought(start.elapsed()),
            Ok(Answer::SoldOut) => End::SoldOut,
            Ok(Answer::LeaseLost) => End::Unknown,
            Ok(answer @ (Answer::Busy | Answer::Stale | Answer::NotThere)) => {
                match answer {
                    Answer::Busy => busy += 1,
                    Answer::Stale => stale += 1,
                    _ => {}
                }
                let backoff = rand::random_range(1..=MAX_BACKOFF_MS);
                sleep(Duration::from_millis(backoff)).await;
                continue;
            }
            Ok(Answer::Other(status)) => End::Failed(format!("answer {status}")),
            // Not retried: this attempt may have bought the unit.
            Err(reason) => End::Failed(reason),
        };
        return Visit { busy, stale, end };
    }
    Visit { busy, stale, end: End::GaveUp }
}
