//! Locks in PostgreSQL: when, how, and what it costs.
//!
//! # When
//!
//! A service that has a PostgreSQL database, and nothing else, need not run Redis for its locks. With the feature `postgres`, a
//! database is a master like any other: the same macro, layer, guards and tokens, and the same rules for waiters and readers.
//! Redis is the better choice for a thousand locks a second, or for locks in less than a millisecond.
//!
//! If all that the lock protects is in that one database, a row lock (`SELECT … FOR UPDATE`) may do: see [`when_not`](super::when_not).
//!
//! # One, or three
//!
#![cfg_attr(feature = "postgres", doc = "```no_run")]
#![cfg_attr(not(feature = "postgres"), doc = "```ignore")]
//! use lock_axum::LockManager;
//!
//! # async fn connect() -> Result<(), Box<dyn std::error::Error>> {
//! // The database that the service has anyway.
//! let locks = LockManager::builder().postgres(["postgres://app:secret@db/shop"]).connect().await?;
//! # Ok(())
//! # }
//! ```
//!
//! One database is a set of one: while it is down, there are no locks. Three servers that are independent of each other
//! tolerate that one is gone. Name each server once: two databases of one server fail together, and nothing notices that. PostgreSQL
//! and Redis may be in one set.
//!
//! # What survives what
//!
//! A server that is stopped and started in order keeps its locks. One that crashed, was stopped with `-m immediate`, or was promoted may
//! have lost them, so it grants none for a quarantine of `max_ttl` and a margin. That is so with and without
//! `synchronous_commit`; without it, a single server that crashed counts tokens on with its clock. A crash is also one of any other
//! process of the server: when a backend of another application is killed (`kill -9`, out of memory), PostgreSQL ends all of them, and empties
//! the unlogged table that the node remembers by.
//!
//! Tables that are dropped, truncated or rewritten (`VACUUM FULL`) are noticed before the next vote, and cost a quarantine as well. So does a
//! copy of the server's files that is put back, for services that have seen later ones; others cannot notice, and the runbook in
//! `docs/operations.md` says what to do.
//!
//! A standby must be promoted only when the old primary is stopped for good. If both take writes, each with clients of its own, they may
//! grant one lock to two holders. With `synchronous_standby_names` set and `synchronous_commit`, a primary that is cut off
//! grants nothing: a grant that waits for a missing standby is no vote, and after five seconds, with the connection, it is cancelled on
//! the server. If the service dies first, the wait stays there, and blocks its lock, until a standby is back, or somebody calls
//! `pg_cancel_backend` (`wait_event = 'SyncRep'` in `pg_stat_activity`): no timeout of PostgreSQL ends it.
//!
//! Locks end by the wall clock of the server (`clock_timestamp()`). When that is set forward, they end early, and nothing notices: one step
//! by the `ttl`, as when a virtual machine is resumed and its clock is corrected, frees every lock of a database that is alone. Have the
//! clock slewed (`chronyd` without `makestep`), and do not suspend the machine. When it is set back, a lock whose holder died stays for as
//! long as the step, unless somebody evicts the holder. Of three servers, one clock may step while the two others have the lock. Fencing
//! tokens keep their order all the same.
//!
//! # What it needs
//!
//! PostgreSQL 12 or newer, and a database with the encoding UTF8. The first connection creates the schema `locks`, if it may;
//! otherwise the error of `connect` has the SQL for somebody who may. Each manager has one connection, and one more once it waits for a
//! lock that another process has. Both must be sessions of their own, with the settings of their startup packet: `PgBouncer`, which drops
//! them, is refused in every `pool_mode`, and nothing is changed in its sessions. Name the server itself. With
//! `sslmode=require` in the URL and the feature `tls`, connections are secure, and certificates are always checked; or give the
//! builder a configuration of rustls (`tls`), or streams of your own (`PostgresNode::from_factory`). No function that hosts
//! deny to their users is called; `docs/operations.md` says what a hosted database has to allow.
//!
//! # What it costs
//!
//! A lock is two rows that are updated, and one more when it is released, in tables that are not logged: less of the server's processor time and
//! log (WAL) than a row that is inserted and deleted in a table of locks, which has no token, no queue and no renewal. `bench --only database`
//! measures both, and `docs/performance.md` has its figures. Of the grants of a lock, one in a second waits for the disk, with `synchronous_commit`.
//! Requests that come together share a transaction.
//! Transactions that stay open for long, a dump for example, keep PostgreSQL from removing dead rows, and locks become slower the longer
//! it takes. A reply may take a fifth of the `ttl`, at most 2 s, before the node counts as one that does not answer
//! ([`node_timeout`](crate::LockManagerBuilder::node_timeout)).
