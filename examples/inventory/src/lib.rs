//! The anti-oversell service, and the proof that it does not oversell.
//!
//! [`run`] starts several instances of a shop that share lock masters and one SQLite file, lets
//! buyers loose on them over HTTP, and counts what was sold, once for each [`Mode`]:
//!
//! | mode | what protects the read-pay-write of a purchase |
//! |---|---|
//! | no lock | nothing |
//! | process-local mutex | a mutex in each instance; there are several instances |
//! | distributed lock | `#[distributed_lock]` |
//! | lock, holder pauses > TTL | the same, but now and then a holder stops for longer than its lease |
//! | + fence checked at write only | the write refuses tokens older than the last *written* one |
//! | + fence claimed | the token is claimed before the read, and again before the write |
//! | one atomic SQL statement | the database, without any lock |
//!
//! The second half of the table is why locks need fences: a lease ends by itself, so that a dead
//! holder blocks nobody, and therefore it also ends under a holder that is only slow. That holder
//! finds out after the fact; only the store can refuse its late write. Where to start reading:
//! `handlers` (what a user of `lock_axum` writes), `purchase` (the ways to sell a unit) and `store`
//! (what a fence is in SQL).
//!
//! [`serve`] runs the shop as a service of its own, with the lock and the claimed fence.

mod config;
mod extract;
mod handlers;
mod instance;
mod load;
mod masters;
mod mode;
mod pauses;
mod problem;
mod purchase;
mod report;
mod scenario;
mod serve;
mod server;
mod store;
mod table;

pub use config::{Config, RunError};
pub use mode::Mode;
pub use report::{Answers, Report, Row};
pub use scenario::{Progress, run};
pub use serve::{ServeConfig, serve};
