use std::time::Duration;

use super::credential::Claims;
use super::error::{DelegateError, InvalidAudience};
use crate::lease::Lease;
use crate::limits::{MAX_TTL, OutOfRange};

/// The shortest life of a delegation: 10 ms.
const MIN_EXPIRES_IN: Duration = Duration::from_millis(10);

impl Lease {
    /// Begins a delegation: another service is to work under this lock, with this token, while this holder waits for it.
    ///
    /// The service [adopts](crate::LockManager::adopt) it. It can neither renew nor release the lock, and it learns that the lock was lost no
    /// later than the masters forget it. The two services are not ordered against each other: send idempotency keys.
    ///
    /// A lock that was delegated is not handed over to another caller of this process, and its key is left to expire if it is released while a
    /// delegation is [unfinished](Delegation::around): the next holder is up to a `ttl` late then.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let guard = locks.lock("stock:42").acquire().await?;
    /// let delegation = guard.delegate().expires_in(Duration::from_secs(2)).create()?;
    /// // In the other service:
    /// let adopted = locks.adopt(delegation.as_str(), "stock:42").await?;
    /// assert_eq!(adopted.token(), guard.token());
    /// # Ok(())
    /// # }
    /// ```
    pub fn delegate(&self) -> Delegate {
        Delegate { lease: self.clone(), expires_in: self.ttl(), audience: None }
    }
}

/// A delegation to be: see [`Lease::delegate`].
#[derive(Debug)]
#[must_use = "nothing is delegated before create"]
pub struct Delegate {
    lease: Lease,
    expires_in: Duration,
    audience: Option<String>,
}

impl Delegate {
    /// Sets how long the delegation can be used. It ends with the lock in any case.
    ///
    /// From 10 ms to one day. Defaults to the `ttl` of the lock.
    pub fn expires_in(self, expires_in: Duration) -> Self {
        Self { expires_in, ..self }
    }

    /// Sets which service may use the delegation, by its [`audience`](crate::LockManagerBuilder::audience).
    ///
    /// 1 to 128 bytes. Defaults to any service with the same masters.
    pub fn audience(self, audience: impl Into<String>) -> Self {
        Self { audience: Some(audience.into()), ..self }
    }

    /// Makes the delegation.
    ///
    /// # Errors
    ///
    /// See [`DelegateError`]: the lease has ended, or was itself adopted, or a setting is out of range.
    pub fn create(self) -> Result<Delegation, DelegateError> {
        let Self { lease, expires_in, audience } = self;
        let resource = lease.resource().to_owned();
        OutOfRange::check("expires_in", expires_in, MIN_EXPIRES_IN, MAX_TTL)?;
        audience.as_deref().map_or(Ok(()), InvalidAudience::check)?;
        if lease.is_adopted() {
            return Err(DelegateError::Adopted { resource });
        }
        let Some(engine) = lease.engine() else { return Err(lease.lost_error().into()) };
        let cluster = &engine.cluster;
        let (clock, set) = (cluster.clock(), cluster.membership().roster().map(|roster| roster.set));
        let Some(set) = set.filter(|_| clock > 0) else { return Err(DelegateError::NoClock { resource }) };
        let not_after = clock.saturating_add(u64::try_from(expires_in.as_micros()).unwrap_or(u64::MAX));
        let (token, nonce) = (lease.token().get(), engine.cluster.random.number());
        let claims = Claims { set, audience, resource: resource.clone(), token, kind: lease.kind(), not_after, nonce };
        let text = claims.sign(lease.owner());
        // Counted before the lease is asked, so that one that is released meanwhile knows of it.
        if !lease.delegations().begin() {
            return Err(DelegateError::Downgrading { resource });
        }
        // Nobody has the text of one that was not made.
        lease.check().inspect_err(|_| lease.delegations().finish())?;
        Ok(Delegation { lease, text })
    }
}

/// A delegation of a lease: a text for the service that is to work under the lock. Anyone who has the text can use it until it
/// expires or the lock is gone from the masters, so its `Debug` output hides it. After a release with an unfinished delegation, the masters
/// keep the lock for up to a `ttl`.
///
/// It is unfinished until the request in [`around`](Self::around) succeeds. Dropping it finishes nothing: the service that has the text
/// may be at work.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let locks = lock_core::LockManager::in_memory();
/// let guard = locks.lock("order:7").acquire().await?;
/// let delegation = guard.delegate().audience("billing").create()?;
/// let header = (delegation.name(), delegation.as_str().to_owned());
/// let request = async { Ok::<_, std::io::Error>(header) }; // sends it, and resolves with the answer
/// let (name, _) = delegation.around(request).await?;
/// assert_eq!(name, "lock-delegation");
/// assert!(guard.release().await?, "it was answered, so the lock is released at once");
/// # Ok(())
/// # }
/// ```
#[must_use = "it keeps the lock from being released until it is finished"]
pub struct Delegation {
    lease: Lease,
    text: String,
}

impl Delegation {
    /// The name of the header that carries a delegation.
    pub const HEADER: &'static str = "lock-delegation";

    /// The text to send: up to 1,010 characters of the base64url alphabet, which are valid in a header.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The header that carries it in HTTP: see [`HEADER`](Self::HEADER).
    pub fn name(&self) -> &'static str {
        Self::HEADER
    }

    /// The value of that header, marked as sensitive, so that HTTP clients keep it out of their logs.
    #[cfg(feature = "axum")]
    pub fn value(&self) -> http::HeaderValue {
        // Base64url is valid in a header.
        let mut value = http::HeaderValue::from_str(&self.text).unwrap_or(http::HeaderValue::from_static(""));
        value.set_sensitive(true);
        value
    }

    /// Awaits the request that carries the delegation. When it is answered, the delegation is finished: the other service works under
    /// the lock no more, since it answers after its work.
    ///
    /// So the future must return an error whenever somebody else may have answered, such as a proxy with 504: turn statuses that are not
    /// a success into errors. If the service works on while its response is being read, read it to the end in the future.
    ///
    /// # Errors
    ///
    /// The error of the request, such as a timeout. It leaves the delegation unfinished, because the other service may be at work.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the delegation stays unfinished.
    pub async fn around<T, E>(self, request: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let answer = request.await;
        if answer.is_ok() {
            self.lease.delegations().finish();
        }
        answer
    }
}

opaque_debug!(Delegation, |this| "lease": this.lease);
