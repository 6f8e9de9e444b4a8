//! The settings of what a client meets: its body, the answers, and what becomes of the handler when one of the two is gone.

use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use lock_core::LockError;

use super::LockLayer;
use crate::policy::{OnDisconnect, OnLost};

impl LockLayer {
    /// Sets what happens to a handler whose lease is lost. Defaults to [`OnLost::Cancel`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_axum::{LockLayer, LockManager, OnLost};
    /// let layer = LockLayer::new(LockManager::in_memory(), "stock:{sku}").on_lost(OnLost::Continue);
    /// ```
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.0.policy.on_lost = on_lost;
        self
    }

    /// Sets what happens to a handler whose client disconnects. Defaults to [`OnDisconnect::Finish`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_axum::{LockLayer, LockManager, OnDisconnect};
    /// let layer = LockLayer::new(LockManager::in_memory(), "report").on_disconnect(OnDisconnect::Cancel);
    /// ```
    pub fn on_disconnect(mut self, on_disconnect: OnDisconnect) -> Self {
        self.0.policy.on_disconnect = on_disconnect;
        self
    }

    /// Sets the status of the response when another holder has the lock: 409, 423, 429 or 503. Defaults to 409.
    ///
    /// # Panics
    ///
    /// If the status is any other.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_axum::{LockLayer, LockManager};
    /// use axum::http::StatusCode;
    ///
    /// let layer = LockLayer::new(LockManager::in_memory(), "stock:{sku}").busy_status(StatusCode::LOCKED);
    /// ```
    #[track_caller]
    pub fn busy_status(mut self, status: StatusCode) -> Self {
        let allowed = [409, 423, 429, 503];
        assert!(allowed.contains(&status.as_u16()), "busy_status must be one of {allowed:?}, got {status}");
        self.0.policy.busy_status = status.as_u16();
        self
    }

    /// Sets the header `Retry-After` of the responses that have one, in whole seconds: from 1 s to 1 h. Defaults to 1 s.
    ///
    /// `retry_after_ms` in the problem document is more precise if the lock is busy; see
    /// [HTTP responses](crate#http-responses).
    ///
    /// # Panics
    ///
    /// If the duration is out of range, or not whole seconds.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_axum::{LockLayer, LockManager};
    /// # use std::time::Duration;
    /// let layer = LockLayer::new(LockManager::in_memory(), "report").retry_after(Duration::from_secs(30));
    /// ```
    #[track_caller]
    pub fn retry_after(mut self, retry_after: Duration) -> Self {
        let (least, most) = (Duration::from_secs(1), Duration::from_secs(60 * 60));
        assert!(
            (least..=most).contains(&retry_after) && retry_after.subsec_nanos() == 0,
            "retry_after must be whole seconds between {least:?} and {most:?}, got {retry_after:?}"
        );
        self.0.policy.retry_after = retry_after;
        self
    }

    /// Sets a function that answers lock errors, instead of the problem document.
    ///
    /// It is called for every [`LockError`]. Errors that are not of the lock, such as a [`KeyError`](crate::KeyError), are still
    /// answered with a problem document. So is a lost lease if the function answers it with a status below 400.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_axum::{LockLayer, LockManager};
    /// use axum::http::StatusCode;
    /// use lock_axum::LockError;
    ///
    /// let layer = LockLayer::new(LockManager::in_memory(), "stock:{sku}").on_error(|error| match error {
    ///     LockError::Contended { .. } => (StatusCode::CONFLICT, "this article is being sold right now"),
    ///     _ => (StatusCode::SERVICE_UNAVAILABLE, "please try again later"),
    /// });
    /// ```
    pub fn on_error<F, R>(mut self, on_error: F) -> Self
    where
        F: Fn(LockError) -> R + Send + Sync + 'static,
        R: IntoResponse,
    {
        self.0.on_error = Some(Arc::new(move |error| -> Response { on_error(error).into_response() }));
        self
    }

    /// Sets the largest request body that is buffered before the lock is acquired, in bytes. A larger one is answered
    /// with 413.
    ///
    /// The bodies of all requests that wait for locks of the manager have a limit of their own,
    /// [`max_buffered_bytes`](lock_core::LockManagerBuilder::max_buffered_bytes). A request whose body exceeds it is
    /// answered with 503 `lock-buffer-full`, or with 413 if that body alone does.
    ///
    /// From zero to the manager's `max_buffered_bytes`. Defaults to 2 MiB.
    ///
    /// # Panics
    ///
    /// If it is above the manager's `max_buffered_bytes`: no body of that size would ever fit.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_axum::{LockLayer, LockManager};
    /// let layer = LockLayer::new(LockManager::in_memory(), "stock:{sku}").body_limit(64 * 1024);
    /// ```
    #[track_caller]
    pub fn body_limit(mut self, bytes: usize) -> Self {
        let most = self.0.locks.max_buffered_bytes();
        assert!(bytes <= most, "body_limit must be at most the manager's max_buffered_bytes, {most}, got {bytes}");
        self.0.body_limit = Some(bytes);
        self
    }

    /// Sets how long the request body may take to arrive, before the lock is acquired. A request whose body takes longer is answered with
    /// 408.
    ///
    /// When the bodies of waiting requests take up the manager's
    /// [`max_buffered_bytes`](lock_core::LockManagerBuilder::max_buffered_bytes), the slowest upload of all routes is given up before that,
    /// for one that is faster.
    ///
    /// From 1 ms to one day. Defaults to 30 s. It has no effect with [`stream_request_body`](Self::stream_request_body).
    ///
    /// # Panics
    ///
    /// If it is out of range.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_axum::{LockLayer, LockManager};
    /// # use std::time::Duration;
    /// let layer = LockLayer::new(LockManager::in_memory(), "stock:{sku}").body_timeout(Duration::from_secs(5));
    /// ```
    #[track_caller]
    pub fn body_timeout(mut self, timeout: Duration) -> Self {
        let (least, most) = (Duration::from_millis(1), Duration::from_secs(24 * 60 * 60));
        assert!(
            (least..=most).contains(&timeout),
            "body_timeout must be between {least:?} and {most:?}, got {timeout:?}"
        );
        self.0.body_timeout = timeout;
        self
    }

    /// Does not buffer the request body: the lock is acquired first, and the handler reads the body while it is held.
    ///
    /// For large uploads. A client that sends slowly holds the lock until `max_hold`. Defaults to buffering up to
    /// [`body_limit`](Self::body_limit).
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_axum::{LockLayer, LockManager};
    /// let layer = LockLayer::new(LockManager::in_memory(), "upload:{name}").stream_request_body();
    /// ```
    pub fn stream_request_body(mut self) -> Self {
        self.0.body_limit = None;
        self
    }
}
