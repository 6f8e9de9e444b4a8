//! The lock manager: what users hold.

mod acquire;
mod acquire_all;
mod adopt;
mod builder;
mod caller;
mod check;
mod connect;
mod divide;
mod error;
mod lock_settings;
mod manager;
mod master_settings;
mod masters;
mod named_node;
mod operators;
mod request;
mod set_request;
mod shards;
mod shutdown;
mod stores;
mod string_list;
#[cfg(feature = "testing")]
mod testing;
mod wait;

pub use self::builder::LockManagerBuilder;
pub use self::error::{ConfigError, ConnectError};
pub use self::manager::LockManager;
pub use self::request::LockRequest;
pub use self::set_request::SetRequest;
pub use self::shutdown::ShutdownReport;
