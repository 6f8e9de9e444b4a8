use std::collections::BTreeSet;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stateright::{Checker as _, HasDiscoveries, Model};

use super::coverage::{Coverage, CoveragePoint};
use super::delegation::{DelegationModel, DelegationSetting};
use super::membership::{MembershipModel, MembershipSetting};
use super::model::LockModel;
use super::pairing::{PairingModel, PairingSetting};
use super::permits::{PermitsModel, PermitsSetting};
use super::queue::{QueueModel, QueueSetting};
use super::reservations::{ReservationsModel, ReservationsSetting};
use super::sets::{SetsModel, SetsSetting};
use super::setting::Setting;

/// The result of exploring all states of a setting.
#[derive(Debug)]
pub struct Outcome {
    /// The number of distinct states.
    pub states: usize,
    /// The largest number of steps from the initial state to any state, by the shortest path.
    pub depth: usize,
    /// How long the exploration took.
    pub took: Duration,
    /// The properties that were checked.
    pub properties: Vec<&'static str>,
    /// The properties that do not hold, each with a run that shows it.
    pub violations: Vec<Violation>,
    coverage: Arc<Coverage>,
}

/// A property that does not hold.
#[derive(Debug)]
pub struct Violation {
    /// The property.
    pub property: &'static str,
    /// The actions that lead to the violation, each with the state before it. The symmetry reduction renames nodes from step
    /// to step.
    pub path: Vec<String>,
}

impl Outcome {
    /// Whether some run reached this coverage point.
    #[must_use]
    pub fn reached(&self, point: CoveragePoint) -> bool {
        self.coverage.contains(point)
    }

    /// Whether this property is violated.
    #[must_use]
    pub fn violates(&self, property: &str) -> bool {
        self.violations.iter().any(|violation| violation.property == property)
    }
}

/// Two, because the threads share the set of known states and a third adds little.
const THREADS: usize = 2;
/// How often progress is reported.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);
/// How often the checker is polled for its end.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Explores all states of a setting. Stops early when the property `target` is violated, or without a target, when any
/// property is. `progress` is called with the number of states and the depth reached so far.
#[must_use]
pub fn explore(setting: Setting, target: Option<&'static str>, progress: &dyn Fn(usize, usize)) -> Outcome {
    let model = LockModel::new(setting);
    let coverage = model.coverage();
    run_checker(model, coverage, target, progress)
}

/// Like [`explore`], for the model with a queue.
#[must_use]
pub fn explore_queue(setting: QueueSetting, target: Option<&'static str>, progress: &dyn Fn(usize, usize)) -> Outcome {
    run_checker(QueueModel::new(setting), Arc::default(), target, progress)
}

/// Like [`explore`], for the model of the reservations.
#[must_use]
pub fn explore_reservations(
    setting: ReservationsSetting,
    target: Option<&'static str>,
    progress: &dyn Fn(usize, usize),
) -> Outcome {
    run_checker(ReservationsModel::new(setting), Arc::default(), target, progress)
}

/// Like [`explore`], for the model of delegations.
#[must_use]
pub fn explore_delegation(
    setting: DelegationSetting,
    target: Option<&'static str>,
    progress: &dyn Fn(usize, usize),
) -> Outcome {
    run_checker(DelegationModel::new(setting), Arc::default(), target, progress)
}

/// Like [`explore`], for the model of permits.
#[must_use]
pub fn explore_permits(
    setting: PermitsSetting,
    target: Option<&'static str>,
    progress: &dyn Fn(usize, usize),
) -> Outcome {
    run_checker(PermitsModel::new(setting), Arc::default(), target, progress)
}

/// Like [`explore`], for the model of the pairing.
#[must_use]
pub fn explore_pairing(
    setting: PairingSetting,
    target: Option<&'static str>,
    progress: &dyn Fn(usize, usize),
) -> Outcome {
    run_checker(PairingModel::new(setting), Arc::default(), target, progress)
}

/// Like [`explore`], for the model of the membership.
#[must_use]
pub fn explore_membership(
    setting: MembershipSetting,
    target: Option<&'static str>,
    progress: &dyn Fn(usize, usize),
) -> Outcome {
    run_checker(MembershipModel::new(setting), Arc::default(), target, progress)
}

/// Like [`explore`], for the model of sets of locks.
#[must_use]
pub fn explore_sets(setting: SetsSetting, target: Option<&'static str>, progress: &dyn Fn(usize, usize)) -> Outcome {
    run_checker(SetsModel::new(setting), Arc::default(), target, progress)
}

fn run_checker<M>(
    model: M,
    coverage: Arc<Coverage>,
    target: Option<&'static str>,
    progress: &dyn Fn(usize, usize),
) -> Outcome
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + fmt::Debug + fmt::Display + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + fmt::Debug + PartialEq + Send + Sync + 'static,
{
    let properties = model.properties().iter().map(|property| property.name).collect();
    let until = match target {
        Some(target) => HasDiscoveries::AnyOf(BTreeSet::from([target])),
        None => HasDiscoveries::AnyFailures,
    };
    let started = Instant::now();
    let checker = model.checker().threads(THREADS).finish_when(until).spawn_bfs();
    let mut reported = started;
    while !checker.is_done() {
        std::thread::sleep(POLL_INTERVAL);
        if reported.elapsed() >= PROGRESS_INTERVAL {
            reported = Instant::now();
            progress(checker.unique_state_count(), checker.max_depth());
        }
    }
    let checker = checker.join();
    let violations = checker.discoveries().into_iter().map(|(property, path)| {
        let path = path.into_vec().into_iter().map(|(state, action)| match action {
            Some(action) => format!("{state}\n    {action:?}"),
            None => state.to_string(),
        });
        Violation { property, path: path.collect() }
    });
    Outcome {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        took: started.elapsed(),
        properties,
        violations: violations.collect(),
        coverage,
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "VIOLATED: {}", self.property)?;
        self.path.iter().try_for_each(|step| writeln!(f, "  {step}"))
    }
}
