//! The dashboard of `grafana.json`, against a real Prometheus that scrapes the service.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::{
    client::{LIMIT, happened},
    program::Program,
    prometheus::Prometheus,
};

const DASHBOARD: &str = include_str!("../../grafana.json");
/// Between two looks at panels.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The queries of the panels, with the panels' titles, and with values for the variables that Grafana replaces.
fn queries() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "a panel without a query: {panel}");
        queries.extend(targets.iter().map(|target| {
            let query = target["expr"].as_str().unwrap().replace("$template", ".*").replace("$__rate_interval", "1m");
            assert!(!query.contains('$'), "a variable that the dashboard does not have: {query}");
            (panel["title"].as_str().unwrap().to_owned(), query)
        }));
    }
    queries
}

/// The number that a counter has reached depends on when its process started.
#[test]
fn no_panel_shows_a_counter_that_only_grows() {
    for (title, query) in queries() {
        for (at, _) in query.match_indices("_total") {
            let before = query[..at].trim_end_matches(|c: char| c.is_ascii_lowercase() || c == '_');
            assert!(before.ends_with("rate(") || before.ends_with("increase("), "{title}: {query}");
        }
    }
}

#[tokio::test]
async fn every_panel_of_the_dashboard_shows_what_happened() {
    let shop = Program::start();
    // The series of its template begin at zero, so that Prometheus sees them grow.
    assert_eq!(shop.buy().await, StatusCode::OK);
    let prometheus = Prometheus::scraping(shop.address).await;

    let buy = async {
        // Buyers wait, and a holder outlives its lease until the fence refuses it. Meanwhile, another lock is renewed.
        assert_eq!(shop.press("rush").await, StatusCode::ACCEPTED);
        assert_eq!(shop.press("freeze").await, StatusCode::ACCEPTED);
        shop.until("a frozen holder", |state| happened(state, "frozen")).await;
        assert_eq!(shop.press("slow").await, StatusCode::ACCEPTED);
        // One of them comes to an instance that is not frozen.
        let pear = || shop.deduct("pear", r#"{"quantity":1}"#);
        tokio::join!(pear(), pear());
    };
    let mut unseen = queries();
    let look = async {
        while let Some((_, query)) = unseen.first() {
            let values = prometheus.values(query).await;
            if values.iter().any(|value| value.is_finite() && *value > 0.0) {
                unseen.remove(0);
            } else {
                unseen.rotate_left(1);
                sleep(LOOK_AGAIN).await;
            }
        }
    };
    if timeout(LIMIT, async { tokio::join!(buy, look) }).await.is_err() {
        panic!("these show nothing but zeros: {unseen:#?}");
    }

    let response = shop.send(Method::GET, "/metrics", &[], "").await;
    let metrics = response.into_body().collect().await.unwrap().to_bytes();
    let metrics = std::str::from_utf8(&metrics).unwrap();
    let names: Vec<_> = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    assert_eq!(names.len(), 11, "{names:?}");
    for name in names {
        assert!(DASHBOARD.contains(name), "no panel shows {name}");
    } // The default of `wait`, what is near it, and the longest holds.
    for bound in ["0.25", "1.5", "2", "2.5", "10", "30", "60"] {
        assert!(metrics.contains(&format!("le=\"{bound}\"")), "no bucket ends at {bound} s");
    }
}
