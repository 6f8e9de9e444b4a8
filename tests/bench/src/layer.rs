//! The cost of `LockLayer` for a request, beyond the lock.

use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::routing::post;
use lock_axum::{LockLayer, LockManager};
use tokio::task::yield_now;
use tower::ServiceExt as _;

use super::row::{Row, Unit};
use super::{BoxError, Plan};

const PART: &str = "layer";
/// Cycles through this many resources, so that no request waits for the release of an earlier one.
const RESOURCES: usize = 64;

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let (rounds, requests) = plan.pick((15, 2_000), (5, 500));
    // On one thread, so that background work is part of every measurement, and the same part.
    let measuring =
        move || tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(times(rounds, requests));
    let times = tokio::task::spawn_blocking(measuring).await??;
    let figures = |of: fn(&Times) -> f64| -> Vec<f64> { times.iter().map(of).collect() };
    let beyond = figures(|times| times.locked - times.plain - times.lock);
    let median = |of| super::Spread::of(&figures(of)).map_or(f64::NAN, |spread| spread.median) * 1e6;
    let row = Row::new(PART, "LockLayer beyond the bare lock, a request, mean of a round", Unit::Seconds, &beyond);
    Ok(vec![row.at_most(1.5e-6).note(format!(
        "with the layer {:.1} us, without {:.1} us, the lock and its release in the background {:.1} us; in memory",
        median(|times| times.locked),
        median(|times| times.plain),
        median(|times| times.lock)
    ))])
}

/// The mean times of one round, in seconds.
struct Times {
    /// A request with the layer.
    locked: f64,
    /// A request without it.
    plain: f64,
    /// The lock alone.
    lock: f64,
}

async fn times(rounds: usize, requests: usize) -> Result<Vec<Times>, BoxError> {
    let locks = LockManager::in_memory();
    let plain = Router::new().route("/stock/{sku}", post(async || "done"));
    let locked = plain.clone().route_layer(LockLayer::new(locks.clone(), "layer:{sku}"));
    // As `axum::serve` does: otherwise the layer would be applied again for each request.
    let (plain, locked) = (plain.with_state(()), locked.with_state(()));
    let mut times = Vec::new();
    // The first round warms up.
    for round in 0..=rounds {
        let plain = self::requests(&plain, requests).await?;
        let lock = lock(&locks, requests).await?;
        let locked = self::requests(&locked, requests).await?;
        if round > 0 {
            times.push(Times { locked, plain, lock });
        }
    }
    Ok(times)
}

/// Sends a request for one of the resources.
pub(super) async fn request(app: &Router, index: usize) -> Result<(), BoxError> {
    let request = Request::post(format!("/stock/{}", index % RESOURCES)).body(Body::empty())?;
    let response = app.clone().oneshot(request).await?;
    if response.status() != StatusCode::OK {
        return Err(format!("the service responded with {}", response.status()).into());
    }
    Ok(())
}

/// The mean time of a request.
async fn requests(app: &Router, requests: usize) -> Result<f64, BoxError> {
    let began = Instant::now();
    for index in 0..requests {
        request(app, index).await?;
        yield_now().await;
    }
    Ok(began.elapsed().as_secs_f64() / requests as f64)
}

/// The mean time of a lock that is released in the background, as the layer does.
async fn lock(locks: &LockManager, requests: usize) -> Result<f64, BoxError> {
    let began = Instant::now();
    for index in 0..requests {
        drop(locks.lock(format!("layer:{}", index % RESOURCES)).acquire().await?);
        yield_now().await;
    }
    Ok(began.elapsed().as_secs_f64() / requests as f64)
}
