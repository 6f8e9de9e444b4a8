//! Locks in traces: which spans there are, and how they get to OpenTelemetry.
//!
//! Every lock has two `tracing` spans. Both are children of the span in which it was asked for: that of the request, usually.
//!
//! ```text
//! request ──────────────────────────────────────────────
//!   lock.acquire ─────────     waits for the lock: attempts, votes, waited_ms, outcome
//!              lock.hold ─────────────────────────────    has it: token, renewals, end
//!                 deduct ─────────────────────────        the handler, with #[tracing::instrument] below the attribute
//! ```
//!
//! A slow request shows at once whether it waited for the lock or worked under it. `lock.hold` of another trace, with the same `resource`,
//! shows for whom it waited: the one with the next smaller `token`.
//!
//! The handler's span is beside `lock.hold`, and not in it, because a lock may outlive what runs under it: until a streamed body has been
//! sent, or a [session](super::sessions) has ended. If the client hangs up, both spans go on in the request's, which ends with them. What
//! goes wrong is an event in `lock.hold`: `lock.lost`, `lock.renewal_late`.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//!
//! use axum::extract::{Path, Request};
//! use axum::middleware::{Next, from_fn};
//! use axum::{Extension, Router, body::Body, routing::post};
//! use lock_axum::{LockManager, distributed_lock};
//! use tower::ServiceExt;
//! use tracing::{Instrument, Subscriber, info_span, span};
//! use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
//! use tracing_subscriber::registry::LookupSpan;
//!
//! #[distributed_lock(resource = "stock:{sku}")]
//! #[tracing::instrument(skip_all)]
//! async fn deduct(Path(sku): Path<String>) -> String {
//!     format!("{sku} is ours\n")
//! }
//!
//! // Stands for the layer of tracing-opentelemetry: it is told of the same spans, each with its parent.
//! #[derive(Clone, Default)]
//! struct Spans(Arc<Mutex<Vec<(&'static str, Option<&'static str>)>>>);
//!
//! impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
//!     fn on_new_span(&self, _: &span::Attributes<'_>, id: &span::Id, context: Context<'_, S>) {
//!         let span = context.span(id).unwrap();
//!         self.0.lock().unwrap().push((span.name(), span.parent().map(|parent| parent.name())));
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let spans = Spans::default();
//! let _recording = tracing::subscriber::set_default(tracing_subscriber::registry().with(spans.clone()));
//!
//! // A service has tower-http's TraceLayer here, or one that takes the trace of the caller from the header `traceparent`.
//! let in_a_span = async |request: Request, next: Next| next.run(request).instrument(info_span!("request")).await;
//! let app = Router::new()
//!     .route("/stock/{sku}", post(deduct))
//!     .layer(Extension(LockManager::in_memory()))
//!     .layer(from_fn(in_a_span));
//!
//! let response = app.oneshot(Request::post("/stock/42").body(Body::empty()).unwrap()).await.unwrap();
//! assert!(response.status().is_success());
//! let seen = spans.0.lock().unwrap();
//! assert_eq!(*seen, [
//!     ("request", None),
//!     ("lock.acquire", Some("request")),
//!     ("lock.hold", Some("request")),
//!     ("deduct", Some("request")),
//! ]);
//! # }
//! ```
//!
//! # Export them
//!
//! This needs the crates `opentelemetry`, `opentelemetry_sdk`, `opentelemetry-otlp` and `tracing-opentelemetry`, in versions that belong
//! together, and `tracing-subscriber` with `env-filter`. Instead of `Spans` above:
//!
//! ```text
//! let exporter = opentelemetry_otlp::SpanExporter::builder().with_http().build()?; // OTEL_EXPORTER_OTLP_ENDPOINT says where to
//! let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).build();
//!
//! tracing_subscriber::registry()
//!     .with(EnvFilter::new("info,lock_core=debug")) // both spans have the level debug
//!     .with(tracing_subscriber::fmt::layer().json().with_filter(LevelFilter::INFO))
//!     .with(tracing_opentelemetry::layer().with_tracer(provider.tracer("shop")))
//!     .init();
//! // Last of all, after LockManager::shutdown:
//! provider.shutdown()?;
//! ```
//!
//! - **The level**: without `lock_core=debug`, there are no spans of locks, and the events are in the request's span.
//! - **Durations** are numbers of milliseconds, in fields that end with `_ms`, so that they can be compared: `waited_ms > 500`.
//! - **Events** have their name in the field `event`, because the exporter names them by their message.
//! - **Names of resources** leave the process in the field `resource`. [`redact(true)`](crate::LockManagerBuilder::redact) keeps them in
//!   it; the `template` remains.
//! - **Many locks**: of a lock that is free, both spans are short, and say little. A sampler of the exporter, or a filter by span name in
//!   the collector, drops them; metrics are there for the sums.
//! - **Across services**: a [delegation](super::delegation) takes the lock along, and `traceparent` the trace. Send both headers.
//!
//! Fields and names are listed in the documentation of `lock-core`.
