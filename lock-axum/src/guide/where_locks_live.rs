//! Where locks live: what to write for the servers that you have.
//!
//! | You have | Use | What it costs |
//! |---|---|---|
//! | nothing yet | three small Redis servers, [`redis`](crate::LockManagerBuilder::redis) | three servers |
//! | one Redis | `redis` with one URL | a restart stops all locks for a quarantine |
//! | a master with replicas and Sentinel | [`sentinel`](crate::LockManagerBuilder::sentinel), perhaps with [`replicated`](crate::LockManagerBuilder::replicated) | a failover stops all locks for a quarantine; two holders in a split brain |
//! | a Redis Cluster | [`redis_cluster`](crate::LockManagerBuilder::redis_cluster) with [`shards`](crate::LockManagerBuilder::shards) | a failover, or a slot that moves, stops the shards on it for a quarantine; two holders in a split brain |
//! | more locks than one `redis-server` carries | a set of servers for each shard: [`set`](crate::LockManagerBuilder::set), called once for each | a `redis-server` for each processor |
//! | three clusters | `redis_cluster` with all of them, as a set of three | what three servers cost; one may be away |
//! | PostgreSQL | [`postgres`](super::postgresql), one database or three servers | slower; a crash stops all locks for a quarantine, if there is one |
//! | ZooKeeper | [`zookeeper`](super::zookeeper) | slower; locks live as long as sessions, readers exclude each other |
//! | another store | [a node of your own](crate::node::writing) | you write it |
//!
//! A quarantine lasts for `max_ttl` and a margin: 61.2 seconds by default, so make [`max_ttl`](crate::LockManagerBuilder::max_ttl) small where
//! there is one master. Redis and PostgreSQL may be in one set, because they keep the same rules. A ZooKeeper ensemble is always a set by
//! itself. What each of them promises is in the README, under "Which store".
//!
//! # Redis servers of your own
//!
//! ```no_run
//! # async fn connect() -> Result<(), lock_axum::ConnectError> {
//! use lock_axum::LockManager;
//!
//! let locks = LockManager::builder()
//!     .redis(["redis://app:secret@10.0.0.1", "redis://app:secret@10.0.0.2", "redis://app:secret@10.0.0.3"])
//!     .connect()
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! # A Redis Cluster
//!
//! The cluster is one master, named by some of its servers in one string. With shards, its locks are spread over all of its servers; the number of
//! shards cannot be changed later. Three strings are three masters.
//!
//! ```no_run
//! # async fn connect() -> Result<(), lock_axum::ConnectError> {
//! use std::time::Duration;
//!
//! use lock_axum::LockManager;
//!
//! let locks = LockManager::builder()
//!     .redis_cluster(["redis://app:secret@10.0.0.1,10.0.0.2,10.0.0.3"])
//!     .shards(16)
//!     .max_ttl(Duration::from_secs(10)) // and so the time without the locks of a server that fails
//!     .connect()
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Redis or PostgreSQL of a host
//!
//! With most hosting providers, only two things differ: passwords change, and the eviction policy may be fixed. If it evicts keys, keep
//! nothing but locks there. If its certificates have an issuer of their own, or it asks for a client certificate, give the builder a
//! rustls configuration (`tls`).
//!
#![cfg_attr(feature = "tls", doc = "```no_run")]
#![cfg_attr(not(feature = "tls"), doc = "```ignore")]
//! # async fn connect() -> Result<(), lock_axum::ConnectError> {
//! use std::io;
//!
//! use lock_axum::{Credentials, LockManager};
//!
//! let locks = LockManager::builder()
//!     .redis(["rediss://locks.example.com:6379"])
//!     .credentials(|| async {
//!         let password = std::fs::read_to_string("/run/secrets/redis")?;
//!         io::Result::Ok(Credentials::new("app", password.trim_end()))
//!     })
//!     .tolerate_eviction(true) // only if its policy is one of `volatile-*`, and has to be
//!     .connect()
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! `docs/operations.md` says what works where a host denies commands. [`masters`](super::masters) says what to run and to watch.
