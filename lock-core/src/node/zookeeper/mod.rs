//! A ZooKeeper ensemble as a node of weight one: what it promises, it promises by consensus.
//!
//! [`paths`] says which znodes there are. Every operation is one transaction (`multi`), which goes through the leader and a majority:
//! [`transaction`] sends it, made of [`parts`], and the part that failed tells the reply. [`execute`] carries a request out. The [`ledger`] takes, keeps and
//! releases locks; [`leases`] knows until when this session has each, and [`evict`] leaves tombstones, and a gap. Who waits is
//! in [`waiting`], [`waiting_places`] and [`wakeups`]. [`connect`] knows where the ensemble is, and opens the one [`session`] that carries all of it: [`heard`] knows
//! whether it lives long enough, [`worker`] owns what is under way, and [`link`] has what is asked outside the order of requests.

mod classify;
mod connect;
mod evict;
mod execute;
mod heard;
mod leases;
mod ledger;
mod link;
mod look;
mod node;
mod parts;
mod paths;
mod record;
mod session;
mod transaction;
mod waiting;
mod waiting_places;
mod wakeups;
mod worker;

pub use self::node::ZooKeeperNode;
