//! The report of a run.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::crowd::CrowdStats;
use super::grants::Grant;
use super::history::{Event, Record, Write};
use super::mix::Mix;
use super::queue_stats::QueueStats;

/// Counts by kind.
type Counts = BTreeMap<String, u64>;

/// What happened in a run, and the violations that were found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// How long the run took, in seconds.
    pub seconds: f64,
    /// The faults that were injected.
    pub faults: Counts,
    /// The service processes that were started.
    pub services: u64,
    /// The acquisitions that began.
    pub attempts: u64,
    /// The locks that were granted.
    pub grants: u64,
    /// The renewals that the holders noticed.
    pub renewals: u64,
    /// The acquisitions that failed.
    pub rejections: Counts,
    /// The leases that ended before they were released.
    pub losses: Counts,
    /// The outcomes of the releases.
    pub releases: Counts,
    /// The outcomes of the writes.
    pub writes: Writes,
    /// The locks whose holders were killed.
    pub killed_while_holding: u64,
    /// The locks whose holders were stopped.
    pub stopped_while_holding: u64,
    /// The kinds of locks.
    pub kinds: Mix,
    /// Statistics of waiting.
    pub queues: QueueStats,
    /// What happened to the crowd.
    pub crowd: CrowdStats,
    /// The events that the engine logged.
    pub events: Counts,
    /// The milliseconds until all resources had been locked and written, in each quiet phase.
    pub progress: Vec<u128>,
    /// Faults without effect, and checks without input. If there are any, the run shows nothing.
    pub without_effect: Vec<String>,
    /// The violations.
    pub violations: Vec<String>,
}

/// The outcomes of the writes, as the holders saw them.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Writes {
    /// Written.
    pub accepted: u64,
    /// The fence refused them.
    pub refused: u64,
    /// Not tried: the holder noticed in time that its lease had ended.
    pub skipped: u64,
    /// The database did not reply in time.
    pub failed: u64,
    /// The holder was killed before it knew.
    pub unknown: u64,
}

impl Report {
    /// Whether there was no violation, in a run that could have shown one.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty() && self.without_effect.is_empty()
    }

    pub(super) fn count(
        &mut self,
        histories: &[Vec<Record>],
        grants: &[Grant],
        kinds: Mix,
        queues: QueueStats,
        crowd: CrowdStats,
    ) {
        let mut add = |counts: fn(&mut Self) -> &mut Counts, name: &str| {
            *counts(self).entry(name.to_owned()).or_default() += 1;
        };
        for Record { event, .. } in histories.iter().flatten() {
            match event {
                Event::Fault { kind, .. } => add(|report| &mut report.faults, kind),
                Event::Rejected { kind, .. } => add(|report| &mut report.rejections, kind),
                Event::Lost { reason, .. } => add(|report| &mut report.losses, reason),
                Event::Released { outcome, .. } => add(|report| &mut report.releases, outcome),
                Event::Logged { name, .. } => add(|report| &mut report.events, name),
                _ => {}
            }
        }
        for Record { event, .. } in histories.iter().flatten() {
            match event {
                Event::Started { .. } => self.services += 1,
                Event::Attempt { .. } | Event::PermitAttempt { .. } | Event::SetAttempt { .. } => self.attempts += 1,
                Event::Renewed { .. } => self.renewals += 1,
                _ => {}
            }
        }
        self.grants = grants.len() as u64;
        for grant in grants {
            let Writes { accepted, refused, skipped, failed, unknown } = &mut self.writes;
            *match grant.holder.wrote {
                Some(Write::Accepted) => accepted,
                Some(Write::Refused) => refused,
                Some(Write::Skipped) => skipped,
                Some(Write::Failed) => failed,
                None if grant.holder.writing.is_some() => unknown,
                None => continue,
            } += 1;
        }
        for Record { at, event } in histories.iter().flatten() {
            let Event::Fault { kind, service: Some(service), generation: Some(generation), .. } = event else {
                continue;
            };
            let of = |grant: &&Grant| grant.holder.process == (*service, *generation);
            let held = grants.iter().filter(of).filter(|grant| grant.is_held_at(*at)).count() as u64;
            match kind.as_str() {
                "kill_service" => self.killed_while_holding += held,
                "stop_service" => self.stopped_while_holding += held,
                _ => {}
            }
        }
        (self.kinds, self.queues, self.crowd) = (kinds, queues, crowd);
        self.check_effects();
    }

    /// Checks that each kind of fault had its effect.
    fn check_effects(&mut self) {
        let count = |counts: &Counts, name: &str| counts.get(name).copied().unwrap_or_default();
        let effects = [
            (self.killed_while_holding, "no service was killed while it held a lock"),
            (self.stopped_while_holding, "no service was stopped while it held a lock"),
            (count(&self.losses, "Expired"), "no holder noticed a loss"),
            (self.writes.refused, "the fence refused no write"),
            (count(&self.rejections, "no_quorum"), "no caller got `NoQuorum`"),
            (count(&self.events, "lock.member_replaced"), "no server was quarantined"),
            (self.renewals, "no lease was renewed"),
        ];
        let missing = effects.into_iter().chain(self.queues.effects()).chain(self.crowd.effects());
        let missing = missing.map(|(count, missing)| (count, missing.to_owned())).chain(self.kinds.effects());
        self.without_effect.extend(missing.filter(|(count, _)| *count == 0).map(|(_, missing)| missing));
    }
}

/// How many violations the printed report shows.
const SHOWN: usize = 20;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |counts: &Counts| {
            counts.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
        };
        writeln!(f, "seed {}, {:.1} s, {} service processes", self.seed, self.seconds, self.services)?;
        writeln!(f, "faults      {}: {}", self.faults.values().sum::<u64>(), list(&self.faults))?;
        writeln!(f, "grants      {} of {} attempts, {} renewals seen", self.grants, self.attempts, self.renewals)?;
        writeln!(f, "rejections  {}", list(&self.rejections))?;
        writeln!(f, "losses      {}", list(&self.losses))?;
        writeln!(f, "releases    {}", list(&self.releases))?;
        let Writes { accepted, refused, skipped, failed, unknown } = self.writes;
        write!(f, "writes      {accepted} accepted, {refused} refused by the fence, {skipped} skipped, ")?;
        writeln!(f, "{failed} failed, {unknown} unknown because of a kill")?;
        let (killed, stopped) = (self.killed_while_holding, self.stopped_while_holding);
        writeln!(f, "holders     {killed} killed, {stopped} stopped")?;
        write!(f, "{}{}{}", self.kinds, self.queues, self.crowd)?;
        writeln!(f, "events      {}", list(&self.events))?;
        writeln!(f, "progress    every resource written after {:?} ms without faults", self.progress)?;
        self.without_effect.iter().try_for_each(|missing| writeln!(f, "NO EFFECT   {missing}"))?;
        self.violations.iter().take(SHOWN).try_for_each(|violation| writeln!(f, "VIOLATION   {violation}"))?;
        write!(f, "{} violations", self.violations.len())
    }
}

#[cfg(test)]
mod tests {
    use super::super::grants::Holder;
    use super::*;
    use lock_history::Moment;

    #[test]
    fn a_run_without_faults_shows_nothing() {
        let mut report = Report::default();
        report.count(&[], &[], Mix::count(&[], &[], &[]), QueueStats::default(), CrowdStats::default());
        assert!(!report.is_clean(), "{report}");
        for missing in [
            "no service was killed",
            "no lock was handed over",
            "no lock of the kind downgrade",
            "no two readers had a lock at once",
            "never were all permits of account-1 held at once",
            "the servers did not send both kinds of wake-ups",
            "nobody waited for long enough",
            "nobody of the crowd was frozen",
        ] {
            assert!(report.to_string().contains(missing), "{report}");
        }
    }

    #[test]
    fn killed_holders_are_counted() {
        let of = |generation| Grant::new(("r", 1), Holder::of((2, generation)), [1, 10, 20].map(Moment));
        let killed = |at, generation| {
            let (kind, generation) = ("kill_service".to_owned(), Some(generation));
            let event = Event::Fault { kind, server: None, service: Some(2), generation };
            let mut report = Report::default();
            report.count(
                &[vec![Record { at: Moment(at), event }]],
                &[of(7)],
                Mix::default(),
                QueueStats::default(),
                CrowdStats::default(),
            );
            report.killed_while_holding
        };
        assert_eq!((killed(15, 7), killed(15, 8), killed(20, 7), killed(9, 7)), (1, 0, 0, 0));
    }
}
