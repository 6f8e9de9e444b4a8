//! On real ZooKeeper servers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has to end")]

mod locks;
mod set;
