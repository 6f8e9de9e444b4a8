//! The lock manager: what users hold.

mod acquire;
mod acquire_all;
mod adopt;
mod buffered_bytes;
mod builder;
mod caller;
mod check;
mod connect;
mod error;
mod manager;
mod named_node;
#[cfg(feature = "postgres")]
mod postgres_masters;
#[cfg(feature = "redis")]
mod redis_masters;
mod request;
mod set_request;
mod shutdown;
mod slots;
#[cfg(feature = "zookeeper")]
mod zookeeper_master;

pub use self::buffered_bytes::BufferedBytes;
pub use self::builder::LockManagerBuilder;
pub use self::error::{ConfigError, ConnectError};
pub use self::manager::LockManager;
pub use self::request::LockRequest;
pub use self::set_request::SetRequest;
pub use self::shutdown::ShutdownReport;
