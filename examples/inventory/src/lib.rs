//! A shop that cannot oversell, and the proof.
//!
//! The crate has three rooms:
//!
//! - `shop`: the service, with a handler that holds a distributed lock and claims a fence. Copy from
//!   here; start with the docs of `src/shop/mod.rs`.
//! - `proof`: everything that only the demonstration needs. It uses the shop, and the shop does not
//!   use it.
//! - `page`: the shop as a service, with several instances and a page that shows the locks at work.
//!
//! [`run`] starts several instances of the shop that share lock masters and one database, sends
//! buyers to them over HTTP, and counts what was sold, once for each [`Mode`]:
//!
//! | mode | what protects a purchase, which reads, pays and writes |
//! |---|---|
//! | no lock | nothing |
//! | process-local mutex | a mutex in each instance, of which there are several |
//! | distributed lock | `#[distributed_lock]` |
//! | lock, holder pauses > TTL | the same, but some holders stop for longer than their lease |
//! | + fence checked at write only | the write refuses a token that is older than the last *written* one |
//! | + fence claimed | the token is claimed before the read, and again before the write |
//! | one atomic SQL statement | the database, without a lock |
//!
//! The three modes with pauses show why a lock needs a fence. A lease expires, so that a holder that
//! crashed blocks nobody. It therefore also expires while a slow holder still runs. That holder
//! notices only afterwards, and only the store can refuse its late write.
//!
//! [`try_out`] shows the same without load, by trials: the schedule that oversells each handler, step by step.
//!
//! [`serve`] runs the shop as a service, with a page whose buttons make the proof by hand.

mod page;
mod proof;
mod shop;

pub use page::{Metrics, ServeConfig, install_recorder, serve};
pub use proof::{
    Answers, Config, LockStore, Mode, Progress, Report, Row, RunError, Signal, SignalWatcher, TrialReport, TrialRow,
    run, try_out,
};
pub use shop::Database;
