//! Locks in ZooKeeper: when, how, and what is different.
//!
//! # When
//!
//! A service that has a ZooKeeper ensemble, and nothing else, need not run Redis for its locks. With the feature `zookeeper`, the
//! ensemble is the master: the same macro, layer, guards and tokens. A majority of its servers has each grant on disk, so no lock
//! is lost with a server, and there is no split brain. It is slower than Redis, and how long a lock lives depends on the
//! session: see below.
//!
#![cfg_attr(feature = "zookeeper", doc = "```no_run")]
#![cfg_attr(not(feature = "zookeeper"), doc = "```ignore")]
//! use lock_axum::LockManager;
//!
//! # async fn connect() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = LockManager::builder().zookeeper("app:secret@zk-1:2181,zk-2:2181,zk-3:2181/locks").connect().await?;
//! # Ok(())
//! # }
//! ```
//!
//! The ensemble is **one** master, however many servers it has, and has to be the only one. With a login, all znodes are for that user
//! alone. The path is created; without one, it is `/locks`.
//!
//! # The session, and how long a lock lives
//!
//! A lock is an ephemeral znode of the process's session. While the process lives, it ends each lock itself when its `ttl` is over and
//! it was not renewed. **When the process dies, its locks are free when the session ends**, whatever their `ttl`: that is
//! `max_ttl` and 4 s.
//!
//! So a small `max_ttl` frees the locks of dead processes soon. It may be 30 s by default, because servers allow sessions of 20
//! ticks, 40 s, unless `maxSessionTimeout` says otherwise. With a longer `max_ttl` than they allow, `connect` fails and says which
//! of the two to change. The servers' `tickTime` is taken to be at most 2 s; with a longer one, name it:
//! `ZooKeeperNode::from_address(..)?.tick_time(..)`.
//!
//! A process that is stopped for so long that its session ends has lost all its locks, and knows in time: a lease is valid as long as
//! its last renewal says, by the process's own clock.
//!
//! A session belongs to the runtime on which the manager was first used. If that is shut down, or blocked for half a second, and another
//! one uses the manager, the locks that are held are lost with their next renewal: keep the manager on one runtime that nothing blocks.
//!
//! # What is different
//!
//! - **Readers** of one process share a lock. Readers of two processes exclude each other, as writers do.
//! - **Waiters** are served in the order in which they began to wait. One that is stopped costs those behind it a tenth of a second for
//!   each lock, until its session ends.
//! - **Delegations** are not adopted: [`adopt`](crate::LockManager::adopt) cannot know how long the lock lives in the session of
//!   another process.
//! - Others do not know how long a lock still lives: neither errors nor [`inspect`](crate::LockManager::inspect) say it.
//!
//! # What it costs
//!
//! To take a lock that is free is one transaction, and so is every renewal and every release; each is written by a majority of the
//! servers to their disks. A waiting caller creates a znode, and watches one. A manager has one connection and one session, and
//! gives a sign of life each second. A reply may take 2 s before the node counts as one that does not answer.
//!
//! TLS and SASL are not supported: the connection has to be private, and a login is sent as it is.
