//! What the tests share: real Redis servers that can be hurt, in-memory masters, a referee, and waiting on conditions.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "in a test, what can not go on has to end it")]

/// The examples of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

pub mod bench;
pub mod chaos;
mod dice;
pub mod http;
mod memory;
pub mod model;
mod polling;
mod recorder;
mod redis;
mod referee;
pub mod sim;
mod statistics;
mod wait;

pub use self::dice::Dice;
pub use self::memory::{MemoryCluster, RawNode, ask};
pub use self::polling::{Polled, poll_times};
pub use self::recorder::Recorder;
pub use self::redis::{RedisCluster, RedisServer, alone};
pub use self::referee::Referee;
pub use self::statistics::executed;
pub use self::wait::{eventually, eventually_async, median};
