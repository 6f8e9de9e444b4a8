//! Explores all states of the larger settings, which takes minutes.
//!
//! ```text
//! model [attempts|forgetting|renewal|reading|eviction|queue|permits|pairing|delegation|membership|all]
//! ```
//!
//! Progress goes to stderr. If a property is violated, the run that shows it is printed and the exit code is 1.

use std::io;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use lock_model::{
    DelegationSetting, MembershipSetting, ModelSetting, PairingSetting, PermitsSetting, QueueSetting,
    ReservationsSetting, Setting, report,
};

/// Explores all states of a model of the protocol and checks its properties in each of them. The exit code is 1 if a
/// property is violated.
#[derive(Parser)]
struct Arguments {
    /// Which settings to explore.
    #[arg(default_value = "all")]
    which: Which,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Which {
    /// Two and three attempts: without time, where keys expire at any step, and with other locks that share the fence.
    Attempts,
    /// Two attempts with time, while nodes lose their data.
    Forgetting,
    /// Leases that are renewed, while nodes lose their data.
    Renewal,
    /// Writers and readers: who holds the lock, and with which tokens; while they renew, downgrade, forget and are evicted.
    Reading,
    /// Holders that are evicted, while they renew and others acquire.
    Eviction,
    /// Processes that wait in the nodes' queues.
    Queue,
    /// Services that work under the lock of another.
    Delegation,
    /// Permits: several slots with one queue.
    Permits,
    /// Permits again: which waiter may take which slot, while the nodes do not agree on it.
    Pairing,
    /// Changes of the membership, with and without a lock, while nodes lose their data and clocks are wrong.
    Membership,
    /// All of these, one after the other.
    All,
}

fn main() -> io::Result<ExitCode> {
    let which = Arguments::parse().which;
    let wanted = |of: Which| which == Which::All || which == of;
    let mut models = Vec::new();
    let locks = [
        (Which::Attempts, Setting::long_attempts()),
        (Which::Forgetting, Setting::long_forgetting()),
        (Which::Renewal, Setting::long_renewal()),
        (Which::Reading, Setting::long_reading()),
        (Which::Eviction, Setting::long_eviction()),
    ];
    for (_, settings) in locks.into_iter().filter(|(of, _)| wanted(*of)) {
        models.extend(settings.into_iter().map(ModelSetting::Lock));
    }
    if wanted(Which::Queue) {
        models.extend(QueueSetting::long().into_iter().map(ModelSetting::Queue));
        models.extend(ReservationsSetting::long().into_iter().map(ModelSetting::Reservations));
    }
    if wanted(Which::Delegation) {
        models.extend(DelegationSetting::long().into_iter().map(ModelSetting::Delegation));
    }
    if wanted(Which::Permits) {
        models.extend(PermitsSetting::long().into_iter().map(ModelSetting::Permits));
    }
    if wanted(Which::Pairing) {
        models.extend(PairingSetting::long().into_iter().map(ModelSetting::Pairing));
    }
    if wanted(Which::Membership) {
        models.extend(MembershipSetting::long().into_iter().map(ModelSetting::Membership));
    }
    let all_hold = report(models, &mut io::stdout(), |progress| eprintln!("{progress}"))?;
    Ok(if all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
