//! A PostgreSQL server as a node, over tokio-postgres.
//!
//! `node` is the [`LockNode`](super::LockNode). `source` is where connections come from: an address, or a factory. `connect` opens them, over TLS if
//! they are to be secure, with `settings` that no other session has. One connection is for votes: `session` prepares it, with the tables
//! and functions of `schema`, and `link` is its life, and has what is asked outside the order of requests. A `worker` writes requests
//! to it in batches, which `codec` translates; `upkeep` removes expired rows, and ends what the server still does for a link that was given
//! up. `wakeups` is the connection on which the server wakes this process, and `classify` tells what errors mean.
//!
//! The rules are in `sql`: `locks.sql` has the tables, the other files the functions.

mod classify;
mod codec;
mod connect;
mod link;
mod node;
mod schema;
mod session;
mod settings;
mod source;
mod upkeep;
mod wakeups;
mod worker;

pub use self::node::PostgresNode;
