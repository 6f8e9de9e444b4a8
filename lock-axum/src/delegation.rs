//! Delegations: another service works under a held lock, with its token. [The guide](crate::guide::delegation) tells when.
//!
//! The holder makes a [`Delegation`] of its lease ([`Lease::delegate`](crate::Lease::delegate)), and sends it in a header. The service that
//! gets the request works under it with the extractor [`Delegated`], with `adopt = true` of the
//! [attribute](macro@crate::distributed_lock), or with [`adopt_delegations`](crate::LockLayer::adopt_delegations) of the layer.

use std::time::Duration;

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use lock_core::LockManager;
use lock_core::delegation::Expected;
#[doc(inline)]
pub use lock_core::delegation::{AdoptError, AdoptedLease, Delegate, DelegateError, Delegation, InvalidAudience};

use crate::policy::Policy;
use crate::rejection::{Cause, LockRejection};

/// An extractor that adopts the delegation in the header `lock-delegation` ([`Delegation::HEADER`]): the handler works under the lock of
/// the service that sent the request, and with its token.
///
/// It takes the [`LockManager`] from the request extensions, which has to be on the same masters as the sender's. A request without the header is refused with
/// 403 `lock-delegation-refused`, as is one whose delegation is not valid. It never acquires a lock. For routes that may also be called
/// without a delegation, there are [`adopt_delegations`](crate::LockLayer::adopt_delegations) of the layer and `adopt = true` of the
/// [attribute](macro@crate::distributed_lock), which also check that the delegation is for the resource and the kind of the request, cancel the
/// handler when the lock is lost, and keep it going when the client hangs up. A handler with this extractor does that itself.
///
/// # Examples
///
/// ```
/// use axum::extract::Path;
/// use axum::http::StatusCode;
/// use axum::routing::put;
/// use axum::{Extension, Router};
/// use lock_axum::delegation::Delegated;
/// use lock_axum::{Kind, LockManager, LockRejection};
///
/// async fn reserve(Path(order): Path<u64>, Delegated(lease): Delegated) -> Result<StatusCode, LockRejection> {
///     // A lock that is read can be delegated, too.
///     if lease.resource() != format!("order:{order}") || lease.kind() != Kind::Write {
///         return Ok(StatusCode::FORBIDDEN);
///     }
///     println!("reserving for {order}, with token {}", lease.token());
///     lease.check()?;
///     Ok(StatusCode::NO_CONTENT)
/// }
///
/// let app: Router = Router::new().route("/{order}", put(reserve)).layer(Extension(LockManager::in_memory()));
/// ```
#[derive(Debug)]
pub struct Delegated(pub AdoptedLease);

impl<S: Sync> FromRequestParts<S> for Delegated {
    type Rejection = LockRejection;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, LockRejection> {
        let locks: LockManager = parts.extensions.get().cloned().ok_or(Cause::NoManager)?;
        let adopted =
            Carried::by(&parts.headers).adopt(&locks, Expected::default(), Policy::default().retry_after).await?;
        let missing = "the request carries no delegation: the header `lock-delegation` is missing";
        Ok(Self(adopted.ok_or(Cause::NotDelegated(missing))?))
    }
}

/// The delegation that a request carries. Not public API.
#[doc(hidden)]
pub enum Carried {
    Nothing,
    One(HeaderValue),
    Several,
}

impl Carried {
    pub(crate) fn by(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(Delegation::HEADER).iter();
        match (values.next(), values.next()) {
            (None, _) => Self::Nothing,
            (Some(value), None) => Self::One(value.clone()),
            (Some(_), Some(_)) => Self::Several,
        }
    }

    /// Adopts it. `None` if there is nothing to adopt.
    pub(crate) async fn adopt(
        self,
        locks: &LockManager,
        expected: Expected<'_>,
        retry_after: Duration,
    ) -> Result<Option<AdoptedLease>, LockRejection> {
        let refused = |error| Cause::Adopt { error, retry_after };
        match self {
            Self::Nothing => Ok(None),
            Self::One(value) => {
                let text = value.to_str().map_err(|_| refused(AdoptError::Malformed))?;
                Ok(Some(locks.adopt_expected(text, expected).await.map_err(refused)?))
            }
            Self::Several => Err(Cause::NotDelegated("the request carries more than one delegation").into()),
        }
    }
}
