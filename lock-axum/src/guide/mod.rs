//! A guide: one page for each question that comes up when you add locks to a service.
//!
//! | Question | Page |
//! |---|---|
//! | What do I call the thing that I lock? | [`resource_names`] |
//! | How long a `ttl`, `wait` and `max_hold`? | [`durations`] |
//! | Why is the lock not enough, and what does the database have to do? | [`fencing`] |
//! | May several holders read at once? | [`reading`] |
//! | How do I let a few in at once? | [`permits`] |
//! | Where does the transaction go, and what if a client repeats its request? | [`transactions`] |
//! | How do I lock several things at once? | [`several_locks`] |
//! | How do I hold a lock for a stream, or for the session of a WebSocket? | [`sessions`] |
//! | How does another service work under my lock? | [`delegation`] |
//! | How do I stop an instance, and roll out a new version? | [`shutdown`] |
//! | How do I test a guarded handler? | [`testing`] |
//! | Do I need a lock here, and is it in the right place? | [`do_i_need_a_lock`] |
//! | The same for jobs and other code without axum? | [`trials_without_axum`] |
//! | I use another lock today. What changes? | [`migrating`] |
//! | I have Redis, a cluster, PostgreSQL or a host. What do I write? | [`where_locks_live`] |
//! | What do I run, and what do I watch? | [`masters`] |
//! | How do I see locks in traces? | [`opentelemetry`] |
//! | Can the masters be PostgreSQL? | [`postgresql`] |
//! | Can the master be ZooKeeper? | [`zookeeper`] |
//! | Who holds a lock, and how do I take it from them? | [`stuck_locks`] |
//! | Do I need a distributed lock at all? | [`when_not`] |
//!
//! The examples run as tests, on masters in memory. What is promised, and under which assumptions, is in
//! `docs/promises.md` of the repository; this guide promises nothing beyond it.

pub mod delegation;
pub mod do_i_need_a_lock;
pub mod durations;
pub mod fencing;
pub mod masters;
pub mod migrating;
pub mod opentelemetry;
pub mod permits;
pub mod postgresql;
pub mod reading;
pub mod resource_names;
pub mod sessions;
pub mod several_locks;
pub mod shutdown;
pub mod stuck_locks;
pub mod testing;
pub mod transactions;
pub mod trials_without_axum;
pub mod when_not;
pub mod where_locks_live;
pub mod zookeeper;
