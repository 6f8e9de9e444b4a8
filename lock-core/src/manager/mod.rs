//! The lock manager: what users hold.

mod acquire;
mod acquire_all;
mod adopt;
mod builder;
mod caller;
mod check_options;
mod manager;
mod masters;
mod operators;
mod request;
mod set_request;
mod shards;
mod shutdown;
mod string_list;
mod wait;

pub use self::builder::{ConfigError, ConnectError, LockManagerBuilder};
pub use self::manager::LockManager;
pub use self::request::LockRequest;
pub use self::set_request::SetRequest;
pub use self::shutdown::ShutdownReport;
