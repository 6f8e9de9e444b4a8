use std::fmt;
use std::io::{self, Write};

use super::delegation::DelegationSetting;
use super::membership::MembershipSetting;
use super::pairing::PairingSetting;
use super::permits::PermitsSetting;
use super::queue::QueueSetting;
use super::reservations::ReservationsSetting;
use super::run::{
    Outcome, explore, explore_delegation, explore_membership, explore_pairing, explore_permits, explore_queue,
    explore_reservations,
};
use super::setting::Setting;

/// The setting of one of the models.
#[derive(Clone, Debug)]
pub enum ModelSetting {
    /// A setting of the model without a queue.
    Lock(Setting),
    /// A setting of the model with a queue.
    Queue(QueueSetting),
    /// A setting of the model of the reservations.
    Reservations(ReservationsSetting),
    /// A setting of the model of delegations.
    Delegation(DelegationSetting),
    /// A setting of the model of permits.
    Permits(PermitsSetting),
    /// A setting of the model of the pairing.
    Pairing(PairingSetting),
    /// A setting of the model of the membership.
    Membership(MembershipSetting),
}

impl ModelSetting {
    fn explore(&self, progress: &dyn Fn(usize, usize)) -> Outcome {
        match self {
            Self::Lock(setting) => explore(setting.clone(), None, progress),
            Self::Queue(setting) => explore_queue(setting.clone(), None, progress),
            Self::Reservations(setting) => explore_reservations(setting.clone(), None, progress),
            Self::Delegation(setting) => explore_delegation(setting.clone(), None, progress),
            Self::Permits(setting) => explore_permits(setting.clone(), None, progress),
            Self::Pairing(setting) => explore_pairing(*setting, None, progress),
            Self::Membership(setting) => explore_membership(setting.clone(), None, progress),
        }
    }
}

impl fmt::Display for ModelSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(setting) => setting.fmt(f),
            Self::Queue(setting) => setting.fmt(f),
            Self::Reservations(setting) => setting.fmt(f),
            Self::Delegation(setting) => setting.fmt(f),
            Self::Permits(setting) => setting.fmt(f),
            Self::Pairing(setting) => setting.fmt(f),
            Self::Membership(setting) => setting.fmt(f),
        }
    }
}

/// Explores all states of these settings. Writes the runs that violate a property, and then a table. Returns whether all
/// properties hold. `progress` is called with what is being explored.
///
/// # Errors
///
/// If writing to `out` fails.
pub fn report(settings: Vec<ModelSetting>, out: &mut impl Write, progress: impl Fn(String)) -> io::Result<bool> {
    let mut outcomes = Vec::new();
    for setting in settings {
        progress(setting.to_string());
        let outcome = setting.explore(&|states, depth| progress(format!("  {states} states, depth {depth}")));
        outcome.violations.iter().try_for_each(|violation| writeln!(out, "{setting}\n{violation}"))?;
        outcomes.push((setting, outcome));
    }
    writeln!(out, "{:>12} {:>6} {:>8}  {:<10} setting", "states", "depth", "seconds", "properties")?;
    let mut all_hold = true;
    for (setting, outcome) in outcomes {
        let (violated, all) = (outcome.violations.len(), outcome.properties.len());
        let held = if violated == 0 { format!("all {all} hold") } else { format!("{violated} VIOLATED") };
        let seconds = outcome.took.as_secs_f64();
        writeln!(out, "{:>12} {:>6} {seconds:>8.1}  {held:<10} {setting}", outcome.states, outcome.depth)?;
        all_hold &= violated == 0;
    }
    Ok(all_hold)
}
