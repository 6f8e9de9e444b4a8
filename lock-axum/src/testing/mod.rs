//! Tries a service in every order of steps that matters, and shows the race: [`Trial`]. With the feature `testing`, for tests.
//!
//! The guide leads [from an unguarded handler to a fenced one](crate::guide::do_i_need_a_lock) by what trials print, and has a page about trials
//! [without axum](crate::guide::trials_without_axum).
//!
//! | file | what it is |
//! |---|---|
//! | `trial` | what is tried: state, service, requests, check |
//! | `question`, `ask` | the questions, and the schedules of each |
//! | `runner`, `run` | carries out each schedule, on fresh state; one run under way, step by step |
//! | `request` | a request that is polled step by step, and held |
//! | `instance` | the managers and masters of a run, and how a lock is lost |
//! | `place` | where a request stands: its last event or span, or a [`step`] by hand |
//! | `clock` | waiting, in real time and under a paused clock |
//! | `watchdog` | says which request blocks its thread |
//! | `schedule`, `advice`, `outcome`, `problem`, `answer` | what is told |
//! | `lock_order` | templates that are nested in both orders |
//! | `without` | what handlers may call without the feature |

mod advice;
mod answer;
mod ask;
mod clock;
mod instance;
mod lock_order;
mod outcome;
mod place;
mod problem;
mod question;
mod request;
mod run;
mod runner;
mod schedule;
mod trial;
mod watchdog;

pub use self::answer::Answer;
pub use self::lock_order::{LockOrder, Reversed};
pub use self::outcome::{Outcome, Unlocked};
pub use self::place::step;
pub use self::problem::Problem;
pub use self::question::Question;
pub use self::schedule::Schedule;
pub use self::trial::{Trial, get, post};
