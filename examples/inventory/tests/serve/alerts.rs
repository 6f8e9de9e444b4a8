//! The alerts of `rules.yml`: their thresholds, and that each fires when the service gets into the trouble that it is for.

use std::{process::Command, time::Duration};

use axum::http::StatusCode;
use futures_util::future::join_all;
use tokio::time::{sleep, timeout};

use crate::{
    client::{LIMIT, happened},
    program::Program,
    prometheus::Prometheus,
};

const RULES: &str = include_str!("../../rules.yml");

/// What follows this word in each line that begins with it.
fn after(word: &str) -> impl Iterator<Item = &str> {
    RULES.lines().filter_map(move |line| line.trim_start_matches([' ', '-']).strip_prefix(word)).map(str::trim)
}

#[test]
fn alerts_fire_above_their_thresholds_and_not_below() {
    let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rules.yml");
    let promtool = Command::new("promtool").args(["test", "rules", tests]).output();
    let output = promtool.expect("promtool is installed: apt-get install prometheus");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}{said}", String::from_utf8_lossy(&output.stdout));
    let tests = include_str!("../rules.yml");
    for name in after("alert:") {
        assert!(tests.contains(&format!("alertname: {name}\n        exp_alerts:\n")), "{name} is tried");
    }
}

/// Gets into every trouble that an alert is for: callers wait for nearly two seconds, a holder stands still until its lock is lost and its
/// write refused, and a majority of the masters goes away.
async fn trouble(shop: &Program) {
    // The lock is held for 2.2 s from here. Of callers who come one after another, some get it after 1.5 to 2 s.
    assert_eq!(shop.press("slow").await, StatusCode::ACCEPTED);
    shop.until("a slow payment", |state| state["feed"].to_string().contains("waits for a slow payment")).await;
    let buyers = (0..10).map(async |buyer| {
        sleep(Duration::from_millis(100) * buyer).await;
        shop.buy().await
    });
    join_all(buyers).await;
    shop.until_buyers_left().await;
    assert_eq!(shop.press("freeze").await, StatusCode::ACCEPTED);
    shop.until("a frozen holder", |state| happened(state, "frozen")).await;
    shop.until_buyers_left().await;
    for master in 1..=3 {
        assert_eq!(shop.press(&format!("masters/{master}/kill")).await, StatusCode::NO_CONTENT);
    }
}

#[tokio::test]
async fn every_alert_fires_when_what_it_is_for_happens() {
    let shop = Program::start();
    // The series of its template begin at zero, so that Prometheus sees them grow.
    assert_eq!(shop.buy().await, StatusCode::OK);
    // For how long, the thresholds say.
    let at_once: Vec<_> = RULES.lines().filter(|line| !line.trim_start().starts_with("for:")).collect();
    let prometheus = Prometheus::alerting(shop.address, &at_once.join("\n")).await;
    let mut silent: Vec<_> = after("alert:").collect();
    assert_eq!(silent.len(), 5);
    let fires = async |name: &str| {
        let query = format!("ALERTS{{alertname=\"{name}\",alertstate=\"firing\"}}");
        !prometheus.values(&query).await.is_empty()
    };
    for name in &silent {
        assert!(!fires(name).await, "{name} fires while nothing is wrong");
    }
    let look = async {
        while let Some(name) = silent.pop() {
            if !fires(name).await {
                silent.insert(0, name);
                sleep(Duration::from_millis(50)).await;
            }
        }
    };
    if timeout(LIMIT, async { tokio::join!(trouble(&shop), look) }).await.is_err() {
        panic!("these do not fire: {silent:?}");
    }
}
