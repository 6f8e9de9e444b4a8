//! On real ZooKeeper servers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has to end")]

mod ensemble;
mod every_kind;
mod forgetting;
mod gaps;
mod locks;
mod queue;
mod refusals;
mod rules;
mod sessions;
mod set;
mod side;
