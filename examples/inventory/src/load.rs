//! The buyers: real HTTP/1 over loopback, to all instances in turn.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use axum::{
    body::Bytes,
    http::{Request, StatusCode, header},
};
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde::Deserialize;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::{problem, report::Answers};

/// How often a buyer asks before giving up.
const ATTEMPTS: usize = 40;
/// One request: the lock's `wait`, a pause, the payment, and a lot of air.
const REQUEST: Duration = Duration::from_secs(10);
/// A busy buyer comes back after a random part of this. Short, for the lock has its own queue.
const LONGEST_BACKOFF_MS: u64 = 100;
const LARGEST_ANSWER: usize = 64 * 1024;

/// Who buys what, where.
pub(crate) struct Load {
    pub(crate) buyers: u32,
    pub(crate) concurrency: usize,
    pub(crate) instances: Vec<SocketAddr>,
    pub(crate) sku: String,
    /// When buyers stop asking, whatever happens.
    pub(crate) deadline: Instant,
}

/// What the buyers were told.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) answers: Answers,
    /// From the first request to the receipt, of each buyer who got one.
    pub(crate) latencies: Vec<Duration>,
}

/// Lets all buyers loose and waits for the last. When `stop` is cancelled, or at the deadline, no
/// request is begun any more, and those under way are awaited.
pub(crate) async fn drive(load: &Load, stop: &CancellationToken) -> Outcome {
    let client = Client::builder(TokioExecutor::new()).build_http();
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

/// One buyer's dealings with the shop.
struct Visit {
    busy: u32,
    stale: u32,
    end: End,
}

enum End {
    Bought(Duration),
    SoldOut,
    /// The lease was lost before the answer: sold or not, the buyer cannot tell.
    Unknown,
    GaveUp,
    Stopped,
    Failed(String),
}

async fn visit(load: &Load, stop: &CancellationToken, client: &HttpClient, buyer: usize) -> Visit {
    let begun = Instant::now();
    let (mut busy, mut stale) = (0, 0);
    for attempt in 0..ATTEMPTS {
        if stop.is_cancelled() || Instant::now() >= load.deadline {
            return Visit { busy, stale, end: End::Stopped };
        }
        // The next attempt goes to the next instance, as behind a load balancer.
        let instance = load.instances[(buyer + attempt) % load.instances.len()];
        let end = match buy(client, instance, &load.sku).await {
            Ok(Answer::Receipt) => End::Bought(begun.elapsed()),
            Ok(Answer::SoldOut) => End::SoldOut,
            Ok(Answer::LeaseLost) => End::Unknown,
            Ok(answer @ (Answer::Busy | Answer::Stale)) => {
                match answer {
                    Answer::Busy => busy += 1,
                    _ => stale += 1,
                }
                let backoff = rand::random_range(1..=LONGEST_BACKOFF_MS);
                sleep(Duration::from_millis(backoff)).await;
                continue;
            }
            Ok(Answer::Other(status)) => End::Failed(format!("answer {status}")),
            // No second try: the first may have sold.
            Err(reason) => End::Failed(reason),
        };
        return Visit { busy, stale, end };
    }
    Visit { busy, stale, end: End::GaveUp }
}

type HttpClient = Client<HttpConnector, Full<Bytes>>;

#[derive(Debug, PartialEq)]
enum Answer {
    Receipt,
    SoldOut,
    Busy,
    Stale,
    LeaseLost,
    Other(StatusCode),
}

impl Answer {
    fn new(status: StatusCode, body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Problem {
            r#type: String,
        }
        if status.is_success() {
            return Self::Receipt;
        }
        let problem = serde_json::from_slice(body).map_or_else(|_| String::new(), |p: Problem| p.r#type);
        let kind = problem.rsplit(['/', ':', '#']).next().unwrap_or_default();
        match (status, kind) {
            (StatusCode::CONFLICT, problem::SOLD_OUT) => Self::SoldOut,
            (StatusCode::CONFLICT, problem::STALE_TOKEN) => Self::Stale,
            (StatusCode::CONFLICT, "lock-busy") | (StatusCode::SERVICE_UNAVAILABLE, _) => Self::Busy,
            (StatusCode::INTERNAL_SERVER_ERROR, "lock-lost") => Self::LeaseLost,
            _ => Self::Other(status),
        }
    }
}

async fn buy(client: &HttpClient, instance: SocketAddr, sku: &str) -> Result<Answer, String> {
    let request = Request::post(format!("http://{instance}/stock/{sku}/deduct"))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::from(r#"{"quantity":1}"#))
        .map_err(|error| error.to_string())?;
    let exchange = async {
        let response = client.request(request).await.map_err(|error| chain(&error))?;
        let status = response.status();
        let body =
            Limited::new(response.into_body(), LARGEST_ANSWER).collect().await.map_err(|error| error.to_string())?;
        Ok(Answer::new(status, &body.to_bytes()))
    };
    timeout(REQUEST, exchange).await.unwrap_or_else(|_| Err(format!("no answer within {REQUEST:?}")))
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart_by_the_end_of_their_type() {
        let answer = |status, body: &str| Answer::new(status, body.as_bytes());
        let conflict = StatusCode::CONFLICT;
        assert_eq!(answer(StatusCode::OK, "{}"), Answer::Receipt);
        assert_eq!(answer(conflict, r#"{"type":"https://a/b/sold-out"}"#), Answer::SoldOut);
        assert_eq!(answer(conflict, r#"{"type":"urn:a:lock-busy"}"#), Answer::Busy);
        assert_eq!(answer(conflict, r#"{"type":"https://a#stale-token"}"#), Answer::Stale);
        assert_eq!(answer(conflict, "not JSON"), Answer::Other(conflict));
        assert_eq!(answer(StatusCode::SERVICE_UNAVAILABLE, ""), Answer::Busy);
        let failed = StatusCode::INTERNAL_SERVER_ERROR;
        assert_eq!(answer(failed, r#"{"type":"lock-lost"}"#), Answer::LeaseLost);
        assert_eq!(answer(failed, r#"{"type":"about:blank"}"#), Answer::Other(failed));
    }
}
