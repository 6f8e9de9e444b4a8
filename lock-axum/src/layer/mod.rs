//! `LockLayer`: the lock as middleware. The layer configures, the service runs, the future is its answer.

mod future;
#[expect(clippy::module_inception, reason = "one file a part: the layer, its service, its future")]
mod layer;
mod service;

pub use self::future::ResponseFuture;
pub use self::layer::LockLayer;
pub use self::service::LockService;
