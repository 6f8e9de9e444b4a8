//! Spans and events of acquisitions and holds. In virtual time.

use std::time::Duration;

use lock_support::{MemoryCluster, Trace, Traces};
use tokio::time::{advance, sleep};
use tracing::{Instrument as _, Level, info_span};

const TTL: Duration = Duration::from_secs(9);

/// The only span or event with this name.
fn only(traces: &Traces, name: &str) -> Trace {
    let [trace] = &traces.named(name)[..] else { panic!("{:#?}", traces.all()) };
    trace.clone()
}

/// These fields of a span or event; each was set at most once.
fn fields<const N: usize>(trace: &Trace, names: [&str; N]) -> [String; N] {
    assert!(trace.set.values().all(|count| *count == 1), "{trace:?}");
    names.map(|name| trace.field(name).unwrap_or_else(|| panic!("no {name} in {trace:?}")).to_owned())
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_and_a_hold_are_spans_in_the_callers() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().connect().await.unwrap();
    cluster.nodes[4].set_delay(TTL);
    let traces = Traces::record(Level::DEBUG);
    let request = locks.lock("stock:42").template("stock:{sku}").ttl(TTL);
    let guard = request.acquire().instrument(info_span!("request")).await.unwrap();
    let acquire = only(&traces, "lock.acquire");
    assert_eq!((acquire.level, acquire.parent, acquire.is_closed), (Level::DEBUG, Some("request"), true));
    let names = ["template", "resource", "attempts", "granted", "held", "failed", "pending", "waited_ms", "outcome"];
    assert_eq!(fields(&acquire, names), ["stock:{sku}", "stock:42", "1", "4", "0", "0", "1", "0.0", "acquired"]);

    let hold = only(&traces, "lock.hold");
    assert_eq!((hold.level, hold.parent, hold.is_closed), (Level::DEBUG, Some("request"), false));
    sleep(TTL * 5 / 6).await;
    let token = guard.token().to_string();
    drop(guard);
    let hold = only(&traces, "lock.hold");
    let names = ["template", "resource", "token", "renewals", "end"];
    assert_eq!(fields(&hold, names), ["stock:{sku}", "stock:42", &token, "2", "released"]);
    assert!(hold.is_closed);
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_that_fails_says_how_the_nodes_voted() {
    let cluster = MemoryCluster::new(5);
    let (first, second) = (cluster.manager(), cluster.manager());
    let _guard = first.lock("r").acquire().await.unwrap();
    cluster.nodes[0].set_down(true);
    second.health().await;
    let traces = Traces::record(Level::DEBUG);
    assert!(second.lock("r").try_acquire().await.is_err());
    let names = ["template", "attempts", "granted", "held", "failed", "outcome"];
    assert_eq!(fields(&only(&traces, "lock.acquire"), names), ["other", "1", "0", "4", "1", "contended"]);
    assert_eq!(traces.named("lock.hold"), []);
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_that_is_dropped_ends_its_span_as_cancelled() {
    let locks = MemoryCluster::new(3).manager();
    let _guard = locks.lock("r").acquire().await.unwrap();
    let traces = Traces::record(Level::DEBUG);
    let waiting = tokio::time::timeout(Duration::from_secs(1), locks.lock("r").acquire());
    assert!(waiting.await.is_err());
    let acquire = only(&traces, "lock.acquire");
    assert_eq!(fields(&acquire, ["attempts", "waited_ms", "outcome"]), ["0", "1000.0", "cancelled"]);
    assert!(acquire.is_closed);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_is_one_error_in_the_span_of_its_hold() {
    let locks = MemoryCluster::new(3).manager();
    let traces = Traces::record(Level::DEBUG);
    let request = locks.lock("stock:42").template("stock:{sku}").ttl(TTL).renew(false);
    let guard = request.acquire().instrument(info_span!("request")).await.unwrap();
    guard.lost().await;
    let token = guard.token().to_string();
    drop(guard);
    let lost = only(&traces, "lock.lost");
    assert_eq!((lost.level, lost.parent), (Level::ERROR, Some("lock.hold")));
    assert_eq!(fields(&lost, ["resource", "template", "token"]), ["stock:42", "stock:{sku}", &token]);
    assert_eq!(fields(&only(&traces, "lock.hold"), ["end"]), ["lost"]);
    let louder: Vec<_> = traces.all().into_iter().filter(|trace| trace.level <= Level::WARN).collect();
    assert_eq!(louder, [lost]);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_comes_late_is_one_warning() {
    let locks = MemoryCluster::new(3).manager();
    let traces = Traces::record(Level::DEBUG);
    let guard = locks.lock("r").ttl(TTL).acquire().instrument(info_span!("request")).await.unwrap();
    sleep(TTL / 2).await;
    assert_eq!(traces.named("lock.renewal_late"), [], "a renewal in time");
    // As if the process had been held up.
    advance(TTL * 3 / 4).await;
    sleep(Duration::from_millis(1)).await;
    assert!(guard.is_valid());
    let late = only(&traces, "lock.renewal_late");
    assert_eq!((late.level, late.parent), (Level::WARN, Some("lock.hold")));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_late_for_want_of_replies_is_not_warned_of_twice() {
    let cluster = MemoryCluster::new(3);
    let locks = cluster.manager();
    let traces = Traces::record(Level::DEBUG);
    let guard = locks.lock("r").ttl(TTL).acquire().await.unwrap();
    sleep(TTL / 4).await;
    cluster.nodes.iter().for_each(|node| node.drop_replies(true));
    sleep(TTL / 2).await;
    cluster.nodes.iter().for_each(|node| node.drop_replies(false));
    sleep(TTL / 2).await;
    assert!(guard.is_valid(), "renewed at last");
    let unknown = traces.named("lock.renewal_unknown");
    assert!(!unknown.is_empty() && unknown.iter().all(|event| event.parent == Some("lock.hold")));
    assert_eq!(traces.named("lock.renewal_late"), []);
}

#[tokio::test(start_paused = true)]
async fn without_the_spans_a_loss_is_an_event_in_the_callers() {
    let locks = MemoryCluster::new(3).builder().connect().await.unwrap();
    let traces = Traces::record(Level::INFO);
    let request = || locks.lock("r").ttl(TTL);
    request().acquire().instrument(info_span!("request")).await.unwrap().release().await.unwrap();
    assert_eq!(traces.all().len(), 1, "of a lock that is not lost, nothing: {:?}", traces.all());
    let guard = request().max_hold(TTL).acquire().instrument(info_span!("another")).await.unwrap();
    guard.lost().await;
    assert_eq!(only(&traces, "lock.lost").parent, Some("another"));
    drop(guard);
    assert!(only(&traces, "another").is_closed, "no span outlives the hold");
    assert_eq!(only(&traces, "another").fields.len(), 0, "nothing is recorded in a span of the caller");
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_in_the_callers_span_for_those_who_do_not_record_the_hold_that_others_do() {
    let locks = MemoryCluster::new(3).manager();
    // With it in the process, whether a span is recorded is asked each time.
    let _everything = tracing::Dispatch::new(tracing_subscriber::registry());
    let traces = Traces::record(Level::INFO);
    let guard = locks.lock("r").ttl(TTL).renew(false).acquire().instrument(info_span!("request")).await.unwrap();
    guard.lost().await;
    assert_eq!(only(&traces, "lock.lost").parent, Some("request"));
}

/// All that can be said about one lock: waits, late and missing renewals, losses, releases that do not arrive.
async fn everything_that_is_logged(redact: bool) -> Vec<Trace> {
    let cluster = MemoryCluster::new(3);
    let locks = cluster.builder().redact(redact).connect().await.unwrap();
    let traces = Traces::record(Level::TRACE);
    let request = || locks.lock("secret").template("t").ttl(TTL);
    let guard = request().acquire().await.unwrap();
    assert!(request().try_acquire().await.is_err());
    advance(TTL * 3 / 4).await;
    sleep(Duration::from_millis(1)).await;
    cluster.nodes.iter().for_each(|node| node.drop_replies(true));
    guard.lost().await;
    drop(guard);
    sleep(TTL).await;
    cluster.nodes.iter().for_each(|node| node.drop_replies(false));
    sleep(TTL).await;
    let guard = request().acquire().await.unwrap();
    cluster.nodes.iter().for_each(|node| node.set_down(true));
    assert!(guard.release().await.is_err());
    sleep(TTL * 2).await;
    let expected = ["lock.acquire", "lock.hold", "lock.renewal_late", "lock.renewal_unknown", "lock.lost"];
    for name in expected.into_iter().chain(["lock.release_failed", "lock.release_given_up"]) {
        assert_ne!(traces.named(name), [], "{name} in {:#?}", traces.all());
    }
    traces.all()
}

#[tokio::test(start_paused = true)]
async fn names_of_resources_are_in_no_span_and_no_event_if_they_are_redacted() {
    let tells = |trace: &Trace| trace.fields.values().any(|value| value.contains("secret"));
    let told: std::collections::BTreeSet<_> =
        everything_that_is_logged(false).await.into_iter().filter(tells).map(|trace| trace.name).collect();
    assert_eq!(told.len(), 7, "{told:?}");
    let redacted = everything_that_is_logged(true).await;
    assert_eq!(redacted.iter().find(|trace| tells(trace)), None);
    let lost = redacted.iter().find(|trace| trace.name == "lock.lost").unwrap();
    assert_eq!((lost.field("template"), lost.field("resource")), (Some("t"), None));
}
