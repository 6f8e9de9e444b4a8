//! Histories of locks, and the checks that find broken promises in them. The simulation, chaos and the tests proper record
//! grants in their own ways, and share:
//!
//! - [`Grant`]: one grant, on a clock ([`Moment`]) that all holders share; a downgrade and an adoption are parts of its story;
//! - [`check`]: tokens are unique and ordered, and no writer is valid beside another holder;
//! - [`Eviction`]: a forced release, what it excuses, and that who was evicted does not renew;
//! - [`adoption`]: an adopted lock is its holder's, and ends with the holder's key;
//! - [`permits`]: no more slots of a resource are held than it has permits;
//! - [`SetSeen`]: what the caller of a set of locks saw of it, which is all or nothing;
//! - [`Register`]: a resource behind a fence, whether an update of it was lost, and whether the fence held;
//! - [`Referee`]: records the holders of tests that run in one process.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test that cannot go on has to end")]

pub mod adoption;
pub mod check;
mod eviction;
mod grant;
mod moment;
pub mod permits;
mod referee;
mod register;
mod set;
mod sink;

pub use self::check::Violation;
pub use self::eviction::{Eviction, the_evicted_do_not_renew};
pub use self::grant::{Grant, Span, by_resource};
pub use self::moment::Moment;
pub use self::referee::Referee;
pub use self::register::{Register, Write, no_update_is_lost};
pub use self::set::{SetSeen, sets_are_all_or_nothing};
pub use self::sink::{Access, no_write_follows_a_larger_claim};
