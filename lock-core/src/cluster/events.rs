//! The log events about who the members are.

use tokio::time::Instant;

use super::MemberState;
use crate::error::{NodeError, NotMember};
use crate::log_event::milliseconds;
use crate::node::{NodeRecord, RecordWrite, Roster, SetId};

/// A node is something else to this client than before.
pub(super) fn state_changed(name: &str, state: &MemberState) {
    match state {
        MemberState::Admitted { .. } => log_event!(debug: "lock.node_admitted", node = name, "a node votes"),
        MemberState::Quarantined(until) => {
            let remaining_ms = milliseconds(until.saturating_duration_since(Instant::now()));
            log_event!(debug: "lock.node_in_quarantine", node = name, remaining_ms, "a node is in quarantine and grants no locks");
        }
        MemberState::Away(error) => {
            log_event!(warn: "lock.node_away", node = name, %error, "a node is not reachable");
        }
        MemberState::NotMember(NotMember::Behind) | MemberState::Joining => {}
        MemberState::NotMember(reason @ (NotMember::MajorityForgot { .. } | NotMember::Emptied { .. })) => {
            log_event!(error: "lock.majority_forgot", node = name, %reason, "a majority of the members lost their data");
        }
        MemberState::NotMember(reason @ NotMember::FormedOver { .. }) => {
            log_event!(error: "lock.set_ended", node = name, %reason, "another set was formed over this one");
        }
        MemberState::NotMember(reason) => {
            log_event!(warn: "lock.not_a_member", node = name, %reason, "a node does not belong to the set");
        }
        MemberState::Refused(refusal) => {
            log_event!(error: "lock.node_refused", node = name, %refusal, "a node was refused");
        }
    }
}

/// The client counts by another roster. `chose`: it was there when the roster was chosen.
pub(super) fn roster_changed(before: Option<(SetId, u64)>, roster: &Roster, chose: bool) {
    let (Roster { set, generation, .. }, members) = (roster, roster.addresses());
    let max_ttl_ms = milliseconds(roster.max_ttl);
    match before {
        None if chose && *generation == 1 => {
            log_event!(info: "lock.set_formed", %set, generation, ?members, "a new set was formed");
        }
        None if !chose => {
            log_event!(debug: "lock.roster_changed", %set, generation, max_ttl_ms, ?members, "the members are known");
        }
        Some((before, _)) if before == *set => {
            log_event!(info: "lock.roster_changed", %set, generation, max_ttl_ms, ?members, "the members changed");
        }
        _ => log_event!(error: "lock.set_formed", %set, generation, ?members,
            "the set was formed again, because nodes lost their data or are missing"),
    }
}

/// This client wrote a node's record.
pub(super) fn written(name: &str, write: &RecordWrite, record: &NodeRecord) {
    let (Some(floor), Some((member, quarantine))) = (write.floor, write.begin.first()) else { return };
    let generation = record.roster.as_ref().map(|roster| roster.generation);
    log_event!(warn: "lock.member_replaced", node = name, %member, generation, floor, quarantine_ms = milliseconds(*quarantine),
        "a node joined the set; it grants no lock until every lock has ended that was granted without it");
}

/// A node that is admitted would not grant or renew a lock.
pub(super) fn cannot_vote(name: &str, error: &NodeError) {
    log_event!(error: "lock.node_cannot_vote", node = name, %error, "a node is admitted, but cannot grant and renew locks");
}

/// The cause is gone for which a node would not grant or renew a lock.
pub(super) fn votes_again(name: &str) {
    log_event!(info: "lock.node_votes_again", node = name, "a node can grant and renew locks again");
}

/// A node refused what has to be done for the membership.
pub(super) fn step_failed(name: &str, error: &NodeError) {
    log_event!(warn: "lock.record_not_written", node = name, %error, "the record of a node could not be read or written");
}
