//! How to write a node for a store that this crate does not have.
//!
//! A [`LockNode`](super::LockNode) carries out [`Operation`](super::Operation)s, each in one atomic step, and keeps a
//! [`NodeRecord`](super::NodeRecord), which it does not have to understand. The engine above it
//! decides who holds a lock, with which token and for how long.
//!
//! # One store or several
//!
//! Every node has weight one. N independent stores are a set of N nodes, of which a majority decides. A store that replicates by
//! consensus is **one** node, [alone](super::LockNode::is_alone) in its set: it survives what its consensus survives. Its members must not be nodes of their own;
//! they would not be independent.
//!
//! A node has to be linearizable: each later request finds what it acknowledged. A store that may answer from a replica that lags,
//! or that loses acknowledged writes when another replica takes over, is linearizable only as long as the node notices, and then has
//! another run id.
//!
//! # Order
//!
//! Requests take effect in the order in which they were submitted, whether somebody still waits for the reply or not:
//! a release that overtook its acquire would leave a lock behind that nobody releases. With an asynchronous client, this means one
//! connection, and that each request is written, or has its place in a channel, when [`submit`](super::LockNode::submit)
//! returns. A request that was not written when the connection broke must never be written to the next one.
//!
//! A reply that says nothing about whether the request took effect is an error for which
//! [`may_have_executed`](super::NodeError::may_have_executed) is true. The engine then releases.
//!
//! # Time
//!
//! A lock expires on the store's clock, `ttl` after the store carried out the request, or later. Never earlier: the holder counts from
//! before it sent the request. A clock that is never set is best, because only its rate matters. With a wall clock, as in Redis and
//! PostgreSQL, a step forward ends locks early, and the node says so in its docs. A store with leases in whole seconds rounds up; one
//! whose locks live as long as a session learns from [`set_max_ttl`](super::LockNode::set_max_ttl) how long that has to be.
//!
//! [`Inspection::clock_micros`](super::Inspection::clock_micros) is a wall clock, for the end of quarantines and as a hint for
//! tokens.
//!
//! The engine limits how long a request may take, by [`node_timeout`](super::LockNode::node_timeout), whose default
//! is for stores in memory. [`submit`](super::LockNode::submit) must not block.
//!
//! # Forgetting
//!
//! A node that forgot a lock would grant it again. So a node says from which memory it answers: the
//! [run id](super::Inspection::run_id). The record has the run id under which it was written, and a node whose run id is another one
//! becomes a member again only after a quarantine, when every lock that it may have forgotten is over. What makes a
//! good run id depends on the store:
//!
//! | store | run id | because |
//! |---|---|---|
//! | Redis | the id that the server draws when it starts, and the id of the history of its data | whatever it saved, the last writes may be missing; and it may have been a replica in between |
//! | a database that recovers every commit | its system id, and what differs after a promotion or a restored backup | a restart loses nothing |
//! | the same, without waiting for the disk | also a value that a crash erases, in an unlogged table | a clean restart loses nothing |
//! | a store with consensus | the id of its cluster, which a restored backup does not have | a majority of its members remembers |
//!
//! Locks, fences and record have to be in one memory: they are lost together, or not at all. A request names the
//! [`Epoch`](super::Epoch) in which the node was admitted, and the node compares it with the epoch of its record, in the
//! same atomic step: otherwise a node that forgot could vote before it is inspected.
//!
//! # A store that must not be used
//!
//! An inspection that finds that out returns [`NodeError::Refused`](super::NodeError::Refused), with
//! [`Refusal::Unusable`](super::Refusal::Unusable) for reasons that only this kind of store has: a replica, say, or a setting that
//! loses data. [`connect`](crate::LockManagerBuilder::connect) fails with it.
//!
//! # Example
//!
//! A node in which every method is one transaction on a table: here behind a mutex, so that requests are
//! executed in the order of the calls.
//!
//! **A node without a waiting room is complete.** Queue, reservations and wake-ups save turns and time; exclusion and tokens do not rest on
//! them. This node has none of them: [`wakeups`](super::LockNode::wakeups) stays as it is, and waiters poll. To this node, a reader is one
//! more writer: readers then exclude each other, and nothing breaks. Without [`evict`](super::LockNode::evict), nobody could force a release.
//!
//! [`Conformance`](super::conformance::Conformance) compares it with the rules, apart from what it does without. It needs the feature
//! `conformance` of `lock-core`, which `lock-axum` does not have:
//!
//! ```toml
//! [dev-dependencies]
//! lock-core = { version = "0.1", features = ["conformance"] }
//! ```
//!
//! ```
//! use std::collections::HashMap;
//! use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
//! use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
//!
//! use lock_core::node::{
//!     EVICTION_GAP, Epoch, Evict, Eviction, FenceReading, FoundRecord, Holder, Inspection, Keyspace, LockKeys, LockState, Look, NodeFuture,
//!     NodeRecord, Operation, OwnerId, RecordWrite, Reply, ReplySender, Request,
//! };
//! # #[cfg(feature = "conformance")]
//! use lock_core::node::conformance::{Conformance, Lack};
//! use lock_core::{LockError, LockManager, LockNode, NodeError};
//!
//! /// No node counts further.
//! const MAX_TOKEN: u64 = (1 << 53) - 1;
//!
//! #[derive(Clone)]
//! struct TableNode(Arc<Mutex<Table>>);
//!
//! struct Table {
//!     run_id: &'static str,
//!     record: Option<NodeRecord>,
//!     /// By lock key: who has the lock, and when it expires.
//!     locks: HashMap<String, (OwnerId, Instant)>,
//!     /// The highest token of each fence, and what all are raised to.
//!     fences: HashMap<u16, u64>,
//!     floor: u64,
//!     /// Who was evicted, and for how long that bars them.
//!     tombstones: Vec<(String, OwnerId, Instant)>,
//! }
//!
//! impl Table {
//!     fn begin(&mut self, epoch: Option<Epoch>) -> Result<Instant, NodeError> {
//!         let now = Instant::now();
//!         self.locks.retain(|_, (_, expires)| *expires > now);
//!         self.tombstones.retain(|(_, _, until)| *until > now);
//!         let own = self.record.as_ref().filter(|record| record.run_id == self.run_id).and_then(|record| record.epoch);
//!         if epoch.is_none() || epoch == own { Ok(now) } else { Err(NodeError::Unadmitted) }
//!     }
//!
//!     fn fence(&self, keys: &LockKeys) -> u64 {
//!         self.fences.get(&keys.fence()).copied().unwrap_or_default().max(self.floor)
//!     }
//!
//!     fn set(&mut self, keys: &LockKeys, owner: OwnerId, expires: Instant, fence: u64) {
//!         self.locks.insert(keys.lock_key().to_owned(), (owner, expires));
//!         self.fences.insert(keys.fence(), fence);
//!     }
//!
//!     fn execute(&mut self, Request { keys, epoch, operation, .. }: &Request) -> Result<Reply, NodeError> {
//!         let now = self.begin(Some(*epoch))?;
//!         let (found, fence) = (self.locks.get(keys.lock_key()).copied(), self.fence(keys));
//!         let holds = |owner| found.is_some_and(|(holder, _)| holder == owner);
//!         let barred = |owner| self.tombstones.iter().any(|(key, of, _)| key == keys.lock_key() && *of == owner);
//!         let held = |remaining| Reply::Held { remaining: Some(remaining), stranger: false, position: None, offer: None };
//!         Ok(match *operation {
//!             // The same attempt again.
//!             Operation::Acquire { owner, .. } if holds(owner) => Reply::Granted { token: fence },
//!             Operation::Acquire { owner, .. } if found.is_none() && barred(owner) => held(Duration::ZERO),
//!             Operation::Acquire { owner, ttl, hint, tokens, .. } => match found {
//!                 Some((_, expires)) => held(expires - now),
//!                 None => {
//!                     let token = hint.max(fence + 1) + u64::from(tokens) - 1;
//!                     if token > MAX_TOKEN {
//!                         let detail = "the fence is used up".to_owned();
//!                         return Err(NodeError::Rejected { code: "table".to_owned(), detail });
//!                     }
//!                     self.set(keys, owner, now + ttl, token);
//!                     Reply::Granted { token }
//!                 }
//!             },
//!             Operation::Confirm { owner, token } if holds(owner) && fence <= token => {
//!                 self.fences.insert(keys.fence(), token);
//!                 Reply::Confirmed
//!             }
//!             Operation::Confirm { .. } => Reply::Refused { fence },
//!             Operation::Extend { owner, ttl } | Operation::Downgrade { owner, ttl } if holds(owner) => {
//!                 let expires = found.map_or(now, |(_, expires)| expires);
//!                 self.set(keys, owner, expires.max(now + ttl), fence);
//!                 Reply::Kept
//!             }
//!             Operation::Replace { owner, ttl, token, .. } if found.is_none() && !barred(owner) => {
//!                 self.set(keys, owner, now + ttl, fence.max(token));
//!                 Reply::Kept
//!             }
//!             Operation::Replace { owner, .. } if holds(owner) => Reply::Kept,
//!             Operation::Extend { .. } | Operation::Downgrade { .. } | Operation::Replace { .. } => Reply::Gone,
//!             Operation::Release { owner, .. } if holds(owner) => {
//!                 self.locks.remove(keys.lock_key());
//!                 Reply::Released
//!             }
//!             Operation::Release { .. } => Reply::NotOwner,
//!             // To leave a queue: there is none.
//!             _ => Reply::QueueLeft,
//!         })
//!     }
//!
//!     fn state(&self, keys: &LockKeys, now: Instant) -> LockState {
//!         let found = self.locks.get(keys.lock_key());
//!         let of_lock = self.tombstones.iter().filter(|(key, ..)| key == keys.lock_key());
//!         LockState {
//!             holder: found.map(|(owner, _)| Holder::Owner(*owner)),
//!             remaining: found.map(|(_, expires)| *expires - now),
//!             fence: self.fence(keys),
//!             waiters: 0,
//!             readers: Vec::new(),
//!             evicted: of_lock.map(|(_, owner, _)| *owner).collect(),
//!         }
//!     }
//!
//!     fn evict(&mut self, Evict { keys, epoch, holders, token, barred_for }: &Evict) -> Result<Eviction, NodeError> {
//!         let now = self.begin(Some(*epoch))?;
//!         let state = self.state(keys, now);
//!         // Nobody has it for a moment after an eviction.
//!         let holder = state.holder.filter(|holder| *holder != Holder::Owner(OwnerId::NOBODY));
//!         if holder.as_ref().is_some_and(|holder| !holders.contains(holder)) {
//!             return Ok(Eviction::Superseded);
//!         }
//!         if state.fence >= *token {
//!             return Ok(Eviction::Refused { fence: state.fence });
//!         }
//!         for owner in holders.iter().filter_map(Holder::owner) {
//!             self.tombstones.retain(|(key, of, _)| key != keys.lock_key() || *of != owner);
//!             self.tombstones.push((keys.lock_key().to_owned(), owner, now + *barred_for));
//!         }
//!         self.fences.insert(keys.fence(), *token);
//!         if holder.is_some() {
//!             self.locks.insert(keys.lock_key().to_owned(), (OwnerId::NOBODY, now + EVICTION_GAP));
//!         }
//!         Ok(Eviction::Evicted { deleted: holder.is_some() })
//!     }
//! }
//!
//! impl TableNode {
//!     fn new(run_id: &'static str) -> Self {
//!         let (locks, fences) = (HashMap::new(), HashMap::new());
//!         Self(Arc::new(Mutex::new(Table { run_id, record: None, locks, fences, floor: 0, tombstones: Vec::new() })))
//!     }
//!
//!     fn table(&self) -> MutexGuard<'_, Table> {
//!         self.0.lock().unwrap_or_else(PoisonError::into_inner)
//!     }
//! }
//!
//! fn wall_clock() -> u64 {
//!     let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
//!     u64::try_from(since_epoch.as_micros()).unwrap_or_default()
//! }
//!
//! impl LockNode for TableNode {
//!     fn name(&self) -> &str {
//!         "table"
//!     }
//!
//!     fn inspect(&self, _: &Arc<Keyspace>) -> NodeFuture<Result<Inspection, NodeError>> {
//!         let table = self.table();
//!         let record = table.record.clone().map_or(FoundRecord::None, FoundRecord::Record);
//!         let (run_id, clock_micros) = (table.run_id.to_owned(), wall_clock());
//!         Box::pin(async move { Ok(Inspection { run_id, log_position: None, durable: false, clock_micros, record }) })
//!     }
//!
//!     fn write_record(&self, _: &Arc<Keyspace>, write: RecordWrite) -> NodeFuture<Result<Option<NodeRecord>, NodeError>> {
//!         let mut table = self.table();
//!         let same_run = write.record.run_id == table.run_id;
//!         let written = write.apply(table.record.as_ref(), wall_clock()).filter(|_| same_run);
//!         if let Some(record) = &written {
//!             table.floor = table.floor.max(write.floor.unwrap_or_default());
//!             table.record = Some(record.clone());
//!         }
//!         Box::pin(async move { Ok(written) })
//!     }
//!
//!     fn read_fences(&self, _: &Arc<Keyspace>) -> NodeFuture<Result<Option<FenceReading>, NodeError>> {
//!         let table = self.table();
//!         let highest = table.fences.values().copied().max().unwrap_or_default().max(table.floor);
//!         let record = table.record.as_ref().filter(|record| record.run_id == table.run_id);
//!         let reading = record.map(|record| FenceReading { member: record.member, highest });
//!         Box::pin(async move { Ok(reading) })
//!     }
//!
//!     fn submit(&self, request: Request, reply_to: ReplySender) {
//!         let reply = self.table().execute(&request);
//!         reply_to.send(reply);
//!     }
//!
//!     fn look(&self, look: Look) -> NodeFuture<Result<Vec<LockState>, NodeError>> {
//!         let mut table = self.table();
//!         let states = table.begin(look.epoch).map(|now| look.keys.iter().map(|keys| table.state(keys, now)).collect());
//!         Box::pin(async move { states })
//!     }
//!
//!     fn evict(&self, evict: Evict) -> NodeFuture<Result<Eviction, NodeError>> {
//!         let evicted = self.table().evict(&evict);
//!         Box::pin(async move { evicted })
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // One store, so the set has one node.
//! let locks = LockManager::builder().nodes([TableNode::new("run 1")]).connect().await?;
//! let first = locks.lock("stock:42").acquire().await?;
//! assert!(matches!(locks.lock("stock:42").try_acquire().await, Err(LockError::Contended { .. })));
//! locks.force_release("stock:42").await?;
//! let second = locks.lock("stock:42").acquire().await?;
//! assert!(second.token() > first.token());
//! assert!(!first.release().await?);
//! assert!(second.release().await?);
//!
//! // In a test.
//! # #[cfg(feature = "conformance")]
//! let report = Conformance::default().lacks([Lack::WaitingRoom, Lack::Readers]).check(|| TableNode::new("run 1")).await?;
//! # #[cfg(feature = "conformance")]
//! assert!(report.compared > 100);
//! # Ok(())
//! # }
//! ```
//!
//! [`etcd`] is a sketch of another one.

pub mod etcd;
