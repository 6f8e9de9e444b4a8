//! What to run, and what to watch.
//!
//! # How many, and which
//!
//! Run three or five servers, usually Redis 6.2 or newer, or Valkey, on machines that do not fail together. An even number is
//! refused. A single one works for development, or where a restart may stop all locks for a while: it tolerates no failure.
//!
//! They must be *independent*: no replica of each other, no servers of one cluster (a cluster as a whole is one of them), no proxy that
//! spreads commands over servers. A majority has to be up: two of three, three of five. A client waits only for the fastest
//! majority, so it hardly notices a minority that is dead, hung or slow. [`where_locks_live`](super::where_locks_live) has other stores.
//!
//! # Settings
//!
//! | Setting | Value | Otherwise |
//! |---|---|---|
//! | `maxmemory-policy` | `noeviction` | refused: evicted keys are locks that end early; `volatile-*` is used with `tolerate_eviction(true)`, where it cannot be changed |
//! | `min-replicas-to-write` | 0 | grants no locks while replicas are missing |
//! | `cluster-enabled` | `no`, unless it is named with `redis_cluster` | refused |
//! | `appendonly`, `save` | as you like | a master that restarts sits out a quarantine in any case |
//!
//! The quarantine is `max_ttl` and a margin, 61.2 seconds by default. It ends when every lock that the master may have
//! forgotten has ended. So **restart one at a time**, and wait until it votes again.
//!
//! # Permissions
//!
//! With ACLs, one pattern covers all keys, and one all channels. For the default prefix `lock:`:
//!
//! ```text
//! ACL SETUSER app on >secret ~lock:* resetchannels &lock:* +select +info +time +script|load +evalsha +eval +get +mget +set +del +pttl +pexpire +hmget +hgetall +hset +hdel +zadd +zrem +zrange +zrank +zscore +zcard +publish +subscribe +client|tracking
//! ```
//!
//! [`RedisNode`](crate::RedisNode#permissions) says which of them are optional.
//!
//! # Connecting
//!
//! ```no_run
//! # async fn connect() -> Result<(), lock_axum::ConnectError> {
//! use lock_axum::LockManager;
//!
//! let locks = LockManager::builder()
//!     .redis(["redis://app:secret@10.0.0.1", "redis://app:secret@10.0.0.2", "redis://app:secret@10.0.0.3"])
//!     .prefix("shop:") // the ACL has ~shop:* and &shop:* then
//!     .set_name("locks of the shop")
//!     .connect()
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! `connect` has each master grant and renew a lock that nobody else can ask for, and for each that refuses, names the reason
//! and the remedy. A [set name](crate::LockManagerBuilder::set_name) protects against a list of other masters.
//! `rediss://` is TLS, with the feature `tls`. A Redis master has at most 50 ms to reply by default: raise
//! [`node_timeout`](crate::LockManagerBuilder::node_timeout) if round trips come near that.
//!
//! # Readiness
//!
//! [`health`](crate::LockManager::health) asks every master now. `quorum` is true only if a majority grants locks:
//!
//! ```
//! use axum::extract::State;
//! use axum::http::StatusCode;
//! use lock_axum::{LockManager, MemoryNode};
//!
//! async fn ready(State(locks): State<LockManager>) -> (StatusCode, String) {
//!     let health = locks.health().await;
//!     let problem = |node: &lock_axum::NodeHealth| Some(format!("{}: {}\n", node.name, node.problem.as_ref()?));
//!     let problems = health.nodes.iter().filter_map(problem).collect();
//!     (if health.quorum { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, problems)
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let nodes = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
//! let locks = LockManager::builder().nodes(nodes.clone()).connect().await?;
//! nodes[0].set_down(true);
//! assert_eq!(ready(State(locks.clone())).await.0, StatusCode::OK);
//! nodes[1].set_down(true);
//! assert_eq!(ready(State(locks)).await.0, StatusCode::SERVICE_UNAVAILABLE);
//! # Ok(())
//! # }
//! ```
//!
//! It may take two seconds if a master hangs, so give the probe more than that. Use it for readiness and not for
//! liveness: restarting the service brings no master back.
//!
//! # What to watch
//!
//! Watch the [events](crate#events), most of all `lock.node_away` and `lock.node_cannot_vote` (a master needs attention),
//! `lock.lost` (a holder was too slow or cut off), `lock.stale_token` (the fence stopped a late write) and
//! `lock.majority_forgot` (promises may have ended).
//!
//! # The page
//!
//! With the feature `dashboard`, `lock_axum::dashboard(locks)` is a live page of what this process holds, who waits for it, and
//! how the masters are. It changes nothing and costs nothing while nobody looks, but it shows the names of resources and
//! the addresses of masters: nest it below your own authentication, as its documentation does. Other processes have pages of
//! their own. Under another name than an address or `localhost`, it answers only if `.host("..")` gave it that name, or
//! `.behind_authentication()` says that a layer checks who asks.
//!
#![cfg_attr(feature = "dashboard", doc = "```")]
#![cfg_attr(not(feature = "dashboard"), doc = "```ignore")]
//! # use axum::Router;
//! # use lock_axum::{LockManager, dashboard};
//! # let locks = LockManager::in_memory();
//! let page = Router::from(dashboard(locks)); // .layer(your authentication)
//! let app: Router = Router::new().nest_service("/locks", page);
//! ```
//!
//! # Replacing one
//!
//! No command is needed: services that are started with another list of masters make the change.
//!
//! 1. Start the new master, empty.
//! 2. Deploy the services with the new list. Old and new lists exclude each other while both are in use.
//! 3. Wait until the new master votes: `health` shows it as `admitted`, a quarantine later.
//! 4. Stop the old one, and start nothing at its address before all lists are new.
//!
//! Replace one at a time. The number of masters stays the same; to change it, everything has to be stopped.
//!
//! The repository has runbooks for this and for every other case in `docs/operations.md`, and a tool, `lockctl`, that
//! waits for each step and says what is missing.
