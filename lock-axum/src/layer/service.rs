use std::fmt;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::BoxError;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::Request;
use http::request::Parts;
use lock_core::LockError;
use tower_service::Service;

use super::ResponseFuture;
use super::config::Config;
use super::request_body;
use super::resource::{ResourceSource, resources};
use super::resource_error::ResourceError;
use crate::buffered_bytes::BufferedBytes;
use crate::critical_section::{self, Completed};
use crate::delegation::Carried;
use crate::guard::{Guard as _, Resources};
use crate::held::Held as _;
use crate::policy::HoldUntil;
use crate::problem::Problem;
use crate::rejection::LockRejection;
use crate::upload::Upload;

/// A service that calls the inner service while a distributed lock is held. Created by [`LockLayer`](super::LockLayer).
///
/// The error type is the inner service's: everything that concerns the lock is answered with a response, see
/// [`LockRejection`](crate::LockRejection).
///
/// It accepts requests with any body of [`Bytes`], and passes them to the inner service with axum's [`Body`]. So it can
/// be inside of a layer that changes the type of the body, such as tower-http's `RequestBodyLimitLayer`, in one
/// `ServiceBuilder`. Routers and `oneshot` infer the type of the body; `ready` has to be told, as in the example.
///
/// # Examples
///
/// ```
/// use std::convert::Infallible;
///
/// use axum::body::Body;
/// use axum::http::{Request, Response};
/// use lock_axum::{FencingToken, LockLayer, LockManager};
/// use tower::{Layer as _, Service as _, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Infallible> {
/// let inner = service_fn(async |request: Request<Body>| {
///     assert!(request.extensions().get::<FencingToken>().is_some());
///     Ok::<_, Infallible>(Response::new(Body::empty()))
/// });
/// let mut service = LockLayer::new(LockManager::in_memory(), "report").layer(inner);
///
/// let ready = ServiceExt::<Request<Body>>::ready(&mut service).await?;
/// assert!(ready.call(Request::new(Body::empty())).await?.status().is_success());
///
/// assert!(service.oneshot(Request::new(Body::empty())).await?.status().is_success());
/// # Ok(())
/// # }
/// ```
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

impl<S, ReqBody, ResBody> Service<Request<ReqBody>> for LockService<S>
where
    S: Service<Request<Body>, Response = Response<ResBody>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    ReqBody: http_body::Body<Data = Bytes> + Send + 'static,
    ReqBody::Error: Into<BoxError>,
    ResBody: http_body::Body<Data = Bytes> + Send + 'static,
    ResBody::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = S::Error;
    type Future = ResponseFuture<S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let request = request.map(Body::new);
        // The inner service is called later, in the future, which therefore needs to own it. `poll_ready` readied
        // `self.inner`, and a clone of it may not be ready: move the ready one into the future and keep the clone for
        // the next request.
        let clone = self.inner.clone();
        let inner = mem::replace(&mut self.inner, clone);
        let config = Arc::clone(&self.config);
        ResponseFuture::new(async move { config.respond(inner, request).await })
    }
}

impl Config {
    async fn respond<S, B>(&self, inner: S, request: Request<Body>) -> Result<Response, S::Error>
    where
        S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Send + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (mut parts, body) = request.into_parts();
        match &self.resource {
            ResourceSource::Set(templates) => match resources(templates, &mut parts).await {
                Ok(resources) => self.respond_under(resources, inner, parts, body).await,
                Err(error) => Ok(self.reject_resource(error)),
            },
            ResourceSource::One(resource) => match resource.resource(&mut parts).await {
                Ok(resource) => self.respond_under(resource, inner, parts, body).await,
                Err(error) => Ok(self.reject_resource(error)),
            },
        }
    }

    /// Buffers the body, acquires the lock or locks, and calls the inner service.
    async fn respond_under<R, S, B>(
        &self,
        resources: R,
        mut inner: S,
        mut parts: Parts,
        body: Body,
    ) -> Result<Response, S::Error>
    where
        R: Resources,
        S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Send + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        // Before the lock is acquired, so that a slow upload does not hold it.
        let body = match self.body_limit {
            None => body,
            Some(limit) => {
                let upload = Upload::new(BufferedBytes::of(&self.locks), self.body_timeout);
                match request_body::buffer(body, limit, upload, self.policy.retry_after).await {
                    Ok(body) => body,
                    Err(problem) => return Ok(problem.into_response()),
                }
            }
        };
        let carried = Carried::by(&parts.headers);
        let guard = match critical_section::enter(&self.locks, &resources, carried, &self.policy, self.on_error()).await
        {
            Ok(guard) => guard,
            Err(rejection) => return Ok(rejection.into_response()),
        };
        let (holds_session, on_lost) = (self.policy.hold == HoldUntil::SessionEnd, self.policy.on_lost);
        let handler = move |guard: &R::Guard| {
            guard.held().insert_into(&mut parts.extensions);
            let session = holds_session.then(|| guard.offer_session(&mut parts.extensions, on_lost));
            async move {
                let _session = session;
                // Inside the future, so that it runs in the scope of the lease, too.
                inner.call(Request::from_parts(parts, body)).await
            }
        };
        match critical_section::run(guard, &self.policy, handler).await {
            Err(error) => Ok(self.reject(error)),
            Ok(Completed { output: Err(error), .. }) => Err(error),
            Ok(Completed { output: Ok(response), guard }) => {
                let response = response.map(Body::new);
                let finished = critical_section::finish_response(response, guard, &self.policy, &self.upgrade_not_held);
                Ok(finished.unwrap_or_else(|error| self.reject(error)))
            }
        }
    }

    fn reject_resource(&self, error: ResourceError) -> Response {
        match error {
            ResourceError::Key(error) => LockRejection::from(error).into_response(),
            ResourceError::AmbiguousPathParameter(parameter) => {
                if self.ambiguous_path_parameter.is_first() {
                    lock_core::log_event!(error: "lock.ambiguous_path_parameter", parameter,
                        "the template of a LockLayer names a path parameter that the route has more than once, as of nested routers, so \
                        every request is answered with 500; rename one of them");
                }
                Problem::internal().into_response()
            }
            ResourceError::NoPathParameter(parameter) => {
                if self.no_path_parameter.is_first() {
                    lock_core::log_event!(error: "lock.no_path_parameter", parameter,
                        "the template of a LockLayer names a path parameter that the route does not have, so every request is \
                        answered with 500; apply the layer to routes with that parameter");
                }
                Problem::internal().into_response()
            }
        }
    }

    fn reject(&self, error: LockError) -> Response {
        critical_section::reject(error, &self.policy, self.on_error()).into_response()
    }

    fn on_error(&self) -> Option<&(dyn Fn(LockError) -> Response + Sync)> {
        self.on_error.as_deref().map(|on_error| on_error as _)
    }
}

impl<S> fmt::Debug for LockService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockService").field("policy", &self.config.policy).finish_non_exhaustive()
    }
}
