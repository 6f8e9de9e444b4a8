//! A held lock's life: validity, renewal, loss, release.
//!
//! A [`Lease`] owns the [`Grant`](crate::engine::Grant) of its lock, which those that read the same lock in one process
//! [share](SharedGrant), and, if its caller waited for the lock, the [`Turn`](crate::waiting::Turn). Its
//! [`LockGuard`] releases both. The [`renewer`] renews all leases that are in the [`LeaseRegistry`]. The leases of a set of locks
//! are [tied](tie) together by a [`Bond`](state::Bond).

mod delegations;
mod extension;
mod guard;
mod hold_times;
mod lease;
mod leases;
mod life;
mod readings;
mod registry;
mod renewer;
mod scope;
mod set_guard;
mod shared_grant;
mod state;
mod term;

pub use self::guard::LockGuard;
pub use self::lease::Lease;
pub use self::leases::Leases;
pub(crate) use self::leases::{any_lost, tie};
pub(crate) use self::readings::ReadShare;
pub(crate) use self::registry::LeaseRegistry;
pub(crate) use self::renewer::{is_still_held, run_renewer};
pub use self::scope::Scope;
pub use self::set_guard::SetGuard;
pub(crate) use self::shared_grant::SharedGrant;
