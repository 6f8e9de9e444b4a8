//! A Redis server as a node, over redis-rs.
//!
//! `node` is the [`LockNode`](super::LockNode), and `configure` creates and configures one. `address` says where the server is, and
//! `connect` opens connections; `source` knows to which server, for which it asks `sentinel` or the `seeds` of a cluster, as `leading`
//! says. One connection carries everything: a `session` keeps it, and `link` is its life. A `worker` writes requests to it in
//! `batch`es, which `codec` translates, with the keys that have to be `declared`, and distributes the replies in `portions`; with
//! `replication`, votes wait for replicas. What is asked outside their order is a `query`: an inspection (`inspect`), a `record`, a
//! look, an eviction. `pushes` notes what the server sends without having been asked, such as the messages that `wakeups` subscribes
//! to, `classify` tells what errors mean, and `warnings` are logged once.
//!
//! The rules are in `scripts`, which `script` puts together: `ledger.lua` and the files that it names must be right, and `waiting.lua`
//! with its files may be wrong.

mod address;
mod batch;
mod classify;
mod codec;
mod configure;
mod connect;
mod declared;
mod inspect;
mod leading;
mod link;
mod node;
mod portions;
mod pushes;
mod query;
mod record;
mod replication;
mod script;
mod seeds;
mod sentinel;
mod session;
mod source;
mod wakeups;
mod warnings;
mod worker;

pub use self::address::Network;
pub use self::node::RedisNode;
pub use self::replication::InvalidReplication;
pub use self::script::script_sources;
