//! `GET /metrics`: what the locks of all instances did, in the text format of Prometheus.

use std::time::Duration;

use axum::{Router, http::header, routing::get};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::time::interval;
use tokio_util::sync::CancellationToken;

use crate::proof::RunError;

/// The upper bounds of the buckets of all durations, in seconds: from the vote of a master in memory to the longest `max_hold`. They are
/// close to each other around 2 s, the default `wait`, so that the alert on waits sees how near they come.
const BUCKETS: [f64; 20] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0,
    30.0, 60.0,
];
/// Values that were recorded since take memory until they are sorted into the buckets.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// The metrics of this process: see [`install_recorder`].
#[derive(Debug, Clone)]
pub struct Metrics(PrometheusHandle);

impl From<PrometheusHandle> for Metrics {
    fn from(recorder: PrometheusHandle) -> Self {
        Self(recorder)
    }
}

/// Installs the recorder of this process. The lock managers of the instances record with it, so it comes before them.
///
/// # Errors
///
/// [`RunError::Metrics`] if the process has a recorder already.
pub fn install_recorder() -> Result<Metrics, RunError> {
    let recorder = PrometheusBuilder::new().set_buckets(&BUCKETS).and_then(PrometheusBuilder::install_recorder);
    recorder.map(Metrics).map_err(|error| RunError::Metrics(error.into()))
}

/// The route.
pub(crate) fn route(metrics: Metrics) -> Router {
    let render =
        async move || ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], metrics.0.render());
    Router::new().route("/metrics", get(render))
}

/// Sorts values into buckets until the service stops, however seldom somebody asks for them.
pub(crate) async fn upkeep(metrics: &Metrics, stop: &CancellationToken) {
    let mut ticks = interval(UPKEEP_EVERY);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        metrics.0.run_upkeep();
    }
}
