//! A Redis server as a node, over redis-rs.
//!
//! `node` is the [`LockNode`](super::LockNode). It opens connections (`address`, `server`, `connect`, `tls`; `sentinel` finds out
//! to whom), and keeps one for requests: its life is a `link`. Requests pass through `pipeline`, which writes them in batches with `codec`; `script` has the Lua
//! scripts that execute them; with `replication`, votes wait for replicas. `look` looks at locks and evicts their holders, `inspect` has all other commands, and `classify` tells what
//! errors mean. `pushes` notes what the server sends without having been asked, such as the messages that `wakeups` subscribes to.

mod address;
mod classify;
mod codec;
mod connect;
mod inspect;
mod link;
mod look;
mod node;
mod pipeline;
mod pushes;
mod record;
mod replication;
mod script;
mod sentinel;
mod server;
#[cfg(feature = "tls")]
mod tls;
mod wakeups;

pub use self::node::RedisNode;
pub use self::replication::InvalidReplication;
pub use self::script::script_sources;
