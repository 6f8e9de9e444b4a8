//! Moving from another lock.
//!
//! This page describes other libraries by their sources of summer 2026: rslock 0.10, redlock 2 and distributed-lock 0.2 (Rust),
//! sqlx 0.8, redlock 5 (Node, a beta version), redsync 4 (Go), Redisson, `ShedLock`, and RedLock-Hyperf for Hyperf 2.1. Tests run rslock and redlock for Node
//! beside this crate; the others were not run.
//!
//! Four things are different from all plain Redlocks:
//!
//! - A lock is renewed until `max_hold`, so `ttl` is not how long the work takes ([durations](super::durations)).
//! - There are no retries to tune, because waiters queue and are woken. The one setting for the patience of a caller is `wait`.
//! - `wait` ends early if the quorum has been lost for a second: the caller gets [`NoQuorum`](crate::LockError::NoQuorum), which is 503 in
//!   a handler, long before a `wait` of a minute is over. A job that has to sit out an outage tries again after
//!   [`LockError::retry_after`](crate::LockError::retry_after).
//! - Each lock has a token that the [database can check](super::fencing).
//!
//! # rslock
//!
//! | There | Here |
//! |---|---|
//! | `LockManager::new(vec![..])` | [`LockManager::builder().redis([..]).prefix("").connect().await?`](crate::LockManagerBuilder::redis) |
//! | `lock(name, ttl)`, three attempts | [`locks.lock(name).ttl(ttl).acquire()`](crate::LockRequest::acquire), which waits for 2 s; [`try_acquire`](crate::LockRequest::try_acquire) for a single attempt |
//! | `acquire(name, ttl)`, which tries for ever | a long `wait`, a day at most |
//! | `set_retry(count, delay)` | `wait` |
//! | `guard.release().await`, `unlock(&lock)` | [`guard.release().await?`](crate::LockGuard::release), or drop the guard |
//! | `extend(&lock, ttl)` | nothing: renewed |
//! | `using(name, ttl, routine)` | [`locks.lock(name).ttl(ttl).run(..)`](crate::LockRequest::run) |
//! | `lock.validity_time`, when it was granted; `is_freed(&lock)`, which asks the masters | [`remaining`](crate::Lease::remaining), [`is_valid`](crate::Lease::is_valid), which ask nobody |
//! | `LockError::Unavailable`, for whatever reason | [`Contended`](crate::LockError::Contended) if it is held, [`NoQuorum`](crate::LockError::NoQuorum) if no majority answers |
//!
//! What changes: a guard that is dropped, also by `?` or a panic, releases its lock, which there stays until its time to live is
//! over. A master that hangs delays nobody, where each attempt there waits for all of them. The connections are opened by
//! `connect`, which says what is wrong with the masters, and not by the first lock.
//!
//! ```ignore
//! let guard = locks.acquire("report", Duration::from_secs(10)).await?; // rslock
//! let written = write_report().await;
//! guard.release().await; // also before every `?`
//! written?;
//! ```
//!
//! ```
//! # use std::time::Duration;
//! # use lock_axum::LockManager;
//! # async fn write_report() -> Result<(), Box<dyn std::error::Error>> { Ok(()) }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let locks = LockManager::in_memory();
//! let guard = locks.lock("report").ttl(Duration::from_secs(10)).wait(Duration::from_secs(3600)).acquire().await?;
//! write_report().await?;
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # redlock (`redlock-rs`)
//!
//! | There | Here |
//! |---|---|
//! | `RedLock::new(vec![..])` | [`LockManager::builder().redis([..]).prefix("")`](crate::LockManagerBuilder::redis) |
//! | `lock(b"name", 10_000)`, milliseconds: `Ok(None)` if it is held, after three attempts | [`try_acquire`](crate::LockRequest::try_acquire) or `acquire`: [`Contended`](crate::LockError::Contended) |
//! | `acquire(b"name", 10_000)`, which tries for ever | a long `wait` |
//! | `set_retry(count, milliseconds)` | `wait` |
//! | `unlock(&lock)`, or dropping the `RedLockGuard` | [`release`](crate::LockGuard::release), or drop the guard |
//!
//! What changes: without its feature for tokio, its calls block their thread, and stand in `spawn_blocking`; these are futures. Nothing is renewed there.
//!
//! # distributed-lock
//!
//! | There | Here |
//! |---|---|
//! | `RedisLockProvider::builder().urls(&[..]).build().await?`; several are a Redlock | [`LockManager::builder().redis([..]).connect().await?`](crate::LockManagerBuilder::redis) |
//! | `PostgresLockProvider` | [`postgres([..])`](super::postgresql) |
//! | `provider.create_lock(name)` | `locks.lock(name)` |
//! | `acquire(Some(timeout))`; `acquire(None)`, for ever | `wait(timeout)` and `acquire()`; a long `wait` |
//! | `try_acquire()`, which returns an `Option` | [`try_acquire`](crate::LockRequest::try_acquire): [`Contended`](crate::LockError::Contended) |
//! | `expiry` (30 s), `extension_cadence` (10 s) | `ttl` (10 s), renewed after a third of it |
//! | `handle.lost_token().changed()` | [`lost`](crate::Lease::lost) |
//! | reader-writer locks, semaphores | [reading](super::reading), [permits](super::permits) |
//! | `MySQL`, `MongoDB`, files | not here |
//!
//! What changes: a handle that is dropped releases its lock, which there stays in Redis until `expiry`. Its semaphores are on the first
//! server alone. Its keys are not shared with this crate in a way that is tested, so change over [in three
//! rollouts](super::shutdown#names-that-change). Its locks in PostgreSQL are advisory locks, see below.
//!
//! # Advisory locks of PostgreSQL, by sqlx
//!
//! | There | Here |
//! |---|---|
//! | `PgAdvisoryLock::new(name)`, a 64-bit hash of the name | `locks.lock(name)`, the name itself |
//! | `acquire(connection)`, which waits for ever; `try_acquire(connection)` | `wait(..)` and `acquire()`; [`try_acquire`](crate::LockRequest::try_acquire) |
//! | `release_now().await` | [`release().await`](crate::LockGuard::release) |
//! | dropping the guard, which unlocks when the connection is used again or goes back to its pool | dropping the guard, which releases at once in the background |
//! | `pg_advisory_xact_lock` | no counterpart: keep it, if the lock is for that one transaction |
//!
//! What changes: a lock is no longer bound to a connection, so that a thousand waiters need no thousand connections. A crashed holder keeps
//! its lock until `ttl` is over, and not only until the server notices the broken connection. A lock in the database that it guards needs
//! no fence; one outside does. Neither is safe behind a pooler that shares connections between transactions; here `connect` refuses one.
//!
//! # redlock for Node
//!
//! | There | Here |
//! |---|---|
//! | `redlock.using([name], duration, routine)` | [`locks.lock(name).ttl(duration).run(...)`](crate::LockRequest::run) |
//! | `redlock.acquire([name], duration)`, `lock.release()` | [`acquire`](crate::LockRequest::acquire); [`release`](crate::LockGuard::release), or drop the guard |
//! | `retryCount`, `retryDelay`, `retryJitter` | `wait`; zero for `retryCount: 0` |
//! | `retryCount: -1`, for ever | a long `wait`, a day at most |
//! | `automaticExtensionThreshold`, `lock.extend()` | nothing: renewed after a third of the `ttl`, until `max_hold` |
//! | `signal.aborted`, which the routine has to look at | `run` drops the future; or [`lost`](crate::Lease::lost), [`check`](crate::Lease::check) |
//! | several names in one call | [`lock_all`](crate::LockManager::lock_all), with a token for each: [several locks](super::several_locks) |
//! | the event `error`, `attempts` | [`LockError::votes`](crate::LockError::votes) |
//!
//! # redsync
//!
//! | There | Here |
//! |---|---|
//! | `rs.NewMutex(name)`, `Lock()`, `TryLock()` | `locks.lock(name)`, `acquire()`, `try_acquire()` |
//! | `WithExpiry`, default 8 s | `ttl`, default 10 s |
//! | `WithTries`, `WithRetryDelay` (32 attempts, 50 to 250 ms apart) | `wait`, default 2 s |
//! | `Extend()` | nothing: renewed |
//! | `Until()`; `Valid()`, which asks the masters | [`remaining`](crate::Lease::remaining), [`is_valid`](crate::Lease::is_valid), which ask nobody |
//! | `WithTimeoutFactor`, 0.05 of the expiry | [`node_timeout`](crate::LockManagerBuilder::node_timeout), the same and at most 50 ms by default |
//! | `WithFailFast` | always: a majority decides |
//! | `Unlock()`, often deferred | the guard releases when it is dropped |
//!
//! # Redisson
//!
//! | There | Here |
//! |---|---|
//! | `lock.lock()`, renewed by the watchdog (`lockWatchdogTimeout`, 30 s) | `ttl`, renewed until `max_hold` |
//! | `leaseTime` | `ttl(...)` with `renew(false)` |
//! | `tryLock(waitTime, leaseTime, unit)` | `wait(...)` and `acquire()` |
//! | reentrant in its thread | reentrant in its scope: inside [`run`](crate::LockRequest::run) and guarded handlers, not in tasks that they spawn |
//! | `RFencedLock` | every lock has a token |
//! | `RLock`, on one deployment of Redis; `RedLock`, on several, is deprecated | a majority of independent masters |
//!
//! Redisson waits until the replicas of its master have a lock (`WAIT`), and then counts on them. A replica that takes over without
//! the lock grants it again at once. Here such a replica sits out a quarantine, with
//! [`sentinel`](crate::LockManagerBuilder::sentinel), and waiting for replicas is [an
//! extra](crate::LockManagerBuilder::replicated) for another case, the split brain.
//!
//! Its locks are hashes, so it cannot share names with any Redlock: a lock whose key is a hash is
//! [`LockError::NotALock`](crate::LockError::NotALock). Use a prefix, and [change over in three
//! rollouts](super::shutdown#names-that-change), with Redisson's lock as the old one.
//!
//! # `ShedLock`
//!
//! | There | Here |
//! |---|---|
//! | `@SchedulerLock(name = "report")` | [`locks.lock("report").try_acquire()`](crate::LockRequest::try_acquire), or [`run`](crate::LockRequest::run) with a `wait` of zero |
//! | a task that is locked is skipped | [`Contended`](crate::LockError::Contended): skip it |
//! | `lockAtMostFor`, renewed only by `KeepAliveLockProvider` or `LockExtender` | `max_hold`; `ttl` is only how long the others wait after a crash |
//! | `lockAtLeastFor`, against clocks that differ | nothing: ask the database whether the period is done, as `examples/worker` does |
//! | a `LockProvider` on one store | a majority of independent masters |
//!
//! # RedLock-Hyperf
//!
//! ```php
//! /**
//!  * @RedLockAnnotation(resource="stock", poolName={"redis1", "redis2", "redis3"}, ttl=10000, retryCount=5)
//!  */
//! public function deduct() {}
//! ```
//!
//! | Parameter | There | Here |
//! |---|---|---|
//! | `resource` | a fixed text, one lock for all calls of the method; checked at run time | `resource = "stock:{sku}"`, with [placeholders](super::resource_names); checked at compile time |
//! | `poolName` | Hyperf's Redis pools, one for each master; default `{"default"}` | [`LockManager::builder().redis([...])`](crate::LockManagerBuilder::redis), once for the service |
//! | `ttl` | milliseconds, default 60000; not renewed, and a method that takes longer is not told | `ttl = "10s"`, renewed; a handler whose lock is lost is cancelled |
//! | `retryCount` | how many attempts are made in all, default 2 | `wait = "2s"` |
//! | `retryDelay` | the longest pause between two attempts, default 200 ms; the shortest is half of it | none: waiters are woken |
//! | `clockDriftFactor` | the share of the `ttl` that is not used, default 0.01, and 2 ms | the same, not a setting |
//!
//! ```
//! # use axum::extract::Path;
//! # use lock_axum::distributed_lock;
//! #[distributed_lock(resource = "stock:{sku}", ttl = "10s", wait = "2s")]
//! async fn deduct(Path(sku): Path<String>) -> String {
//!     format!("deducting {sku}")
//! }
//! # axum::Router::<()>::new().route("/{sku}", axum::routing::post(deduct));
//! ```
//!
//! The annotation throws a `RedLockException` if it does not get the lock, for whatever reason. Here the client gets
//! 409 if the lock is busy and 503 if the masters are gone. If the method throws, the annotation's lock stays until its
//! `ttl` is over; here it is released after errors and panics. A master that is down makes every lock fail there, because its error is
//! thrown, and of three masters, all three have to grant (the majority is computed as 2.5). Here two of three are enough.
//!
//! # `SET NX` by hand
//!
//! | There | Here |
//! |---|---|
//! | `SET name random NX PX 10000` in a loop | `acquire()`, with `ttl` and `wait` |
//! | a script with `GET` and `DEL` | the guard releases only what is its own |
//! | `DEL` without the comparison: deletes the lock of the next holder after a pause | not possible |
//! | one Redis | one master works in the same way; three survive a failure |
//!
//! # Old and new in one fleet
//!
//! Redlock clients that write a plain `SET NX PX` can share locks with this one. Give the manager an empty prefix and
//! everybody the same masters, and roll out one instance at a time:
//!
//! ```
//! # use std::time::Duration;
//! # use lock_axum::LockManager;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), lock_axum::ConfigError> {
//! let locks = LockManager::builder()
//!     .redis(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
//!     .prefix("") // the keys are the names
//!     .max_ttl(Duration::from_secs(60)) // at least the longest time to live of the other clients
//!     .connect_lazy()?;
//! # Ok(())
//! # }
//! ```
//!
//! This is tested with redlock for Node, with rslock, and with a bare `SET NX PX`. redsync and RedLock-Hyperf write the
//! same kind of key.
//!
//! - **Exclusion** holds as far as a plain Redlock promises it. The others count a master that restarted empty at once,
//!   and do not follow when masters are replaced: do neither while they run.
//! - **Names** have to be the same to the byte. A prefix that the other client's connection adds counts, too, and a
//!   template [encodes values](super::resource_names#templates). Names with braces, such as hash tags, are refused
//!   here.
//! - **Tokens** exist only here. Writes of a plain client are not fenced, so fencing protects fully only when the last plain
//!   client is gone.
//! - **Turns**: a plain client is in no queue and tries again after its delay. When it releases, nobody is woken, so
//!   the first of our waiters asks again every few milliseconds while it holds the lock. At similar delays, ours get at
//!   least half as many turns as the plain client.
