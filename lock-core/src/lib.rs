//! Distributed locks worth trusting: Redlock on N independent masters, with a fencing token.
//!
//! This is the engine; it knows neither axum nor HTTP. Web services use `lock-axum`, which re-exports it.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), lock_core::LockError> {
//! let locks = lock_core::LockManager::in_memory(); // or builder().redis([...]).connect().await?
//! let guard = locks.lock("stock:42").acquire().await?;
//! assert!(guard.is_valid());
//! let token = guard.token(); // send it with every write: the database refuses writes of earlier holders
//! guard.release().await?; // or drop it
//! # Ok(())
//! # }
//! ```
//!
//! # Promises
//!
//! While the clocks of the nodes run at bounded rates and a majority of the nodes keeps its data, no two holders of one resource
//! are valid at once, and every grant carries a [`FencingToken`] that is unique and larger than the tokens of all acquisitions
//! that completed before it began. The lock of a crashed holder ends with its time to live. Faults of a minority of the nodes,
//! hung ones included, do not affect callers. Dropping a future at any point releases what it may have
//! locked.
//!
//! No lock can stop a holder that is paused for longer than its time to live. The holder is notified as soon as it resumes
//! ([`Lease::lost`]); until then, only a data store that checks the token is protected.
//!
//! # Modules
//!
//! What every service uses is at the root. Beside it:
//!
//! - [`delegation`]: another service works under a held lock
//! - [`inspection`]: who holds a lock, and taking it from its holder
//! - [`masters`]: the members of a set of masters, and why one of them does not vote
//! - [`limits`]: the ranges of what can be asked for
//! - [`observer`]: hooks for what a manager does
//!
//! # For authors of nodes
//!
//! [`node`] has what an implementation of [`LockNode`] needs; with the feature `conformance`, also a comparison with the rules. [`quorum`]
//! has the decisions of the engine without I/O. Both modules are unstable: they may change in a minor release.
//!
//! # Events
//!
//! Failures that no caller sees are `tracing` events under the target `lock_core`, with stable names. Each also has its name as the field
//! `event`, which formatters print. Durations, in events and spans, are numbers of milliseconds, in fields that end with `_ms`.
//!
//! | name | level | what happened |
//! |---|---|---|
//! | `lock.lost` | error | a lease ended before it was released; once for each |
//! | `lock.renewal_late` | warn | a renewal came only after two thirds of the validity: this process was held up |
//! | `lock.renewal_unknown` | warn | too few nodes took part in a renewal, which is then not reported as late; the event names the first error and its node |
//! | `lock.nested_out_of_order` | warn | a caller waits for a lock inside the scope of one whose name comes after it; once for each manager |
//! | `lock.release_failed` | warn | no majority acknowledged a release within the node timeout |
//! | `lock.release_given_up` | debug | could not deliver a release to a node; the key was left to expire |
//! | `lock.force_released` | warn | a lock was taken from its holder ([`LockManager::force_release`]); the event has the token, and tags of who was evicted |
//! | `lock.manager_dropped` | warn | a manager was dropped while its locks are held, and had not been closed: it may have been made for one call, and exclude nobody |
//! | `lock.shutdown_revoked` | warn | leases were revoked at the end of a shutdown's grace |
//! | `lock.observer_panicked` | error | an observer panicked, for the first time |
//! | `lock.runtime_stalled` | warn | the runtime that kept the connections and renewed the leases did not run; another one took over |
//! | `lock.node_admitted` | debug | a node votes |
//! | `lock.node_away` | warn | a node is not reachable |
//! | `lock.node_cannot_vote` | error | a node is admitted, but would not grant or renew a lock; once for each cause, which the event names with the remedy |
//! | `lock.node_votes_again` | info | that cause is gone |
//! | `lock.sweep_failed` | warn | a PostgreSQL node could not remove expired rows; once for a connection. Fields `node`, `error` |
//! | `lock.old_snapshot` | warn | a transaction that has been open for a minute slows a PostgreSQL node down; once for each connection |
//! | `lock.node_does_not_tell_losses` | warn | a Redis server does not say when it loses its data while it runs, so that only inspections notice it; once for each node; the event names the reason |
//! | `lock.node_does_not_call` | warn | no majority of the nodes can wake this process, or their wake-ups do not arrive, and it polls instead; the event names the nodes and the reason |
//! | `lock.node_calls_nobody` | warn | a Redis server wakes no other process when this one releases a lock: the user may not `PUBLISH`, and the others poll; once for each node |
//! | `lock.node_may_evict` | warn | a Redis server deletes locks when its memory is full ([`tolerate_eviction`](LockManagerBuilder::tolerate_eviction)); once for each node |
//! | `lock.node_wants_declared_keys` | info | a Redis server refuses scripts the use of keys that they did not declare, and gets all of them declared; once for each node |
//! | `lock.roster_changed` | info | the members of the set changed, or its `max_ttl`; debug when they are first known |
//! | `lock.member_replaced` | warn | a node joined the set, and grants no locks for a while |
//! | `lock.not_a_member` | warn | a node does not belong to the set; the event names the reason and the remedy |
//! | `lock.majority_forgot` | error | a majority of the members lost their data; locks stop |
//! | `lock.set_ended` | error | another set was formed over this one, with other masters; locks stop |
//! | `lock.set_formed` | info | a new set was formed; error if its nodes may have granted locks before |
//! | `lock.record_not_written` | warn | a node refused to have its record read or written; once for each cause, which the event names |
//! | `lock.node_in_quarantine` | debug | a node is in quarantine |
//! | `lock.node_refused` | error | a node must not be used; the event names the reason and the remedy |
//!
//! # Spans
//!
//! Both have the level debug, and are children of the caller's span: of its request, usually. Acquiring and releasing a lock
//! logs nothing above that level.
//!
//! | name | from | fields |
//! |---|---|---|
//! | `lock.acquire` | the call to its end | `template`, `resource`, `attempts`, the votes of the last one (`granted`, `held`, `failed`, `pending`), `waited_ms`, `outcome` as in the metrics |
//! | `lock.hold` | the grant to the end of the lease | `template`, `resource`, `token`, `renewals`, `end` as in the metrics |
//!
//! Each lock of a set has both. The attempts run in `lock.acquire`, except for those that a set makes for several locks at
//! once. Nothing runs in `lock.hold`: the holder goes on in its own span. The events about a lease are in the span of its hold.
//!
//! With [`redact`](LockManagerBuilder::redact), neither spans nor events have the `resource`, or its `key`.
//!
//! # Metrics
//!
//! With the feature `metrics`, every manager records these with the recorder of the [`metrics`](https://docs.rs/metrics) facade that
//! the service installs. Install it before the first manager is built: a metric stays with the recorder that was there when its template
//! or node was first heard of. An exporter must not forget metrics that are idle. Durations are in seconds.
//!
//! | name | kind | labels |
//! |---|---|---|
//! | `lock_acquire_duration_seconds` | histogram | `template`, `outcome`: `acquired`, `contended`, `no_quorum`, `expired`, `cancelled`, `closed`, `error` |
//! | `lock_hold_duration_seconds` | histogram | `template`, `end`: `released`, `lost`, `max_hold`, `revoked` |
//! | `lock_held` | gauge | `template` |
//! | `lock_waiting` | gauge | `template` |
//! | `lock_handovers_total` | counter | `template` |
//! | `lock_attempts_total` | counter | `template` |
//! | `lock_renewals_total` | counter | `template`, `outcome`: `renewed`, `unknown`, `lost` |
//! | `lock_lost_total` | counter | `template`, `reason`: `expired`, `gone`, `max_hold`, `shutdown`, `set_lost` |
//! | `lock_node_duration_seconds` | histogram | `node`, `outcome`: `granted`, `held`, `failed` |
//! | `lock_node_up` | gauge | `node` |
//!
//! The `template` is what the resource is made from, such as `stock:{sku}`, so that ten thousand resources have as many series as one.
//! Each lock of a set counts by itself: it counts as held from its grant, even while the set waits for another lock, and its
//! acquisition ends when the set's does, with the same outcome. A lock without one
//! ([`LockRequest::template`]) has the template `other`. `node` is the name of a node: its URL without the password. A
//! [`LockObserver`] is told the same, with or without the feature. `lock-axum` counts refused claims, too:
//! `lock_fence_rejections_total`, by `sink`.

#![cfg_attr(docsrs, feature(doc_cfg))]
// What only some of the stores use is compiled without them, too. With all of them, nothing is left over.
#![cfg_attr(not(all(feature = "redis", feature = "postgres", feature = "zookeeper")), allow(dead_code))]

// First: their macros are in scope below.
#[macro_use]
mod log_event;
#[macro_use]
mod opaque_debug;

mod cluster;
pub mod delegation;
mod engine;
mod error;
#[cfg(feature = "axum")]
mod extract;
pub mod inspection;
mod kind;
mod lease;
pub mod limits;
mod manager;
pub mod masters;
mod mutex;
pub mod node;
pub mod observer;
mod options;
pub mod quorum;
mod random;
mod resource;
mod task;
mod token;
mod waiting;

pub use self::error::{LockError, LossReason, NodeError, NodeVote, Vote};
#[cfg(feature = "axum")]
#[doc(hidden)]
pub use self::extract::LockPending;
#[cfg(feature = "axum")]
pub use self::extract::MissingLease;
pub use self::kind::Kind;
#[doc(hidden)]
pub use self::lease::Scope;
pub use self::lease::{Lease, Leases, LockGuard, SetGuard};
pub use self::manager::{
    ConfigError, ConnectError, LockManager, LockManagerBuilder, LockRequest, SetRequest, ShutdownReport,
};
pub use self::masters::health::{Health, NodeHealth};
#[doc(hidden)]
pub use self::mutex::Mutex;
#[cfg(feature = "postgres")]
pub use self::node::PostgresNode;
#[cfg(feature = "redis")]
pub use self::node::RedisNode;
#[cfg(feature = "zookeeper")]
pub use self::node::ZooKeeperNode;
pub use self::node::{Credentials, LockNode, MemoryNode};
pub use self::observer::LockObserver;
pub use self::token::FencingToken;
/// The client that [`RedisNode::from_factory`] takes connections of, in the version that fits.
#[cfg(feature = "redis")]
pub use redis;
/// The client that [`PostgresNode::from_factory`] takes the configuration of, in the version that fits.
#[cfg(feature = "postgres")]
pub use tokio_postgres;
/// The TLS library that [`LockManagerBuilder::tls`] takes its configuration from, in the version that fits.
#[cfg(feature = "tls")]
pub use tokio_rustls::rustls;
