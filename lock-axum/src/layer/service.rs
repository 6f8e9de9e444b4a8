use std::fmt;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::BoxError;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::Request;
use http_body::Body as _;
use lock_core::LockError;
use tower_service::Service;

use super::ResponseFuture;
use super::config::Config;
use super::request_body;
use super::resource::{ResourceSource, Source};
use super::template::ResourceError;
use crate::buffered_bytes::BufferedBytes;
use crate::critical_section;
use crate::delegation::Carried;
use crate::guard::{Guard as _, Resources};
use crate::held::Held as _;
use crate::hold::in_session;
use crate::policy::HoldUntil;
use crate::problem::Problem;
use crate::rejection::LockRejection;
use crate::until_lost::Completed;
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
        match &self.config.resource {
            ResourceSource::One(source) => {
                ResponseFuture(Box::pin(self.config.respond(source.clone(), inner, request)))
            }
            ResourceSource::Set(source) => {
                ResponseFuture(Box::pin(self.config.respond(source.clone(), inner, request)))
            }
        }
    }
}

impl Config {
    /// Buffers the body, acquires the lock or locks, and calls the inner service.
    fn respond<R, S, B>(
        self: &Arc<Self>,
        source: R,
        mut inner: S,
        request: Request<Body>,
    ) -> impl Future<Output = Result<Response, S::Error>> + Send + 'static + use<R, S, B>
    where
        R: Source,
        S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Send + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let this = Arc::clone(self);
        let (mut parts, mut body) = request.into_parts();
        // A block instead of an `async fn`, and in one piece: each function would have room for the head of the request once more.
        async move {
            let resources = match source.resources(&mut parts).await {
                Ok(resources) => resources,
                Err(error) => return Ok(this.reject_resource(error)),
            };
            // Before the lock is acquired, so that a slow upload does not hold it.
            if let Some(limit) = this.body_limit.filter(|_| !body.is_end_stream()) {
                let upload = Upload::new(BufferedBytes::of(&this.locks), this.body_timeout);
                // Boxed, because most requests have nothing to buffer.
                match Box::pin(request_body::buffer(body, limit, upload, this.policy.retry_after)).await {
                    Ok(buffered) => body = buffered,
                    Err(problem) => return Ok(problem.into_response()),
                }
            }
            let carried = || Carried::by(&parts.headers);
            let guard =
                match critical_section::enter(&this.locks, &resources, carried, &this.policy, this.on_error.as_deref())
                    .await
                {
                    Ok(guard) => guard,
                    Err(rejection) => return Ok(rejection.into_response()),
                };
            let method = parts.method.clone();
            let (holds_session, on_lost) = (this.policy.hold == HoldUntil::SessionEnd, this.policy.on_lost);
            let handler = move |guard: &<R::Resources as Resources>::Guard| {
                guard.insert_into(&mut parts.extensions);
                let session = holds_session.then(|| guard.offer_session(&mut parts.extensions, on_lost)).flatten();
                in_session(inner.call(Request::from_parts(parts, body)), session)
            };
            match critical_section::run(guard, &this.policy, handler).await {
                Err(error) => Ok(this.reject(error)),
                Ok(Completed { output: Err(error), .. }) => Err(error),
                Ok(Completed { output: Ok(response), guard }) => {
                    let response = response.map(Body::new);
                    let (policy, not_held) = (&this.policy, &this.upgrade_not_held);
                    let finished = critical_section::finish_response(response, &method, guard, policy, not_held);
                    Ok(finished.unwrap_or_else(|error| this.reject(error)))
                }
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
        critical_section::reject(error, &self.policy, self.on_error.as_deref()).into_response()
    }
}

impl<S> fmt::Debug for LockService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockService").field("policy", &self.config.policy).finish_non_exhaustive()
    }
}
