use std::time::Duration;

use super::{drift, majority};
use crate::node::{Inspection, Refusal, Role, SetConfig};
use crate::random::Epoch;

/// The oldest version of Redis that has every command and option that the scripts use.
const MIN_VERSION: (u32, u32) = (6, 2);

/// What an inspection means for a node. A node that lost its data must not grant locks until every lock that it may have granted
/// has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may vote, in this epoch.
    Admitted(Epoch),
    /// It may do everything except grant, in this epoch, until its quarantine ends.
    Quarantined(Epoch, Duration),
    /// It restarted: its record must be replaced, and a quarantine of this length begins.
    Restarted(Option<Epoch>, Duration),
    /// It has no record: this is the first start of the set, or the node lost everything. A [`census`] decides.
    Unknown,
    /// It must not be used.
    Refused(Refusal),
}

/// What an inspection of a node means for a client with this configuration.
#[must_use]
pub fn admit(seen: &Inspection, config: &SetConfig) -> Admission {
    if let Some(refusal) = refuse(seen, config) {
        return Admission::Refused(refusal);
    }
    match (&seen.record, seen.quarantine) {
        (Some(record), None) if record.run_id == seen.run_id => Admission::Admitted(record.epoch),
        (Some(record), Some(remaining)) if record.run_id == seen.run_id => {
            Admission::Quarantined(record.epoch, remaining)
        }
        // Every write was on disk before it was acknowledged, so nothing was lost.
        (Some(record), _) if seen.durable => Admission::Restarted(Some(record.epoch), Duration::ZERO),
        (Some(record), _) => Admission::Restarted(Some(record.epoch), quarantine(config)),
        (None, Some(_)) => Admission::Restarted(None, quarantine(config)),
        (None, None) => Admission::Unknown,
    }
}

fn refuse(seen: &Inspection, config: &SetConfig) -> Option<Refusal> {
    if seen.role == Role::Replica {
        return Some(Refusal::Replica);
    }
    if seen.version < MIN_VERSION {
        return Some(Refusal::TooOld { version: seen.version });
    }
    if seen.eviction_policy != "noeviction" {
        return Some(Refusal::Evicts { policy: seen.eviction_policy.clone() });
    }
    let (field, ours, theirs) = config.difference(&seen.record.as_ref()?.config)?;
    Some(Refusal::OtherSet { field, ours, theirs })
}

/// What the masters together say about one that has no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Census {
    /// No master was ever used: those without a record can be established without a quarantine.
    FirstStart,
    /// The set is in use: a master without a record lost it, or replaces another master. This is its quarantine.
    InUse(Duration),
    /// Fewer than a majority answered. Nothing follows.
    Unknown,
}

/// Tells a first start from a loss of data. The answers must be from inspections that **all began after** the node was found
/// without a record: if it had ever voted, a majority would have had records by then.
#[must_use]
pub fn census(nodes: usize, answers: &[Inspection], config: &SetConfig) -> Census {
    if answers.iter().any(|seen| seen.record.is_some() || seen.quarantine.is_some()) {
        Census::InUse(quarantine(config))
    } else if answers.len() >= majority(nodes) {
        Census::FirstStart
    } else {
        Census::Unknown
    }
}

/// How far the reading of a node's clock may lag behind it, for clients with this `max_ttl`. The quarantine of a node that lost its
/// data is longer by this time.
#[must_use]
pub fn clock_lag(max_ttl: Duration) -> Duration {
    (max_ttl / 8).min(Duration::from_secs(1))
}

/// How long a node that lost its data must not grant locks: the longest time to live of a lock that it may have granted, and the
/// drift of its clock twice.
///
/// This also keeps tokens in order. A hint may be as old as a time to live, from reading the clock to counting the votes, plus
/// [`clock_lag`], which is why that is part of the quarantine. Even so, it is later than every token from before the loss.
fn quarantine(config: &SetConfig) -> Duration {
    config.max_ttl + clock_lag(config.max_ttl) + 2 * drift(config.max_ttl)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeRecord;

    const MAX_TTL: Duration = Duration::from_secs(60);

    fn config() -> SetConfig {
        SetConfig { format: SetConfig::FORMAT, nodes: 5, max_ttl: MAX_TTL, name: String::new() }
    }

    fn empty() -> Inspection {
        Inspection {
            run_id: "run-2".into(),
            version: (7, 0),
            role: Role::Master,
            eviction_policy: "noeviction".into(),
            durable: false,
            clock_micros: 0,
            record: None,
            quarantine: None,
        }
    }

    fn with_record(run_id: &str) -> Inspection {
        let record = NodeRecord { run_id: run_id.into(), epoch: Epoch::from_bits(1), config: config() };
        Inspection { record: Some(record), ..empty() }
    }

    #[test]
    fn a_node_that_remembers_is_admitted() {
        assert_eq!(admit(&with_record("run-2"), &config()), Admission::Admitted(Epoch::from_bits(1)));
    }

    #[test]
    fn a_node_that_restarted_sits_out_the_longest_lock() {
        let Admission::Restarted(Some(_), sits_out) = admit(&with_record("run-1"), &config()) else { panic!() };
        assert!(sits_out > MAX_TTL + drift(MAX_TTL));
        let remaining = Duration::from_secs(9);
        let quarantined = Inspection { quarantine: Some(remaining), ..with_record("run-2") };
        assert_eq!(admit(&quarantined, &config()), Admission::Quarantined(Epoch::from_bits(1), remaining));
    }

    #[test]
    fn a_durable_node_need_not_sit_out_but_only_if_its_record_survived() {
        let survived = Inspection { durable: true, ..with_record("run-1") };
        assert_eq!(admit(&survived, &config()), Admission::Restarted(Some(Epoch::from_bits(1)), Duration::ZERO));
        assert_eq!(admit(&Inspection { durable: true, ..empty() }, &config()), Admission::Unknown);
    }

    #[test]
    fn a_first_start_needs_a_majority_that_was_never_used() {
        assert_eq!(admit(&empty(), &config()), Admission::Unknown);
        assert_eq!(census(5, &[empty(), empty(), empty()], &config()), Census::FirstStart);
        assert_eq!(census(5, &[empty(), empty()], &config()), Census::Unknown);
        assert!(matches!(census(5, &[empty(), with_record("x"), empty()], &config()), Census::InUse(_)));
        let quarantined = Inspection { quarantine: Some(MAX_TTL), ..empty() };
        assert!(matches!(census(5, &[empty(), empty(), quarantined.clone()], &config()), Census::InUse(_)));
        assert!(matches!(admit(&quarantined, &config()), Admission::Restarted(None, _)));
    }

    #[test]
    fn a_node_that_must_not_be_used_is_refused_and_told_why() {
        let refused = |seen: Inspection| match admit(&seen, &config()) {
            Admission::Refused(refusal) => refusal.to_string(),
            other => panic!("{other:?}"),
        };
        assert!(refused(Inspection { role: Role::Replica, ..empty() }).contains("replica"));
        assert!(refused(Inspection { eviction_policy: "allkeys-lru".into(), ..empty() }).contains("noeviction"));
        assert!(refused(Inspection { version: (6, 0), ..empty() }).contains("6.2"));
        let mut other = with_record("run-2");
        if let Some(record) = &mut other.record {
            record.config.max_ttl = Duration::from_secs(30);
        }
        let text = refused(other);
        assert!(text.contains("max_ttl is 60s here") && text.contains("30s"), "{text}");
    }
}
