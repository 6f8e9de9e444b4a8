//! The report of a run about membership.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::super::MAX_TTL;
use super::super::grants::Grant;
use super::super::history::{Event, Record, Write};
use super::super::mix::Mix;
use super::super::windows::Window;
use super::availability::{Gap, MAX_GAP, gaps};
use super::faults::{Kind, REPLACE};
use super::forming::FORMED_AGAIN;
use super::nemesis::ALL_REPLACED;
use lock_history::Moment;

/// Counts by kind.
type Counts = BTreeMap<String, u64>;

/// What happened in a run about membership, and the violations that were found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MembershipReport {
    /// The seed.
    pub seed: u64,
    /// How long the run took, in seconds.
    pub seconds: f64,
    /// What was done to masters and services.
    pub faults: Counts,
    /// The longest time from the beginning of each kind of fault until the master voted again, in milliseconds.
    pub longest: BTreeMap<String, u128>,
    /// The steps forward of the clock of a master that voted.
    pub clock_steps: u64,
    /// The keys that lived on for too long on one master after its clock was stepped back.
    pub keys_shortened: usize,
    /// The acquisitions that began.
    pub attempts: u64,
    /// The locks that were granted.
    pub grants: u64,
    /// The kinds of locks.
    pub kinds: Mix,
    /// The writes that were accepted.
    pub writes: u64,
    /// The acquisitions that failed.
    pub rejections: Counts,
    /// The leases that ended before they were released.
    pub losses: Counts,
    /// The probes that acquired a lock.
    pub probes: u64,
    /// The probes that failed.
    pub failed_probes: Counts,
    /// The probes that acquired a lock of the set that was formed again.
    pub after_forming: u64,
    /// The longest time in which no service acquired a lock, in milliseconds.
    pub longest_gap: u128,
    /// The events that the engine logged.
    pub events: Counts,
    /// Faults without effect. If there are any, the run shows nothing.
    pub without_effect: Vec<String>,
    /// The violations.
    pub violations: Vec<String>,
}

impl MembershipReport {
    /// Whether there was no violation, in a run that could have shown one.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty() && self.without_effect.is_empty()
    }

    /// Counts what is in the histories.
    pub(super) fn count(&mut self, nemesis: &[Record], services: &[Vec<Record>], grants: &[Grant], kinds: Mix) {
        let add = |counts: &mut Counts, name: &str| *counts.entry(name.to_owned()).or_default() += 1;
        let mut begun = BTreeMap::new();
        for Record { at, event } in nemesis.iter().chain(services.iter().flatten()) {
            match event {
                Event::Fault { kind, server, .. } => {
                    add(&mut self.faults, kind);
                    begun.insert((kind, *server), *at);
                }
                Event::Healed { kind, server: Some(server), .. } => {
                    let lasted = begun.get(&(kind, Some(*server))).map_or(0, |begun| at.since(*begun).as_millis());
                    let longest = self.longest.entry(kind.clone()).or_default();
                    *longest = lasted.max(*longest);
                }
                Event::ClockStepped { .. } => self.clock_steps += 1,
                Event::KeysShortened { count } => self.keys_shortened += count,
                Event::Attempt { .. } | Event::PermitAttempt { .. } | Event::SetAttempt { .. } => self.attempts += 1,
                Event::Rejected { kind, .. } => add(&mut self.rejections, kind),
                Event::Lost { reason, .. } => add(&mut self.losses, reason),
                Event::Probed => self.probes += 1,
                Event::ProbeFailed { kind } => add(&mut self.failed_probes, kind),
                Event::Logged { name, .. } => add(&mut self.events, name),
                _ => {}
            }
        }
        self.grants = grants.len() as u64;
        self.kinds = kinds;
        self.writes = grants.iter().filter(|grant| grant.holder.wrote == Some(Write::Accepted)).count() as u64;
        for kind in Kind::ALL.map(Kind::name).into_iter().chain([REPLACE, "kill_service", "stop_service"]) {
            if !self.longest.contains_key(kind) && !self.faults.contains_key(kind) {
                self.without_effect.push(format!("{kind} never happened"));
            }
        }
        let all_replaced = |record: &Record| matches!(&record.event, Event::Phase { name } if name == ALL_REPLACED);
        if !nemesis.iter().any(all_replaced) {
            self.without_effect.push("some master was never replaced".into());
        }
        let formed_again = formed_again(nemesis).unwrap_or(Moment::MAX);
        let by_new = |record: &&Record| record.event == Event::Probed && record.at.since(formed_again) > MAX_TTL;
        self.after_forming = services.iter().flatten().filter(by_new).count() as u64;
        if self.after_forming == 0 {
            self.without_effect.push("no lock was acquired of a set that was formed again".into());
        }
        if self.clock_steps == 0 {
            self.without_effect.push("no clock of a master that votes was stepped forward".into());
        }
    }

    /// Judges whether locks could be acquired all the time, from the first phase of the nemesis until a majority was lost for good.
    pub(super) fn judge_availability(&mut self, nemesis: &[Record], services: &[Vec<Record>]) {
        let first = nemesis.iter().find(|record| matches!(record.event, Event::Phase { .. }));
        let (Some(first), Some(last)) = (first, formed_again(nemesis)) else { return };
        let gaps = gaps(nemesis, services, Window { from: first.at, to: last });
        self.longest_gap = gaps.first().map_or(0, |gap| gap.length.as_millis());
        for Gap { window: Window { from, to }, length } in gaps.into_iter().take_while(|gap| gap.length > MAX_GAP) {
            let during = active_at(nemesis, Window { from, to });
            let length = Duration::from_millis(u64::try_from(length.as_millis()).unwrap());
            self.violations
                .push(format!("no service acquired a lock for {length:?}, from {from} to {to}, while {during}"));
        }
    }
}

/// When a majority was lost, and no service could acquire any more until the set was formed again.
fn formed_again(nemesis: &[Record]) -> Option<Moment> {
    let began = |record: &&Record| matches!(&record.event, Event::Phase { name } if name == FORMED_AGAIN);
    nemesis.iter().find(began).map(|record| record.at)
}

/// The faults that were active in a window.
fn active_at(nemesis: &[Record], window: Window) -> String {
    let mut active = Vec::new();
    for record in nemesis.iter().take_while(|record| record.at < window.to) {
        match &record.event {
            Event::Fault { kind, server, service, .. } => active.push((kind, server, service)),
            Event::Healed { kind, server, service } if record.at < window.from => {
                active.retain(|fault| *fault != (kind, server, service));
            }
            _ => {}
        }
    }
    let name = |(kind, server, service): &(&String, &Option<usize>, &Option<usize>)| match (server, service) {
        (Some(seat), _) => format!("{kind} of seat {seat}"),
        (_, Some(service)) => format!("{kind} {service}"),
        _ => (*kind).clone(),
    };
    if active.is_empty() {
        "nothing was wrong".to_owned()
    } else {
        active.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}

/// How many violations the printed report shows.
const SHOWN: usize = 20;

impl fmt::Display for MembershipReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |counts: &Counts| {
            counts.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
        };
        writeln!(f, "seed {}, {:.1} s", self.seed, self.seconds)?;
        writeln!(f, "faults      {}: {}", self.faults.values().sum::<u64>(), list(&self.faults))?;
        let longest = self.longest.iter().map(|(kind, millis)| format!("{kind} {millis} ms"));
        writeln!(f, "longest     {}", longest.collect::<Vec<_>>().join(", "))?;
        writeln!(f, "clocks      {} steps forward, {} keys shortened", self.clock_steps, self.keys_shortened)?;
        writeln!(f, "grants      {} of {} attempts, {} writes", self.grants, self.attempts, self.writes)?;
        write!(f, "{}", self.kinds)?;
        writeln!(f, "rejections  {}", list(&self.rejections))?;
        writeln!(f, "losses      {}", list(&self.losses))?;
        write!(f, "probes      {} acquired, {} of them after ", self.probes, self.after_forming)?;
        writeln!(f, "the set was formed again; failed: {}", list(&self.failed_probes))?;
        writeln!(f, "longest gap {} ms without an acquisition, {MAX_GAP:?} allowed", self.longest_gap)?;
        writeln!(f, "events      {}", list(&self.events))?;
        self.without_effect.iter().try_for_each(|missing| writeln!(f, "NO EFFECT   {missing}"))?;
        self.violations.iter().take(SHOWN).try_for_each(|violation| writeln!(f, "VIOLATION   {violation}"))?;
        write!(f, "{} violations", self.violations.len())
    }
}
