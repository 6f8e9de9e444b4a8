//! A ZooKeeper ensemble as a node of weight one: what it promises, it promises by consensus.
//!
//! [`paths`] says which znodes there are. Every operation is one transaction (`multi`), which goes through the leader and a majority:
//! [`transaction`] builds it, and which part of it failed tells the reply. [`acquire`] takes locks, [`votes`] keeps and releases
//! them, [`leases`] knows until when this session has each, [`fences`] the tokens, [`queue`], [`waits`] and [`watch`] who waits. One session
//! carries all of it: [`session`] opens it, [`heard`] knows whether it lives long enough, and [`worker`] owns what is under way.

mod acquire;
mod address;
mod classify;
mod connect;
mod evict;
mod fences;
mod heard;
mod inspect;
mod leases;
mod link;
mod look;
mod node;
mod order;
mod paths;
mod queue;
mod record;
mod session;
mod transaction;
mod votes;
mod waits;
mod wakeups;
mod watch;
mod worker;

pub use self::node::ZooKeeperNode;
