use std::sync::Arc;

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use super::{
    AcquireBegan, AcquireEnded, AttemptBegan, HandedOver, HoldBegan, HoldEnd, HoldEnded, LockObserver, NodeChanged,
    NodeVoted, RenewalEnded,
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

/// Records with the recorder of the `metrics` facade that is installed when it happens.
struct Metrics;

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
    Arc::new(Metrics)
}

impl LockObserver for Metrics {
    fn acquire_began(&self, event: &AcquireBegan<'_>) {
        gauge!(WAITING, "template" => event.template.to_owned()).increment(1);
    }

    fn acquire_ended(&self, event: &AcquireEnded<'_>) {
        let (template, outcome) = (event.template.to_owned(), event.outcome.as_str());
        gauge!(WAITING, "template" => template.clone()).decrement(1);
        histogram!(ACQUIRE_DURATION, "template" => template, "outcome" => outcome).record(event.waited);
    }

    fn attempt_began(&self, event: &AttemptBegan<'_>) {
        counter!(ATTEMPTS, "template" => event.template.to_owned()).increment(1);
    }

    fn hold_began(&self, event: &HoldBegan<'_>) {
        gauge!(HELD, "template" => event.template.to_owned()).increment(1);
    }

    fn hold_ended(&self, event: &HoldEnded<'_>) {
        let (template, end) = (event.template.to_owned(), HoldEnd::from(event.reason).as_str());
        gauge!(HELD, "template" => template.clone()).decrement(1);
        if event.reason != LossReason::Released {
            counter!(LOST, "template" => template.clone(), "reason" => reason(event.reason)).increment(1);
        }
        histogram!(HOLD_DURATION, "template" => template, "end" => end).record(event.held);
    }

    fn handed_over(&self, event: &HandedOver<'_>) {
        counter!(HANDOVERS, "template" => event.template.to_owned()).increment(1);
    }

    fn renewal_ended(&self, event: &RenewalEnded<'_>) {
        let (template, outcome) = (event.template.to_owned(), event.outcome.as_str());
        counter!(RENEWALS, "template" => template, "outcome" => outcome).increment(1);
    }

    fn node_voted(&self, event: &NodeVoted<'_>) {
        let (node, outcome) = (event.node.to_owned(), event.outcome.as_str());
        histogram!(NODE_DURATION, "node" => node, "outcome" => outcome).record(event.duration);
    }

    fn node_changed(&self, event: &NodeChanged<'_>) {
        gauge!(NODE_UP, "node" => event.node.to_owned()).set(if event.up { 1 } else { 0 });
    }
}

/// The label of a loss.
fn reason(reason: LossReason) -> &'static str {
    match reason {
        LossReason::Expired => "expired",
        LossReason::Gone => "gone",
        LossReason::MaxHold => "max_hold",
        LossReason::ShutDown => "shutdown",
        LossReason::Released => "released",
    }
}
