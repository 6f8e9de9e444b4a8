use std::fmt;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::BoxError;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use lock_core::{Lease, LockError};
use tower_service::Service;

use super::ResponseFuture;
use super::layer::Config;
use crate::body::LockedBody;
use crate::guarded::{self, Held, Stopped};
use crate::problem::Problem;

/// The service of [`LockLayer`](super::LockLayer).
#[derive(Clone)]
pub struct LockService<S> {
    inner: S,
    config: Arc<Config>,
}

impl<S> LockService<S> {
    pub(super) fn new(inner: S, config: Arc<Config>) -> Self {
        Self { inner, config }
    }
}

impl<S, B> Service<Request<Body>> for LockService<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = S::Error;
    type Future = ResponseFuture<S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The service that was readied is the one that must be called; the clone may not be ready.
        let clone = self.inner.clone();
        let inner = mem::replace(&mut self.inner, clone);
        let config = Arc::clone(&self.config);
        ResponseFuture::new(async move { config.answer(inner, request).await })
    }
}

impl Config {
    async fn answer<S, B>(&self, mut inner: S, request: Request<Body>) -> Result<Response, S::Error>
    where
        S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Send + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (mut parts, body) = request.into_parts();
        let resource = match self.key.of(&mut parts).await {
            Ok(resource) => resource,
            Err(rejection) => return Ok(rejection.into_response()),
        };
        let body = match self.body_limit {
            None => body,
            Some(limit) => match read(body, limit).await {
                Ok(body) => body,
                Err(problem) => return Ok(problem.into_response()),
            },
        };
        let handler = move |lease: Lease| {
            parts.extensions.insert(lease.token());
            parts.extensions.insert(lease);
            // Called inside the future, where the scope of the lease is entered.
            async move { inner.call(Request::from_parts(parts, body)).await }
        };
        match guarded::run(&self.locks, &resource, &self.policy, handler).await {
            Err(stopped) => Ok(self.reject(stopped)),
            Ok(Held { output: Err(error), .. }) => Err(error),
            Ok(Held { output: Ok(response), guard }) => {
                let mut response = response.map(Body::new);
                if let Err(error) = guarded::let_out(&guard, &mut response) {
                    return Ok(self.reject(Stopped::Lock(error)));
                }
                Ok(if self.until_body_end {
                    response.map(|body| Body::new(LockedBody::new(body, guard)))
                } else {
                    response
                })
            }
        }
    }

    fn reject(&self, stopped: Stopped) -> Response {
        let on_error = self.on_error.as_deref().map(|on_error| on_error as &dyn Fn(LockError) -> Response);
        stopped.reject(&self.policy, on_error).into_response()
    }
}

/// Reads a body whole, trailers included.
async fn read(body: Body, limit: usize) -> Result<Body, Problem> {
    let too_large = || {
        let detail = format!("the body is larger than {limit} bytes");
        Problem::plain(StatusCode::PAYLOAD_TOO_LARGE, Some(detail))
    };
    // What announces itself as too large need not be read.
    if http_body::Body::size_hint(&body).lower() > u64::try_from(limit).unwrap_or(u64::MAX) {
        return Err(too_large());
    }
    match Limited::new(body, limit).collect().await {
        // Bytes know their length, which what stands behind may want to pass on.
        Ok(collected) if collected.trailers().is_none() => Ok(Body::from(collected.to_bytes())),
        Ok(collected) => Ok(Body::new(collected)),
        Err(error) if is_limit(error.as_ref()) => Err(too_large()),
        Err(_) => Err(Problem::plain(StatusCode::BAD_REQUEST, Some("the body could not be read".to_owned()))),
    }
}

/// Whether a limit was the cause, ours or one that stands outside.
fn is_limit(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source()).any(<dyn std::error::Error>::is::<LengthLimitError>)
}

impl<S> fmt::Debug for LockService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockService").field("policy", &self.config.policy).finish_non_exhaustive()
    }
}
