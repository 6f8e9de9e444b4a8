//! The feature `metrics`: names, labels and units. In virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use lock_core::{LockManager, LockNode as _, MemoryNode};
use lock_support::MemoryCluster;
use metrics::{LocalRecorderGuard, Unit, set_default_local_recorder};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(10);

/// Records the metrics of this thread, on which all tasks of the test run.
struct Recording {
    snapshotter: Snapshotter,
    _guard: LocalRecorderGuard<'static>,
}

type Series = BTreeMap<String, (Option<Unit>, DebugValue)>;

impl Recording {
    fn begin() -> Self {
        let recorder = Box::leak(Box::new(DebuggingRecorder::new()));
        Self { snapshotter: recorder.snapshotter(), _guard: set_default_local_recorder(recorder) }
    }

    /// All series, as `name{label="value"}`, with their units, and with what was added since the last call.
    fn series(&self) -> Series {
        let series = self.snapshotter.snapshot().into_vec().into_iter().map(|(key, unit, description, value)| {
            assert!(description.is_some(), "{key:?} is described");
            let labels: Vec<_> =
                key.key().labels().map(|label| format!("{}={:?}", label.key(), label.value())).collect();
            (format!("{}{{{}}}", key.key().name(), labels.join(",")), (unit, value))
        });
        series.collect()
    }
}

fn counted(count: u64) -> (Option<Unit>, DebugValue) {
    (Some(Unit::Count), DebugValue::Counter(count))
}

fn gauged(value: f64) -> (Option<Unit>, DebugValue) {
    (Some(Unit::Count), DebugValue::Gauge(value.into()))
}

/// The sum of a histogram in whole units, and how many values it has.
fn summed(series: &Series, name: &str) -> (u64, usize) {
    match &series[name] {
        (Some(Unit::Seconds), DebugValue::Histogram(values)) => {
            let sum: f64 = values.iter().map(|value| value.into_inner()).sum();
            (Duration::from_secs_f64(sum).as_secs(), values.len())
        }
        other => panic!("{name} is {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_of_a_master_are_recorded_by_shard() {
    let recording = Recording::begin();
    let node = MemoryNode::new();
    let locks = LockManager::builder().nodes([node.clone()]).shards(4).connect().await.unwrap();
    for number in 0..40 {
        drop(locks.lock(format!("stock:{number}")).acquire().await.unwrap());
    }
    let series = recording.series();
    for shard in 0..4 {
        let of = format!("{}#{shard}", node.name());
        assert_eq!(series[&format!("lock_node_up{{node={of:?}}}")], gauged(1.0));
        let votes = format!("lock_node_duration_seconds{{node={of:?},outcome=\"granted\"}}");
        assert!((2..30).contains(&summed(&series, &votes).1), "{of}");
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_of_acquisitions_and_holds_are_recorded_by_template() {
    let recording = Recording::begin();
    let locks = MemoryCluster::new(3).manager();
    let request = || locks.lock("stock:42").template("stock:{sku}").ttl(TTL);
    let guard = request().acquire().await.unwrap();
    assert!(request().wait(Duration::from_secs(1)).acquire().await.is_err());
    sleep(TTL / 2).await;
    let waiting = tokio::spawn(request().wait(TTL).acquire());
    tokio::task::yield_now().await;
    let series = recording.series();
    assert_eq!(series["lock_held{template=\"stock:{sku}\"}"], gauged(1.0));
    assert_eq!(series["lock_waiting{template=\"stock:{sku}\"}"], gauged(1.0));
    assert_eq!(series["lock_renewals_total{template=\"stock:{sku}\",outcome=\"renewed\"}"], counted(1));
    assert_eq!(summed(&series, "lock_acquire_duration_seconds{template=\"stock:{sku}\",outcome=\"acquired\"}"), (0, 1));
    assert_eq!(
        summed(&series, "lock_acquire_duration_seconds{template=\"stock:{sku}\",outcome=\"contended\"}"),
        (1, 1)
    );
    assert_eq!(
        series["lock_attempts_total{template=\"stock:{sku}\"}"],
        counted(1),
        "the others waited behind the holder, in this process"
    );
    waiting.abort();
    assert!(waiting.await.is_err());
    drop(guard);
    // Handed over at once.
    let guard = request().acquire().await.unwrap();
    let next = tokio::spawn(request().acquire());
    tokio::task::yield_now().await;
    drop(guard);
    next.await.unwrap().unwrap().release().await.unwrap();
    let series = recording.series();
    assert_eq!(series["lock_held{template=\"stock:{sku}\"}"], gauged(-1.0), "the one that was held");
    assert_eq!(series["lock_waiting{template=\"stock:{sku}\"}"], gauged(-1.0), "the one that waited");
    assert_eq!(series["lock_handovers_total{template=\"stock:{sku}\"}"], counted(1));
    assert_eq!(summed(&series, "lock_hold_duration_seconds{template=\"stock:{sku}\",end=\"released\"}"), (6, 3));
    assert_eq!(summed(&series, "lock_acquire_duration_seconds{template=\"stock:{sku}\",outcome=\"cancelled\"}").1, 1);
}

#[tokio::test(start_paused = true)]
async fn metrics_of_losses_have_the_reason() {
    let recording = Recording::begin();
    let cluster = MemoryCluster::new(3);
    let locks = cluster.manager();
    locks.lock("r").template("short").max_hold(TTL).acquire().await.unwrap().lost().await;
    locks.lock("s").template("fixed").renew(false).acquire().await.unwrap().lost().await;
    let guard = locks.lock("t").template("gone").ttl(TTL).acquire().await.unwrap();
    cluster.nodes.iter().for_each(|node| node.advance_clock(TTL * 2));
    guard.lost().await;
    let _guard = locks.lock("u").template("late").acquire().await.unwrap();
    locks.shutdown(Duration::ZERO).await;
    let series = recording.series();
    for (template, reason, end) in [
        ("short", "max_hold", "max_hold"),
        ("fixed", "expired", "lost"),
        ("gone", "gone", "lost"),
        ("late", "shutdown", "revoked"),
    ] {
        let lost = format!("lock_lost_total{{template={template:?},reason={reason:?}}}");
        assert_eq!(series.get(&lost), Some(&counted(1)), "{series:#?}");
        let held = format!("lock_hold_duration_seconds{{template={template:?},end={end:?}}}");
        assert_eq!(summed(&series, &held).1, 1);
    }
    assert_eq!(series["lock_renewals_total{template=\"gone\",outcome=\"lost\"}"], counted(1));
}

#[tokio::test(start_paused = true)]
async fn metrics_of_nodes_have_the_node() {
    let recording = Recording::begin();
    let cluster = MemoryCluster::new(3);
    let locks = cluster.builder().connect().await.unwrap();
    let names: Vec<_> = locks.health().await.nodes.into_iter().map(|node| node.name).collect();
    let guard = locks.lock("r").acquire().await.unwrap();
    assert!(locks.lock("r").try_acquire().await.is_err());
    let series = recording.series();
    for name in &names {
        assert_eq!(series[&format!("lock_node_up{{node={name:?}}}")], gauged(1.0));
        for outcome in ["granted", "held"] {
            let votes = format!("lock_node_duration_seconds{{node={name:?},outcome={outcome:?}}}");
            assert_eq!(summed(&series, &votes), (0, 1));
        }
    }
    let up = format!("lock_node_up{{node={:?}}}", names[0]);
    for (down, value) in [(true, 0.0), (false, 1.0), (true, 0.0)] {
        cluster.nodes[0].set_down(down);
        sleep(Duration::from_secs(5)).await;
        assert_eq!(recording.series()[&up], gauged(value));
    }
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_resources_have_as_many_series_as_one() {
    let recording = Recording::begin();
    let locks = MemoryCluster::new(3).builder().connect().await.unwrap();
    let acquire = async |number: u32| {
        let guard = locks.lock(format!("stock:{number}")).template("stock:{sku}").acquire().await.unwrap();
        assert!(locks.lock(format!("stock:{number}")).template("stock:{sku}").try_acquire().await.is_err());
        guard.release().await.unwrap();
        // Without a template.
        drop(locks.lock(format!("other:{number}")).acquire().await.unwrap());
    };
    acquire(0).await;
    let one: Vec<_> = recording.series().into_keys().collect();
    for number in 1..10_000 {
        acquire(number).await;
    }
    let many: Vec<_> = recording.series().into_keys().collect();
    assert_eq!(many, one);
}
