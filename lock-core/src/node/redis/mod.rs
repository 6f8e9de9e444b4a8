//! A Redis server as a node, over redis-rs: one connection, so that requests are executed in the order in which they were
//! submitted, and a second one for wake-ups.

mod address;
mod classify;
mod codec;
mod connect;
mod inspect;
mod node;
mod pipeline;
mod wakeups;

pub use self::address::InvalidUrl;
pub use self::node::RedisNode;
