//! How the kinds of locks were mixed in a run.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::grants::Grant;
use super::history::{Event, Record};
use super::kind::Kind;
use super::safety::Breach;
use super::{PERMITS, resource};
use lock_history::check::overlapping_readers;
use lock_history::permits::most_held_at_once;

/// What happened to the locks of each kind, by its name, and beside them.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Mix {
    /// The locks that were granted, adopted or forced.
    pub grants: BTreeMap<&'static str, u64>,
    /// The violations that such a lock is part of.
    pub violations: BTreeMap<&'static str, u64>,
    /// The readers that were granted a lock while another one read it.
    pub overlapping_readers: u64,
    /// The most permits of each resource that were held at once.
    pub permits_at_once: BTreeMap<String, usize>,
    /// The looks that the fence refused to a reader.
    pub refused_looks: u64,
    /// The delegations that were refused.
    pub not_adopted: BTreeMap<String, u64>,
    /// The holders that were evicted.
    pub evicted: u64,
    /// The sets of which a lock was lost, and so all.
    pub sets_lost: u64,
}

impl Mix {
    pub(super) fn count(histories: &[Vec<Record>], grants: &[Grant], breaches: &[Breach]) -> Self {
        let mut mix = Self { grants: Kind::ALL.map(|kind| (kind.name(), 0)).into(), ..Self::default() };
        for grant in grants {
            *mix.grants.entry(grant.holder.kind.name()).or_default() += 1;
        }
        for (_, [earlier, later]) in breaches {
            for kind in std::iter::once(earlier).chain(Some(later).filter(|later| *later != earlier)) {
                *mix.violations.entry(kind.name()).or_default() += 1;
            }
        }
        let held = || grants.iter().filter(|grant| grant.was_held());
        mix.overlapping_readers = overlapping_readers(held());
        mix.permits_at_once =
            most_held_at_once(held()).into_iter().map(|(resource, most)| (resource.to_owned(), most)).collect();
        for Record { event, .. } in histories.iter().flatten() {
            match event {
                Event::Looked { accepted: false, .. } => mix.refused_looks += 1,
                Event::NotAdopted { kind, .. } => *mix.not_adopted.entry(kind.clone()).or_default() += 1,
                Event::Forced { evicted, .. } => mix.evicted += *evicted as u64,
                Event::SetLost { .. } => mix.sets_lost += 1,
                _ => {}
            }
        }
        mix
    }

    /// What a run must contain, and what to report if it does not.
    pub(super) fn effects(&self) -> Vec<(u64, String)> {
        let kinds = self.grants.iter().map(|(kind, count)| (*count, format!("no lock of the kind {kind}")));
        let others = [
            (self.overlapping_readers, "no two readers had a lock at once".to_owned()),
            (self.evicted, "nobody was evicted".to_owned()),
        ];
        let permits = PERMITS.map(|(index, permits)| {
            let most = self.permits_at_once.get(&resource(index)).copied().unwrap_or_default();
            let all = u64::from(most >= permits as usize);
            (all, format!("never were all permits of {} held at once", resource(index)))
        });
        kinds.chain(others).chain(permits).collect()
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { grants, violations, overlapping_readers, permits_at_once, .. } = self;
        let Self { refused_looks, not_adopted, evicted, sets_lost, .. } = self;
        let kinds = grants.iter().map(|(kind, grants)| {
            format!("{kind} {grants} ({} violations)", violations.get(kind).copied().unwrap_or_default())
        });
        writeln!(f, "kinds       {}", kinds.collect::<Vec<_>>().join(", "))?;
        let at_once = permits_at_once.iter().map(|(resource, most)| format!("{most} of {resource}"));
        writeln!(f, "permits     at once, at most: {}", at_once.collect::<Vec<_>>().join(", "))?;
        let not_adopted =
            not_adopted.iter().map(|(why, count)| format!("{why} {count}")).collect::<Vec<_>>().join(", ");
        write!(
            f,
            "beside      {overlapping_readers} readers beside readers, {refused_looks} of their looks refused, "
        )?;
        writeln!(f, "{evicted} holders evicted, {sets_lost} sets lost, not adopted: {not_adopted}")
    }
}
