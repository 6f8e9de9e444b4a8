use std::fmt;
use std::time::Duration;

use thiserror::Error;

use super::schedule::letter;

/// Why a trial, or a part of it, could not be made.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Problem {
    /// Neither a request nor a task was added.
    #[error("there is no request: add at least two with .request(..) or .tasks(..)")]
    NoRequest,
    /// There is only one request, and nothing that could run beside it.
    #[error("there is only one request: add the one that may run beside it, or ask only for a hang-up")]
    OneRequest,
    /// There is a request, and no service for it.
    #[error("there are requests, and no service: add .service(|locks, state| ..)")]
    NoService,
    /// No question is asked.
    #[error("there is no question: name at least one in .only([..])")]
    NoQuestion,
    /// Only questions about locks were asked, and no request takes one.
    #[error(
        "no request takes a lock, and all that was asked is what happens when one is lost or excludes nobody: ask for a race"
    )]
    NoLock,
    /// No request is ever pending, so that none could be held and none run in between.
    #[error(
        "no request makes a step: each runs as one piece here, and on two threads in production; await testing::step(\"..\") between its reads and writes"
    )]
    NoStep,
    /// There is no check.
    #[error("there is no check: add .check(|state, answers| async move {{ .. }})")]
    NoCheck,
    /// A limit is out of range.
    #[error("{field} must be between {least} and {most}, got {value}")]
    OutOfRange {
        /// The name of the setting.
        field: &'static str,
        /// What it was set to.
        value: String,
        /// The least that is allowed.
        least: String,
        /// The most that is allowed.
        most: String,
    },
    /// The closure that makes the state panicked.
    #[error("making the state panicked: {0}")]
    StatePanicked(String),
    /// The closure of [`Trial::service`](super::Trial::service) panicked, so that nothing was tried. This is what it said.
    #[error("making the service panicked: {0}")]
    ServicePanicked(String),
    /// The state was not ready within the time of a run.
    #[error("the state was not ready after {limit:?} (.max_time)")]
    StateNeverReady {
        /// The time of a run.
        limit: Duration,
    },
    /// The lock managers of the instances could not be made.
    #[error("no lock manager could be made: {0}")]
    NoLocks(String),
    /// The check panicked.
    #[error("the check panicked: {message}{}", Lines(.ran))]
    CheckPanicked {
        /// What the panic said.
        message: String,
        /// What had run.
        ran: Vec<String>,
    },
    /// The check did not end within the time of a run.
    #[error("the check has no answer after {limit:?} (.max_time)")]
    CheckNeverEnds {
        /// The time of a run.
        limit: Duration,
    },
    /// The check is false although the requests ran one after another.
    #[error(
        "the check is false although the requests ran one after another, so that no lock could help: correct the check, or the service{}",
        Lines(.ran)
    )]
    NeverHolds {
        /// What had run.
        ran: Vec<String>,
    },
    /// A request did not get to its handler, or failed there, in every order in which the requests ran one after another. Nothing of it was
    /// tried.
    #[error(
        "{} always failed, without anything beside it: {answer}; look at its path, its headers, and what the service needs{}",
        letter(*.request), Lines(.ran)
    )]
    Fails {
        /// The request, in the order in which they were added, from 0.
        request: usize,
        /// What it was answered.
        answer: String,
        /// What had run.
        ran: Vec<String>,
    },
    /// A request asks for a WebSocket, or another upgrade. Nothing of its session was tried.
    #[error(
        "{} asks for an upgrade, and a trial has no connection that could be upgraded: put the work of the session into a function, and try that with .tasks(..)",
        letter(*.request)
    )]
    Upgrade {
        /// The request, in the order in which they were added, from 0.
        request: usize,
    },
    /// A run did not end in its time, or its requests wait for each other. The rest of its question was not tried.
    #[error("a run does not end: its requests wait for each other, or take longer than .max_time{}", Lines(.ran))]
    Stuck {
        /// What had run, and where each request stands.
        ran: Vec<String>,
    },
    /// A request makes more steps than it is held at.
    #[error("{} makes more than {bound} steps: it was not held at the others (.max_steps)", letter(*.request))]
    MoreSteps {
        /// The request, in the order in which they were added, from 0.
        request: usize,
        /// The limit.
        bound: usize,
    },
}

struct Lines<'a>(&'a [String]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}
