//! A held lock's life: validity, renewal, loss, release.
//!
//! A [`Lease`] owns the [`Grant`](crate::engine::Grant) of its lock and, if its caller waited for the lock, the
//! [`LocalPermit`](crate::waiting::LocalPermit). Its [`LockGuard`] releases both. The [`renewer`] renews all leases that are in
//! the [`LeaseRegistry`].

mod delegations;
mod guard;
mod hold_times;
mod lease;
mod registry;
mod renew;
mod renewer;
mod scope;

pub use self::guard::LockGuard;
pub use self::lease::Lease;
pub(crate) use self::registry::LeaseRegistry;
pub(crate) use self::renewer::run_renewer;
