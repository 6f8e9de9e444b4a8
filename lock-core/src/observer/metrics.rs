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

const ACQUIRE_DURATION: &str = "lock_acquire_duration_seconds";
const HOLD_DURATION: &str = "lock_hold_duration_seconds";
const HELD: &str = "lock_held";
const WAITING: &str = "lock_waiting";
const HANDOVERS: &str = "lock_handovers_total";
const ATTEMPTS: &str = "lock_attempts_total";
const RENEWALS: &str = "lock_renewals_total";
const LOST: &str = "lock_lost_total";
const NODE_DURATION: &str = "lock_node_duration_seconds";
const NODE_UP: &str = "lock_node_up";

const OUTCOMES: [AcquireOutcome; 7] = [
    AcquireOutcome::Acquired,
    AcquireOutcome::Contended,
    AcquireOutcome::NoQuorum,
    AcquireOutcome::Expired,
    AcquireOutcome::Cancelled,
    AcquireOutcome::Closed,
    AcquireOutcome::Error,
];
const ENDS: [HoldEnd; 4] = [HoldEnd::Released, HoldEnd::Lost, HoldEnd::MaxHold, HoldEnd::Revoked];
const RENEWAL_OUTCOMES: [RenewalOutcome; 3] = [RenewalOutcome::Renewed, RenewalOutcome::Unknown, RenewalOutcome::Lost];
const LOSSES: [LossReason; 5] =
    [LossReason::Expired, LossReason::Gone, LossReason::MaxHold, LossReason::ShutDown, LossReason::SetLost];
const VOTES: [VoteOutcome; 3] = [VoteOutcome::Granted, VoteOutcome::Held, VoteOutcome::Failed];

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
    acquire: [Histogram; OUTCOMES.len()],
    hold: [Histogram; ENDS.len()],
    renewals: [Counter; RENEWAL_OUTCOMES.len()],
    lost: [Counter; LOSSES.len()],
}

struct NodeMetrics {
    up: Gauge,
    votes: [Histogram; VOTES.len()],
}

/// The observer that records metrics. Describes them to the recorder that is installed now.
pub(super) fn observer() -> Arc<dyn LockObserver> {
    describe_histogram!(ACQUIRE_DURATION, Unit::Seconds, "How long callers waited for a lock, by how that ended");
    describe_histogram!(HOLD_DURATION, Unit::Seconds, "How long locks were held, by how that ended");
    describe_gauge!(HELD, Unit::Count, "The locks that are held");
    describe_gauge!(WAITING, Unit::Count, "The callers that wait for a lock");
    describe_counter!(HANDOVERS, Unit::Count, "Locks that went to the next caller of the same process");
    describe_counter!(ATTEMPTS, Unit::Count, "How often the nodes were asked for a lock");
    describe_counter!(RENEWALS, Unit::Count, "How often the nodes were asked to extend a lease, by what they replied");
    describe_counter!(LOST, Unit::Count, "Leases that ended before they were released, by the reason");
    describe_histogram!(NODE_DURATION, Unit::Seconds, "How long a node took to vote on a lock, by its vote");
    describe_gauge!(NODE_UP, Unit::Count, "Whether a node votes: 1 or 0");
    Arc::new(Metrics::default())
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

impl TemplateMetrics {
    fn register(template: &str) -> Self {
        let by = |name, label, value| histogram!(name, "template" => template.to_owned(), label => value);
        let count = |name, label, value| counter!(name, "template" => template.to_owned(), label => value);
        Self {
            waiting: gauge!(WAITING, "template" => template.to_owned()),
            held: gauge!(HELD, "template" => template.to_owned()),
            attempts: counter!(ATTEMPTS, "template" => template.to_owned()),
            handovers: counter!(HANDOVERS, "template" => template.to_owned()),
            acquire: OUTCOMES.map(|outcome| by(ACQUIRE_DURATION, "outcome", outcome.as_str())),
            hold: ENDS.map(|end| by(HOLD_DURATION, "end", end.as_str())),
            renewals: RENEWAL_OUTCOMES.map(|outcome| count(RENEWALS, "outcome", outcome.as_str())),
            lost: LOSSES.map(|reason| count(LOST, "reason", label_of(reason))),
        }
    }
}

impl NodeMetrics {
    fn register(node: &str) -> Self {
        let by =
            |outcome: VoteOutcome| histogram!(NODE_DURATION, "node" => node.to_owned(), "outcome" => outcome.as_str());
        Self { up: gauge!(NODE_UP, "node" => node.to_owned()), votes: VOTES.map(by) }
    }
}

/// The metric of a label's value; every value has one.
fn of<'a, K: PartialEq, T>(values: &[K], metrics: &'a [T], value: &K) -> Option<&'a T> {
    metrics.get(values.iter().position(|other| other == value)?)
}

impl LockObserver for Metrics {
    fn acquire_began(&self, event: &AcquireBegan<'_>) {
        self.of_template(event.template, |metrics| metrics.waiting.increment(1));
    }

    fn acquire_ended(&self, event: &AcquireEnded<'_>) {
        self.of_template(event.template, |metrics| {
            metrics.waiting.decrement(1);
            of(&OUTCOMES, &metrics.acquire, &event.outcome).inspect(|metric| metric.record(event.waited));
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
            of(&ENDS, &metrics.hold, &event.reason.into()).inspect(|metric| metric.record(event.held));
            // None for a release.
            of(&LOSSES, &metrics.lost, &event.reason).inspect(|metric| metric.increment(1));
        });
    }

    fn handed_over(&self, event: &HandedOver<'_>) {
        self.of_template(event.template, |metrics| metrics.handovers.increment(1));
    }

    fn renewal_ended(&self, event: &RenewalEnded<'_>) {
        self.of_template(event.template, |metrics| {
            of(&RENEWAL_OUTCOMES, &metrics.renewals, &event.outcome).inspect(|metric| metric.increment(1));
        });
    }

    fn node_voted(&self, event: &NodeVoted<'_>) {
        self.of_node(event.node, |metrics| {
            of(&VOTES, &metrics.votes, &event.outcome).inspect(|metric| metric.record(event.duration));
        });
    }

    fn node_changed(&self, event: &NodeChanged<'_>) {
        self.of_node(event.node, |metrics| metrics.up.set(if event.up { 1 } else { 0 }));
    }
}

/// The label of a loss.
fn label_of(reason: LossReason) -> &'static str {
    match reason {
        LossReason::Expired => "expired",
        LossReason::Gone => "gone",
        LossReason::MaxHold => "max_hold",
        LossReason::ShutDown => "shutdown",
        LossReason::SetLost => "set_lost",
        LossReason::Released => "released",
    }
}
