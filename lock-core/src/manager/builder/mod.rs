//! What a manager is made of: its settings, its masters, and the check of them when it connects.

mod builder;
mod connect;
mod divide;
mod error;
mod lock_settings;
mod master_settings;
mod named_node;
mod stores;
#[cfg(feature = "testing")]
mod testing;

pub use self::builder::LockManagerBuilder;
pub use self::error::{ConfigError, ConnectError};
