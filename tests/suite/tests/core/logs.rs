//! What stands in a log, as text and as JSON. In virtual time.

use std::collections::BTreeSet;
use std::time::Duration;

use lock_core::LockManager;
use lock_support::{Logs, MemoryCluster};
use serde_json::Value;
use tokio::time::{advance, sleep};

const TTL: Duration = Duration::from_secs(9);

/// A renewal that is late, one without replies, a loss, and releases that do not arrive.
async fn lose_a_lock(cluster: &MemoryCluster, locks: &LockManager) {
    let drop_replies = |drop| cluster.nodes.iter().for_each(|node| node.drop_replies(drop));
    let guard = locks.lock("r").ttl(TTL).acquire().await.unwrap();
    advance(TTL * 3 / 4).await;
    sleep(Duration::from_millis(1)).await;
    drop_replies(true);
    guard.lost().await;
    drop(guard);
    sleep(TTL).await;
    drop_replies(false);
    sleep(TTL).await;
    let guard = locks.lock("r").ttl(TTL).acquire().await.unwrap();
    cluster.nodes.iter().for_each(|node| node.set_down(true));
    assert!(guard.release().await.is_err());
    sleep(TTL * 2).await;
    cluster.nodes.iter().for_each(|node| node.set_down(false));
    sleep(TTL).await;
}

/// Runs into nearly everything that masters in memory can be made to log.
async fn run_into_trouble() {
    let cluster = MemoryCluster::new(3);
    let locks = cluster.builder().connect().await.unwrap();
    lose_a_lock(&cluster, &locks).await;
    let outer = locks.lock("b").run(async |_| locks.lock("a").acquire().await.map(drop));
    outer.await.unwrap().unwrap();
    let _held = locks.lock("r").acquire().await.unwrap();
    locks.force_release("r").await.unwrap();
    let _held = locks.lock("r").acquire().await.unwrap();
    locks.shutdown(Duration::ZERO).await;
    let dropped = cluster.manager();
    let _held = dropped.lock("another").acquire().await.unwrap().lease();
    drop(dropped);
}

const EXPECTED: [&str; 10] = [
    "lock.set_formed",
    "lock.node_admitted",
    "lock.renewal_late",
    "lock.renewal_unknown",
    "lock.lost",
    "lock.release_failed",
    "lock.release_given_up",
    "lock.node_away",
    "lock.nested_out_of_order",
    "lock.force_released",
];

#[tokio::test(start_paused = true)]
async fn every_line_names_its_event_as_text_and_as_json() {
    let logs = Logs::record();
    run_into_trouble().await;
    let mut seen = BTreeSet::new();
    let (text, json) = (logs.text(), logs.json());
    assert_eq!(text.len(), json.len());
    for (text, json) in text.iter().zip(json).filter(|(_, json)| json["fields"]["message"] != "close") {
        let event = json["fields"]["event"].as_str().unwrap_or_else(|| panic!("no name in {json}")).to_owned();
        assert!(text.contains(&format!(r#"event="{event}""#)), "{event} in {text}");
        assert!(json["fields"]["message"].is_string(), "{json}");
        seen.insert(event);
    }
    let missing: Vec<_> =
        EXPECTED.into_iter().chain(["lock.shutdown_revoked"]).filter(|name| !seen.contains(*name)).collect();
    assert!(missing.is_empty(), "{missing:?} in {seen:?}");
}

/// The fields of a line that end with `_ms`, those of its span included.
fn durations(line: &Value) -> Vec<(&String, &Value)> {
    let fields = [&line["fields"], &line["span"]].into_iter().filter_map(Value::as_object).flatten();
    fields.filter(|(name, _)| name.ends_with("_ms")).collect()
}

#[tokio::test(start_paused = true)]
async fn durations_are_numbers() {
    let logs = Logs::record();
    run_into_trouble().await;
    let json = logs.json();
    let durations: Vec<_> = json.iter().flat_map(durations).collect();
    for name in ["waited_ms", "late_ms", "remaining_ms"] {
        assert!(durations.iter().any(|(field, _)| *field == name), "{name} in {durations:?}");
    }
    assert!(durations.iter().all(|(_, value)| value.is_f64()), "{durations:?}");
    let texts = json.iter().flat_map(|line| line["fields"].as_object().unwrap().values()).filter_map(Value::as_str);
    let is_duration = |text: &&str| {
        let number = text.trim_end_matches(|c: char| c.is_alphabetic());
        number.len() < text.len() && number.parse::<f64>().is_ok()
    };
    // The formatter adds how long a span was open.
    let closes = |text: &&str| {
        json.iter().any(|line| line["fields"]["time.busy"] == *text || line["fields"]["time.idle"] == *text)
    };
    assert_eq!(texts.filter(is_duration).find(|text| !closes(text)), None);
}
