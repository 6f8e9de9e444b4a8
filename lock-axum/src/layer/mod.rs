//! `LockLayer`, the lock as middleware.
//!
//! [`LockLayer`] builds a [`Config`](config::Config). [`LockService`] runs it for each request: it determines the
//! resource, buffers the request body, acquires the lock, and calls the inner service.

mod config;
mod future;
mod http_settings;
#[expect(clippy::module_inception, reason = "one file for each part: the layer, its service, its future")]
mod layer;
mod lock_settings;
mod request_body;
mod resource;
mod service;
mod template;

pub use self::future::ResponseFuture;
pub use self::layer::LockLayer;
pub use self::service::LockService;
