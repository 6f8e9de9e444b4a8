//! A Redis server as a node, over redis-rs.
//!
//! `node` is the [`LockNode`](super::LockNode). It opens connections (`address`, `connect`, `tls`), and keeps one for requests:
//! its life is a `link`. Requests pass through `pipeline`, which writes them in batches with `codec`; `script` has the Lua
//! scripts that execute them. `look` looks at locks and evicts their holders, `inspect` has all other commands, `wakeups` the
//! connection on which the server wakes this process, and `classify` tells what errors mean.

mod address;
mod classify;
mod codec;
mod connect;
mod inspect;
mod link;
mod look;
mod node;
mod pipeline;
mod record;
mod script;
#[cfg(feature = "tls")]
mod tls;
mod wakeups;

pub use self::address::InvalidUrl;
pub use self::node::RedisNode;
pub use self::script::script_sources;
