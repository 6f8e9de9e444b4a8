//! The metrics. Each is a field here with a line where it is registered, and a line where it is recorded.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use super::{
    AcquireBegan, AcquireEnded, AcquireOutcome, AttemptBegan, HandedOver, HoldBegan, HoldEnd, HoldEnded, LockObserver,
    NodeChanged, NodeVoted, RenewalEnded, RenewalOutcome, VoteOutcome,
};
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
        let of = Labeled("template", template);
        Self {
            waiting: of.gauge("lock_waiting", "The callers that wait for a lock"),
            held: of.gauge("lock_held", "The locks that are held"),
            attempts: of.counter("lock_attempts_total", "How often the nodes were asked for a lock"),
            handovers: of.counter("lock_handovers_total", "Locks that went to the next caller of the same process"),
            acquire: of.histograms(
                "lock_acquire_duration_seconds",
                "How long callers waited for a lock, by how that ended",
                "outcome",
                AcquireOutcome::NAMES,
            ),
            hold: of.histograms(
                "lock_hold_duration_seconds",
                "How long locks were held, by how that ended",
                "end",
                HoldEnd::NAMES,
            ),
            renewals: of.counters(
                "lock_renewals_total",
                "How often the nodes were asked to extend a lease, by what they replied",
                "outcome",
                RenewalOutcome::NAMES,
            ),
            lost: of.counters(
                "lock_lost_total",
                "Leases that ended before they were released, by the reason",
                "reason",
                &LOSSES.map(|(_, name)| name),
            ),
        }
    }
}

impl NodeMetrics {
    fn register(node: &str) -> Self {
        let of = Labeled("node", node);
        Self {
            up: of.gauge("lock_node_up", "Whether a node votes: 1 or 0"),
            votes: of.histograms(
                "lock_node_duration_seconds",
                "How long a node took to vote on a lock, by its vote",
                "outcome",
                VoteOutcome::NAMES,
            ),
        }
    }
}

/// The observer that records metrics.
pub(super) fn observer() -> Arc<dyn LockObserver> {
    Arc::new(Metrics::default())
}

impl LockObserver for Metrics {
    fn acquire_began(&self, event: &AcquireBegan<'_>) {
        self.of_template(event.template, |metrics| metrics.waiting.increment(1));
    }

    fn acquire_ended(&self, event: &AcquireEnded<'_>) {
        self.of_template(event.template, |metrics| {
            metrics.waiting.decrement(1);
            metrics.acquire.get(event.outcome as usize).inspect(|metric| metric.record(event.waited));
        });
    }

    fn attempt_began(&self, event: &AttemptBegan<'_>) {
        self.of_template(event.template, |metrics| metrics.attempts.increment(1));
    }

    fn hold_began(&self, event: &HoldBegan<'_>) {
        self.of_template(event.template, |metrics| metrics.held.increment(1));
    }

    fn hold_ended(&self, event: &HoldEnded<'_>) {
        self.of_template(event.template, |metrics| {
            metrics.held.decrement(1);
            metrics.hold.get(HoldEnd::from(event.reason) as usize).inspect(|metric| metric.record(event.held));
            let loss = LOSSES.iter().position(|(reason, _)| *reason == event.reason);
            loss.and_then(|loss| metrics.lost.get(loss)).inspect(|metric| metric.increment(1));
        });
    }

    fn handed_over(&self, event: &HandedOver<'_>) {
        self.of_template(event.template, |metrics| metrics.handovers.increment(1));
    }

    fn renewal_ended(&self, event: &RenewalEnded<'_>) {
        self.of_template(event.template, |metrics| {
            metrics.renewals.get(event.outcome as usize).inspect(|metric| metric.increment(1));
        });
    }

    fn node_voted(&self, event: &NodeVoted<'_>) {
        self.of_node(event.node, |metrics| {
            metrics.votes.get(event.outcome as usize).inspect(|metric| metric.record(event.duration));
        });
    }

    fn node_changed(&self, event: &NodeChanged<'_>) {
        self.of_node(event.node, |metrics| metrics.up.set(if event.up { 1 } else { 0 }));
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

/// The label that all metrics of a template or of a node have. Registers and describes them; of those with another label, one for each
/// of its values, in their order.
struct Labeled<'a>(&'static str, &'a str);

impl Labeled<'_> {
    fn gauge(&self, name: &'static str, what: &'static str) -> Gauge {
        describe_gauge!(name, Unit::Count, what);
        gauge!(name, self.0 => self.1.to_owned())
    }

    fn counter(&self, name: &'static str, what: &'static str) -> Counter {
        describe_counter!(name, Unit::Count, what);
        counter!(name, self.0 => self.1.to_owned())
    }

    fn counters(
        &self,
        name: &'static str,
        what: &'static str,
        label: &'static str,
        values: &[&'static str],
    ) -> Vec<Counter> {
        describe_counter!(name, Unit::Count, what);
        values.iter().map(|value| counter!(name, self.0 => self.1.to_owned(), label => *value)).collect()
    }

    fn histograms(
        &self,
        name: &'static str,
        what: &'static str,
        label: &'static str,
        values: &[&'static str],
    ) -> Vec<Histogram> {
        describe_histogram!(name, Unit::Seconds, what);
        values.iter().map(|value| histogram!(name, self.0 => self.1.to_owned(), label => *value)).collect()
    }
}
