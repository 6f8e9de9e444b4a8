//! The metrics. Each is a field here, with a line where it is described, where it is registered, and where it is recorded.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use super::{AcquireOutcome, HoldEnd, LockEvent, LockObserver, RenewalOutcome, VoteOutcome};
use crate::error::LossReason;

/// The ends of a lease that count as losses, as `lock_lost_total` names them.
const LOSSES: [(LossReason, &str); 5] = [
    (LossReason::Expired, "expired"),
    (LossReason::Gone, "gone"),
    (LossReason::MaxHold, "max_hold"),
    (LossReason::ShutDown, "shutdown"),
    (LossReason::SetLost, "set_lost"),
];

/// Records with the recorder of the `metrics` facade that is installed when a template or a node is first heard of.
///
/// The metrics are registered once, and not looked up for each record: there are a dozen records for every lock.
#[derive(Default)]
struct Metrics {
    /// As many as there are templates in the program.
    templates: RwLock<HashMap<String, TemplateMetrics>>,
    nodes: RwLock<HashMap<String, NodeMetrics>>,
}

struct TemplateMetrics {
    waiting: Gauge,
    held: Gauge,
    attempts: Counter,
    handovers: Counter,
    acquire: Vec<Histogram>,
    hold: Vec<Histogram>,
    renewals: Vec<Counter>,
    lost: Vec<Counter>,
}

struct NodeMetrics {
    up: Gauge,
    votes: Vec<Histogram>,
}

impl TemplateMetrics {
    fn register(template: &str) -> Self {
        describe();
        let of = Labeled("template", template);
        Self {
            waiting: of.gauge("lock_waiting"),
            held: of.gauge("lock_held"),
            attempts: of.counter("lock_attempts_total"),
            handovers: of.counter("lock_handovers_total"),
            acquire: of.histograms("lock_acquire_duration_seconds", "outcome", AcquireOutcome::NAMES),
            hold: of.histograms("lock_hold_duration_seconds", "end", HoldEnd::NAMES),
            renewals: of.counters("lock_renewals_total", "outcome", RenewalOutcome::NAMES),
            lost: of.counters("lock_lost_total", "reason", &LOSSES.map(|(_, name)| name)),
        }
    }
}

impl NodeMetrics {
    fn register(node: &str) -> Self {
        describe();
        let of = Labeled("node", node);
        Self {
            up: of.gauge("lock_node_up"),
            votes: of.histograms("lock_node_duration_seconds", "outcome", VoteOutcome::NAMES),
        }
    }
}

/// Describes the metrics to the recorder that they are registered with.
fn describe() {
    use Unit::{Count, Seconds};

    describe_gauge!("lock_waiting", Count, "The callers that wait for a lock");
    describe_gauge!("lock_held", Count, "The locks that are held");
    describe_gauge!("lock_node_up", Count, "Whether a node votes: 1 or 0");
    describe_counter!("lock_attempts_total", Count, "How often the nodes were asked for a lock");
    describe_counter!("lock_handovers_total", Count, "Locks that went to the next caller of the same process");
    describe_counter!(
        "lock_renewals_total",
        Count,
        "How often the nodes were asked to extend a lease, by what they replied"
    );
    describe_counter!("lock_lost_total", Count, "Leases that ended before they were released, by the reason");
    describe_histogram!("lock_acquire_duration_seconds", Seconds, "How long callers waited, by how that ended");
    describe_histogram!("lock_hold_duration_seconds", Seconds, "How long locks were held, by how that ended");
    describe_histogram!("lock_node_duration_seconds", Seconds, "How long a node took to vote on a lock, by its vote");
}

/// The observer that records metrics.
pub(super) fn observer() -> Arc<dyn LockObserver> {
    Arc::new(Metrics::default())
}

impl LockObserver for Metrics {
    fn observe(&self, event: &LockEvent<'_>) {
        match *event {
            LockEvent::AcquireBegan { template } => self.of_template(template, |metrics| metrics.waiting.increment(1)),
            LockEvent::AcquireEnded { template, outcome, waited } => self.of_template(template, |metrics| {
                metrics.waiting.decrement(1);
                metrics.acquire[outcome as usize].record(waited);
            }),
            LockEvent::AttemptBegan { template } => self.of_template(template, |metrics| metrics.attempts.increment(1)),
            LockEvent::HoldBegan { template } => self.of_template(template, |metrics| metrics.held.increment(1)),
            LockEvent::HoldEnded { template, reason, held } => self.of_template(template, |metrics| {
                metrics.held.decrement(1);
                metrics.hold[HoldEnd::from(reason) as usize].record(held);
                let loss = LOSSES.iter().position(|(loss, _)| *loss == reason);
                loss.inspect(|loss| metrics.lost[*loss].increment(1));
            }),
            LockEvent::HandedOver { template } => self.of_template(template, |metrics| metrics.handovers.increment(1)),
            LockEvent::RenewalEnded { template, outcome } => {
                self.of_template(template, |metrics| metrics.renewals[outcome as usize].increment(1));
            }
            LockEvent::NodeVoted { node, outcome, duration } => {
                self.of_node(node, |metrics| metrics.votes[outcome as usize].record(duration));
            }
            LockEvent::NodeChanged { node, up } => {
                self.of_node(node, |metrics| metrics.up.set(if up { 1 } else { 0 }));
            }
        }
    }
}

impl Metrics {
    fn of_template(&self, template: &str, record: impl FnOnce(&TemplateMetrics)) {
        with(&self.templates, template, TemplateMetrics::register, record);
    }

    fn of_node(&self, node: &str, record: impl FnOnce(&NodeMetrics)) {
        with(&self.nodes, node, NodeMetrics::register, record);
    }
}

/// Calls `record` with the metrics of a name, which are registered the first time.
fn with<T>(map: &RwLock<HashMap<String, T>>, name: &str, register: impl FnOnce(&str) -> T, record: impl FnOnce(&T)) {
    if let Some(metrics) = map.read().unwrap_or_else(PoisonError::into_inner).get(name) {
        return record(metrics);
    }
    let registered = register(name);
    record(map.write().unwrap_or_else(PoisonError::into_inner).entry(name.to_owned()).or_insert(registered));
}

/// The label that all metrics of a template or of a node have. Of those with another label, it registers one for each of its values, in
/// their order.
struct Labeled<'a>(&'static str, &'a str);

impl Labeled<'_> {
    fn gauge(&self, name: &'static str) -> Gauge {
        gauge!(name, self.0 => self.1.to_owned())
    }

    fn counter(&self, name: &'static str) -> Counter {
        counter!(name, self.0 => self.1.to_owned())
    }

    fn counters(&self, name: &'static str, label: &'static str, values: &[&'static str]) -> Vec<Counter> {
        values.iter().map(|value| counter!(name, self.0 => self.1.to_owned(), label => *value)).collect()
    }

    fn histograms(&self, name: &'static str, label: &'static str, values: &[&'static str]) -> Vec<Histogram> {
        values.iter().map(|value| histogram!(name, self.0 => self.1.to_owned(), label => *value)).collect()
    }
}
