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
mod force_release;
mod health;
mod inspect;
mod manager;
mod members;
mod named_node;
#[cfg(feature = "postgres")]
mod postgres_masters;
mod ready;
#[cfg(feature = "redis")]
mod redis_masters;
mod request;
mod set_request;
mod shutdown;
mod slots;
mod waiting;
#[cfg(feature = "zookeeper")]
mod zookeeper_master;

pub use self::buffered_bytes::BufferedBytes;
pub use self::builder::LockManagerBuilder;
pub use self::error::{ConfigError, ConnectError};
pub use self::force_release::ForcedRelease;
pub use self::health::{Health, NodeHealth};
pub use self::inspect::{LockOnNode, LockReport, LockVerdict};
pub use self::manager::LockManager;
pub use self::members::{Members, Seat, SeatState};
pub use self::ready::NotReady;
pub use self::request::LockRequest;
pub use self::set_request::SetRequest;
pub use self::shutdown::ShutdownReport;
pub use self::waiting::Waiting;
