//! What the tests share: real Redis, PostgreSQL and ZooKeeper servers and their faults, in-memory nodes, an HTTP client, and waiting for conditions.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test that cannot go on has to end")]

mod authority;
mod dice;
mod events;
mod every_kind;
pub mod http;
mod kinds;
mod load;
mod logs;
mod memory;
mod polling;
mod postgres;
mod proxy;
mod recorder;
mod redis;
mod sharded_master;
mod stalled_runtime;
mod statistics;
mod succession;
mod traces;
mod wait;
mod zookeeper;

pub use self::authority::Authority;
pub use self::dice::Dice;
pub use self::events::{Event, Events, keep_two_subscribers};
pub use self::every_kind::{try_every_kind, try_every_kind_on_two_runtimes};
pub use self::kinds::{Held, Kind};
pub use self::load::{Done, Load};
pub use self::logs::Logs;
pub use self::memory::{MemoryCluster, RawNode, ask};
pub use self::polling::{Polled, poll_times};
pub use self::postgres::{PgBouncer, PostgresServer};
pub use self::proxy::{Proxy, accept};
pub use self::recorder::Recorder;
pub use self::redis::{
    Backup, Bus, Clock, RedisCluster, RedisServer, Release, Sentinel, SlotCluster, alone, free_port,
};
pub use self::sharded_master::ShardedMaster;
pub use self::stalled_runtime::{Fate, StalledRuntime, ends_in_time, on_one_thread, whatever_becomes_of_it};
pub use self::statistics::executed;
pub use self::succession::{got_it_beside, joined_beside, succeed, try_succession};
pub use self::traces::{Trace, Traces};
pub use self::wait::{all_nodes_vote, eventually, eventually_async, median};
pub use self::zookeeper::{ZooKeeperEnsemble, ZooKeeperServer};
