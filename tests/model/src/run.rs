use std::collections::BTreeSet;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stateright::{Checker as _, HasDiscoveries, Model};

use super::locks::Locks;
use super::queue::{QueueSetting, Waiters};
use super::setting::Setting;
use super::sight::{Sight, Sights};

/// What came of going through all states of a setting.
#[derive(Debug)]
pub struct Outcome {
    /// How many states there are.
    pub states: usize,
    /// How many steps the longest of the shortest ways to a state has.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// The properties that were checked.
    pub properties: Vec<&'static str>,
    /// Those that do not hold, each with a run that shows it.
    pub violations: Vec<Violation>,
    sights: Arc<Sights>,
}

/// A property that does not hold.
#[derive(Debug)]
pub struct Violation {
    /// Which.
    pub property: &'static str,
    /// The steps that lead there, and how the nodes stand before each. Nodes are renamed from step to step, so that states which
    /// differ in their names alone are one.
    pub path: Vec<String>,
}

impl Outcome {
    /// Whether something was seen in some run.
    #[must_use]
    pub fn saw(&self, sight: Sight) -> bool {
        self.sights.contains(sight)
    }

    /// Whether this property does not hold.
    #[must_use]
    pub fn violates(&self, property: &str) -> bool {
        self.violations.iter().any(|violation| violation.property == property)
    }
}

/// Two: the checkers of one setting share the states, and a third adds little.
const THREADS: usize = 2;
/// How often progress is told.
const TELL: Duration = Duration::from_secs(5);
/// How often it is looked whether it is done.
const LOOK: Duration = Duration::from_millis(20);

/// Goes through all states of a setting, until `sought` does not hold, or without it any property; `tell` is told of the states
/// and the depth so far.
#[must_use]
pub fn explore(setting: Setting, sought: Option<&'static str>, tell: impl Fn(usize, usize)) -> Outcome {
    let locks = Locks::new(setting);
    let sights = locks.sights();
    go_through(locks, sights, sought, tell)
}

/// The same, of the queue.
#[must_use]
pub fn explore_queue(setting: QueueSetting, sought: Option<&'static str>, tell: impl Fn(usize, usize)) -> Outcome {
    go_through(Waiters::new(setting), Arc::default(), sought, tell)
}

fn go_through<M>(model: M, sights: Arc<Sights>, sought: Option<&'static str>, tell: impl Fn(usize, usize)) -> Outcome
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + fmt::Debug + fmt::Display + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + fmt::Debug + PartialEq + Send + Sync + 'static,
{
    let properties = model.properties().iter().map(|property| property.name).collect();
    let until = match sought {
        Some(sought) => HasDiscoveries::AnyOf(BTreeSet::from([sought])),
        None => HasDiscoveries::AnyFailures,
    };
    let started = Instant::now();
    let checker = model.checker().threads(THREADS).finish_when(until).spawn_bfs();
    let mut told = started;
    while !checker.is_done() {
        std::thread::sleep(LOOK);
        if told.elapsed() >= TELL {
            told = Instant::now();
            tell(checker.unique_state_count(), checker.max_depth());
        }
    }
    let checker = checker.join();
    let violations = checker.discoveries().into_iter().map(|(property, path)| {
        let path = path.into_vec().into_iter().map(|(state, event)| match event {
            Some(event) => format!("{state}\n    {event:?}"),
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
        sights,
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "BROKEN: {}", self.property)?;
        self.path.iter().try_for_each(|step| writeln!(f, "  {step}"))
    }
}
