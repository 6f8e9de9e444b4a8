//! Histories of locks, and the checks that find broken promises in them. The simulation, chaos and the tests proper record
//! grants in their own ways, and share:
//!
//! - [`Grant`]: one grant, on a clock ([`Moment`]) that all holders share;
//! - [`check`]: tokens are unique and ordered, and no two holders are valid at once;
//! - [`Register`]: a resource behind a fence, and whether an update of it was lost;
//! - [`Referee`]: records the holders of tests that run in one process.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test that cannot go on has to end")]

pub mod check;
mod grant;
mod moment;
mod referee;
mod register;

pub use self::check::Violation;
pub use self::grant::{Grant, by_resource};
pub use self::moment::Moment;
pub use self::referee::Referee;
pub use self::register::{Register, Write, no_update_is_lost};
