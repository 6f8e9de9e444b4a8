//! What observers are told. In virtual time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::observer::{HoldEnd, LockEvent};
use lock_core::{LockManager, LockObserver};
use lock_support::{Events, MemoryCluster, eventually};
use tokio::time::{sleep, timeout};

const TTL: Duration = Duration::from_secs(10);
const SECOND: Duration = Duration::from_secs(1);

/// Keeps what it is told, a line for each event.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Notes {
    fn add(&self, line: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    /// The lines that begin with one of these words, since the last call.
    fn take(&self, words: &[&str]) -> Vec<String> {
        let lines = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        lines.into_iter().filter(|line| words.iter().any(|word| line.starts_with(word))).collect()
    }

    fn has(&self, line: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|noted| noted == line)
    }
}

impl LockObserver for Notes {
    fn observe(&self, event: &LockEvent<'_>) {
        self.add(match event {
            LockEvent::AcquireBegan { template, .. } => format!("acquire {template}"),
            LockEvent::AcquireEnded { template, outcome, waited, .. } => {
                format!("{} {template} after {}s", outcome.as_str(), waited.as_secs())
            }
            LockEvent::AttemptBegan { template, .. } => format!("attempt {template}"),
            LockEvent::HoldBegan { template, .. } => format!("hold {template}"),
            LockEvent::HoldEnded { template, reason, held, .. } => {
                format!("{} {template} after {}s", HoldEnd::from(*reason).as_str(), held.as_secs())
            }
            LockEvent::HandedOver { template, .. } => format!("handover {template}"),
            LockEvent::RenewalEnded { template, outcome, .. } => format!("renewal {template}: {}", outcome.as_str()),
            LockEvent::NodeVoted { node, outcome, duration, .. } => {
                format!("vote {node} {} in {}s", outcome.as_str(), duration.as_secs())
            }
            LockEvent::NodeChanged { node, up, .. } => format!("node {node} {}", if *up { "up" } else { "down" }),
            other => format!("unknown {other:?}"),
        });
    }
}

/// A manager with an observer, connected.
async fn observed(cluster: &MemoryCluster) -> (LockManager, Arc<Notes>) {
    let notes = Arc::<Notes>::default();
    let locks = cluster.builder().observer(notes.clone()).connect().await.unwrap();
    notes.take(&[]);
    (locks, notes)
}

#[tokio::test(start_paused = true)]
async fn an_observer_is_told_the_life_of_a_lock_by_its_template() {
    let (locks, notes) = observed(&MemoryCluster::new(5)).await;
    let guard = locks.lock("stock:42").template("stock:{sku}").acquire().await.unwrap();
    let begun = ["acquire stock:{sku}", "attempt stock:{sku}", "hold stock:{sku}", "acquired stock:{sku} after 0s"];
    assert_eq!(notes.take(&["a", "h"]), begun);
    sleep(SECOND).await;
    guard.release().await.unwrap();
    assert_eq!(notes.take(&[""]), ["released stock:{sku} after 1s"]);
    drop(locks.lock("stock:42").acquire().await.unwrap());
    assert!(notes.has("acquired other after 0s") && notes.has("released other after 0s"), "it has no template");
}

#[tokio::test(start_paused = true)]
async fn an_observer_is_told_how_each_acquisition_ended() {
    let ends = &["acquired", "contended", "no_quorum", "expired", "cancelled", "closed", "error"];
    let cluster = MemoryCluster::new(5);
    let (locks, notes) = observed(&cluster).await;
    let guard = locks.lock("r").acquire().await.unwrap();
    notes.take(&[]);
    assert!(locks.lock("r").wait(SECOND).acquire().await.is_err());
    assert_eq!(notes.take(ends), ["contended other after 1s"]);
    assert!(timeout(SECOND, locks.lock("r").acquire()).await.is_err());
    assert_eq!(notes.take(ends), ["cancelled other after 1s"]);
    assert!(locks.lock("").acquire().await.is_err());
    assert_eq!(notes.take(ends), ["error other after 0s"]);
    cluster.nodes.iter().for_each(|node| node.set_delay(Duration::from_millis(20)));
    let min_validity = TTL - TTL / 100 - Duration::from_millis(10);
    assert!(locks.lock("s").ttl(TTL).min_validity(min_validity).try_acquire().await.is_err());
    assert_eq!(notes.take(ends), ["expired other after 0s"]);
    cluster.nodes.iter().for_each(|node| node.set_down(true));
    assert!(locks.lock("s").try_acquire().await.is_err());
    assert_eq!(notes.take(ends), ["no_quorum other after 0s"]);
    locks.close();
    assert!(locks.lock("s").acquire().await.is_err());
    assert_eq!(notes.take(ends), ["closed other after 0s"]);
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn an_observer_is_told_how_each_hold_ended() {
    let ends = &["released", "lost", "max_hold", "revoked"];
    let cluster = MemoryCluster::new(5);
    let (locks, notes) = observed(&cluster).await;
    let guard = locks.lock("r").ttl(TTL).max_hold(TTL * 2).acquire().await.unwrap();
    guard.lost().await;
    assert_eq!(notes.take(ends), ["max_hold other after 20s"]);
    drop(guard);
    let guard = locks.lock("r").ttl(TTL).renew(false).acquire().await.unwrap();
    guard.lost().await;
    drop(guard);
    assert_eq!(notes.take(ends), ["lost other after 9s"], "once, although the guard was dropped later");
    let _guard = locks.lock("r").acquire().await.unwrap();
    locks.shutdown(SECOND).await;
    assert_eq!(notes.take(ends), ["revoked other after 1s"]);
}

#[tokio::test(start_paused = true)]
async fn an_observer_is_told_of_each_lock_of_a_set() {
    let (locks, notes) = observed(&MemoryCluster::new(5)).await;
    let set = locks.lock_all(["user:7", "stock:42"]).templates(["user:{id}", "stock:{sku}"]);
    let guard = set.clone().acquire().await.unwrap();
    let of_both = |words: [&str; 4]| words.map(|word| [format!("{word} stock:{{sku}}"), format!("{word} user:{{id}}")]);
    let mut begun = of_both(["acquire", "attempt", "hold", "acquired"]).concat();
    begun[6..].iter_mut().for_each(|line| line.push_str(" after 0s"));
    assert_eq!(notes.take(&["a", "h"]), begun);
    assert!(set.wait(SECOND).acquire().await.is_err());
    let ends = &["acquired", "contended", "cancelled"];
    assert_eq!(notes.take(ends), ["contended stock:{sku} after 1s", "contended user:{id} after 1s"], "all or none");
    guard.release().await.unwrap();
    assert_eq!(notes.take(&["released"]), ["released stock:{sku} after 1s", "released user:{id} after 1s"]);
}

#[tokio::test(start_paused = true)]
async fn an_observer_is_told_of_a_handover() {
    let (locks, notes) = observed(&MemoryCluster::new(5)).await;
    let guard = locks.lock("r").template("t").acquire().await.unwrap();
    let next = tokio::spawn(locks.lock("r").template("t").acquire());
    eventually("another caller waits", || notes.has("acquire t")).await;
    sleep(Duration::from_millis(1)).await;
    notes.take(&[]);
    drop(guard);
    let next = next.await.unwrap().unwrap();
    let told = ["released t after 0s", "handover t", "hold t", "acquired t after 0s"];
    assert_eq!(notes.take(&[""]), told, "without an attempt");
    drop(next);
}

#[tokio::test(start_paused = true)]
async fn an_observer_is_told_what_became_of_each_renewal() {
    let cluster = MemoryCluster::new(5);
    let (locks, notes) = observed(&cluster).await;
    let guard = locks.lock("r").template("t").ttl(TTL).acquire().await.unwrap();
    sleep(TTL / 2).await;
    assert_eq!(notes.take(&["renewal"]), ["renewal t: renewed"]);
    cluster.nodes.iter().for_each(|node| node.drop_replies(true));
    sleep(TTL / 4).await;
    let unknown = notes.take(&["renewal"]);
    assert!(!unknown.is_empty() && unknown.iter().all(|line| line == "renewal t: unknown"), "{unknown:?}");
    cluster.nodes.iter().for_each(|node| node.drop_replies(false));
    cluster.nodes[..3].iter().for_each(|node| node.advance_clock(TTL * 2));
    guard.lost().await;
    assert!(notes.has("renewal t: lost"));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_a_release_overtakes_is_no_complaint_about_the_nodes() {
    let cluster = MemoryCluster::new(5);
    let (locks, notes) = observed(&cluster).await;
    let guard = locks.lock("r").template("t").ttl(TTL).acquire().await.unwrap();
    cluster.nodes.iter().for_each(|node| node.set_delay(TTL / 500));
    sleep(TTL / 3 + TTL / 1000).await;
    guard.release().await.unwrap();
    sleep(TTL).await;
    assert!(notes.has("released t after 3s"));
    assert_eq!(notes.take(&["renewal"]), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_observer_is_told_how_each_node_votes_and_how_long_that_takes() {
    let cluster = MemoryCluster::new(3);
    let (locks, notes) = observed(&cluster).await;
    let names: Vec<_> = locks.health().await.nodes.into_iter().map(|node| node.name).collect();
    cluster.nodes[2].set_delay(SECOND * 2);
    let _guard = locks.lock("r").acquire().await.unwrap();
    let granted = |node: usize, after: u64| format!("vote {} granted in {after}s", names[node]);
    assert_eq!(notes.take(&["vote"]), [granted(0, 0), granted(1, 0)]);
    sleep(SECOND * 3).await;
    assert_eq!(notes.take(&["vote"]), [granted(2, 2)], "nobody waited for it any more");
    assert!(locks.lock("r").try_acquire().await.is_err());
    assert!(notes.has(&format!("vote {} held in 0s", names[0])));
}

#[tokio::test(start_paused = true)]
async fn an_observer_is_told_which_nodes_are_up() {
    let cluster = MemoryCluster::new(3);
    let notes = Arc::<Notes>::default();
    let locks = cluster.builder().observer(notes.clone()).connect().await.unwrap();
    let names: Vec<_> = locks.health().await.nodes.into_iter().map(|node| node.name).collect();
    let up: Vec<_> = names.iter().map(|name| format!("node {name} up")).collect();
    assert!(up.iter().all(|line| notes.has(line)));
    notes.take(&[]);
    cluster.nodes[1].set_down(true);
    eventually("the node is down", || notes.has(&format!("node {} down", names[1]))).await;
    cluster.nodes[1].set_down(false);
    eventually("the node is up", || notes.has(&up[1])).await;
    assert!(!notes.has(&up[0]), "the others did not change");
}

/// Panics whenever it is told something.
struct Panics;

impl LockObserver for Panics {
    fn observe(&self, _: &LockEvent<'_>) {
        panic!("on purpose");
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_breaks_no_lock_and_is_logged_once() {
    let events = Events::record();
    let (cluster, notes) = (MemoryCluster::new(5), Arc::<Notes>::default());
    let builder = cluster.builder().observer(Arc::new(Panics)).observer(notes.clone());
    let locks = builder.connect().await.unwrap();
    let mut last = None;
    for _ in 0..3 {
        let guard = locks.lock("r").acquire().await.unwrap();
        assert!(last < Some(guard.token()));
        last = Some(guard.token());
        assert!(guard.release().await.unwrap());
    }
    assert_eq!(notes.take(&["acquired"]).len(), 3, "the other observer is told");
    assert_eq!(cluster.holding(), 0);
    assert_eq!(events.named("lock.observer_panicked").len(), 1);
}
