//! The crowd: many processes, one waiter each, in line for one resource. Some are killed and some are frozen there, while masters
//! are lost and connections are cut. The others must be served in order, and soon.
//!
//! | file | |
//! |---|---|
//! | `rounds` | who is hit, when, and with what |
//! | `absence` | the times in which a process could not take part |
//! | `checks` | what must hold of those that could |
//! | `stats` | what happened, for the report |

mod absence;
mod checks;
mod rounds;
mod stats;

use std::ops::Range;

use super::SERVICES;

pub(super) use self::checks::judge;
pub use self::stats::CrowdStats;

/// How many processes it has.
pub(super) const CROWD: usize = 7;
/// Their indices, behind those of the ordinary services.
pub(super) const MEMBERS: Range<usize> = SERVICES..SERVICES + CROWD;
/// What they all want, and nobody else does.
pub(super) const CROWD_RESOURCE: &str = "crowd";
/// The phase in which they run.
const CROWD_PHASE: &str = "crowd";
