//! Delegations: another service works under a held lock and its token, as long as a majority of the nodes proves that the lock is
//! still that holder's.
//!
//! The holder makes a [`Delegation`] of its lease, a text that it sends along with a request. The service that receives it
//! [adopts](crate::LockManager::adopt) it, and has an [`AdoptedLease`], which it can neither renew nor release.

mod adopted;
mod adoptions;
mod credential;
mod delegate;
mod error;
mod prove;

pub use self::adopted::AdoptedLease;
#[doc(hidden)]
pub use self::adopted::Expected;
pub(crate) use self::adoptions::Adoptions;
pub(crate) use self::credential::{Claims, Credential, MAX_AUDIENCE_LEN};
pub use self::delegate::{Delegate, Delegation};
pub use self::error::{AdoptError, DelegateError, InvalidAudience};
pub(crate) use self::prove::{Proof, prove};
